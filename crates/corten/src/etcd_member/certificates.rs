//! The certificates of a member: `DATA_DIR/pki/etcd`, with kubeadm's names. Only servers have certificates of this CA.
//!
//! etcd reads its files again with every handshake, so that certificates that were issued again at a start are used at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use corten_grpc::Endpoint;
use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use rustls::{ClientConfig, RootCertStore};

use super::settings::Settings;

const CLIENT: &str = "apiserver-etcd-client";

pub(super) struct Certificates {
    directory: PathBuf,
    client: Arc<ClientConfig>,
}

impl Certificates {
    /// Loads the certificates, makes the missing ones and issues stale ones again.
    pub(super) fn load_or_issue(data_dir: &Path, settings: &Settings) -> anyhow::Result<Certificates> {
        let pki_dir = data_dir.join("pki");
        let directory = pki_dir.join("etcd");
        for directory in [&pki_dir, &directory] {
            corten_base::files::private_directory(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        let now = SystemTime::now();
        let authority = Authority::load_or_create(&directory, "ca", "etcd-ca", now)?;
        let sans = Sans::default().with_address(settings.address);
        let local = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
        let server_sans = local.into_iter().fold(sans.clone(), Sans::with_address).with_host("localhost")?;
        let request = |sans: Sans, usage: LeafUsage| LeafRequest {
            common_name: settings.name.clone(),
            organization: None,
            sans,
            usage,
        };
        authority.load_or_issue(&directory, "server", &request(server_sans, LeafUsage::Peer), now)?;
        authority.load_or_issue(&directory, "peer", &request(sans, LeafUsage::Peer), now)?;
        let client = authority.load_or_issue(
            &pki_dir,
            CLIENT,
            &LeafRequest { common_name: CLIENT.to_owned(), ..request(Sans::default(), LeafUsage::Client) },
            now,
        )?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(client.chain()?, client.key()?)?;
        Ok(Certificates { directory, client: Arc::new(config) })
    }

    /// The path of a file, such as `server.crt`.
    pub(super) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(super) fn endpoints(&self, urls: &[String]) -> anyhow::Result<Vec<Endpoint>> {
        let endpoints = urls.iter().map(|url| Endpoint::parse(url, Some(&self.client)));
        Ok(endpoints.collect::<Result<_, _>>()?)
    }
}
