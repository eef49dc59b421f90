//! All key material a control plane needs, from one directory.
//!
//! | file | what |
//! |---|---|
//! | `ca.crt` `ca.key` | signs everything below and every node's certificate |
//! | `apiserver.crt` `.key` | the API server's serving certificate |
//! | `admin.crt` `.key` | the administrator: user `system:admin`, group `system:masters` |
//! | `apiserver-kubelet-client.crt` `.key` | the API server's client certificate for kubelets |
//! | `front-proxy-ca.crt` `.key` | signs the proxies whose `X-Remote-*` headers are trusted |
//! | `front-proxy-client.crt` `.key` | the API server's client certificate for aggregated API servers |
//! | `ca-next`, `ca-cross`, `ca-previous`, `ca-retired` | while the CA is replaced, see `rollover` |
//! | `sa.key` `sa.pub` | signs and verifies service-account tokens (ES256) |

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::{self, generate_key, parse_key};
use crate::files::{self, Access};
use crate::kubeconfig::Credentials;
use crate::leaf::renewal_of;
use crate::pem::pem_certificates;
use crate::rollover::{self, CROSS, NEXT, PREVIOUS, RETIRED};
use crate::{
    Authority, Error, IssuedCert, LeafRequest, LeafUsage, LiveAuthorities, LiveCertificate, Result,
    RolloverStage, Sans,
};

const KEEP_TOKENS: &str = "restore it from a backup, or delete sa.key and sa.pub (every service-account token then becomes invalid)";
const ROLLOVER_REMEDY: &str = "restore it from a backup";
const RETIRED_REMEDY: &str = "delete it; it only lists authorities that are not trusted any more";
const REMAKE_PUBLIC: &str = "delete it and it will be made again from sa.key at the next start";

/// A control plane's key material, ready for rustls and for signing.
pub struct ServerPki {
    /// The cluster's authority: can sign further certificates.
    pub authority: Arc<Authority>,
    /// The trusted authorities in PEM, for kubeconfigs and `kube-root-ca.crt`: the one that signs, and while it is replaced the
    /// next or the previous one.
    pub ca_pem: String,
    /// Earlier authorities in PEM, which are not trusted any more.
    pub retired_pem: String,
    /// The roots that client certificates must chain to.
    pub client_ca: Vec<CertificateDer<'static>>,
    /// The serving certificate in PEM.
    pub serving_cert_pem: String,
    /// The serving certificate, with its chain, and its key.
    pub serving: IssuedCert,
    /// The serving certificate for rustls, leaf first.
    pub serving_chain: Vec<CertificateDer<'static>>,
    /// The serving certificate's key for rustls.
    pub serving_key: PrivateKeyDer<'static>,
    /// The administrator's certificate.
    pub admin_cert_pem: String,
    /// The administrator's key.
    pub admin_key_pem: String,
    /// The API server's client certificate for kubelets.
    pub kubelet_client: IssuedCert,
    /// The authority of front proxies; its certificates carry no identity of their own.
    pub front_proxy_authority: Authority,
    /// The API server's client certificate for aggregated API servers.
    pub front_proxy_client: IssuedCert,
    /// Signs service-account tokens.
    pub service_account_key_pem: String,
    /// The certificates as connections use them.
    pub live: LiveCertificates,
    /// The time at which a leaf is to be renewed.
    pub renewal: SystemTime,
    /// Verifies service-account tokens; may hold further, older keys after the current one.
    pub service_account_public_keys_pem: String,
}

/// The certificates as connections use them. Clones share them.
#[derive(Clone, Debug)]
pub struct LiveCertificates {
    pub serving: LiveCertificate,
    pub kubelet_client: LiveCertificate,
    pub front_proxy_client: LiveCertificate,
    /// Verify kubelets.
    pub authorities: LiveAuthorities,
}

impl LiveCertificates {
    /// Uses the certificates of a directory that was loaded again.
    pub fn replace(&self, fresh: &ServerPki) -> Result<()> {
        self.serving.replace(&fresh.serving)?;
        self.kubelet_client.replace(&fresh.kubelet_client)?;
        self.front_proxy_client.replace(&fresh.front_proxy_client)?;
        self.authorities.replace(&fresh.ca_pem)
    }
}

impl fmt::Debug for ServerPki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerPki").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl ServerPki {
    /// Loads what is in `dir`, makes what is missing, and issues stale leaf certificates again.
    pub fn load_or_create(dir: &Path, sans: &Sans, now: SystemTime) -> Result<ServerPki> {
        files::private_directory(dir)?;
        rollover::recover(dir)?;
        let authority = Authority::load_or_create(dir, "ca", authority::CLUSTER, now)?;
        let front_proxy_authority = Authority::load_or_create(dir, "front-proxy-ca", "front-proxy-ca", now)?;
        let (service_account_key_pem, service_account_public_keys_pem) = service_account_keys(dir)?;
        let serving = authority.load_or_issue(dir, "apiserver", &serving_request(sans), now)?;
        let admin = authority.load_or_issue(dir, "admin", &admin_request(), now)?;
        let kubelet_client =
            authority.load_or_issue(dir, "apiserver-kubelet-client", &kubelet_client_request(), now)?;
        let front_proxy_client = front_proxy_authority.load_or_issue(
            dir,
            "front-proxy-client",
            &front_proxy_client_request(),
            now,
        )?;
        files::sync_directory(dir)?;
        let renewal = renewal_of([&serving, &admin, &kubelet_client, &front_proxy_client])?;
        let (ca_pem, chain) = trusted(dir, &authority)?;
        let with_chain = |leaf: IssuedCert| IssuedCert { cert_pem: leaf.cert_pem + &chain, ..leaf };
        let (serving, kubelet_client) = (with_chain(serving), with_chain(kubelet_client));
        let live = LiveCertificates {
            serving: LiveCertificate::new(&serving)?,
            kubelet_client: LiveCertificate::new(&kubelet_client)?,
            front_proxy_client: LiveCertificate::new(&front_proxy_client)?,
            authorities: LiveAuthorities::new(&ca_pem)?,
        };
        Ok(ServerPki {
            client_ca: pem_certificates(&ca_pem)?,
            ca_pem,
            retired_pem: files::read(&dir.join(RETIRED), RETIRED_REMEDY)?.unwrap_or_default(),
            live,
            renewal,
            serving_chain: serving.chain()?,
            serving_key: serving.key()?,
            serving_cert_pem: serving.cert_pem.clone(),
            serving,
            admin_cert_pem: admin.cert_pem,
            admin_key_pem: admin.key_pem,
            kubelet_client,
            authority: Arc::new(authority),
            front_proxy_authority,
            front_proxy_client,
            service_account_key_pem,
            service_account_public_keys_pem,
        })
    }

    /// The content of the administrator's kubeconfig, for a server at `server_url`.
    pub fn admin_credentials(&self, server_url: &str) -> Credentials {
        Credentials {
            server: server_url.to_owned(),
            ca_pem: self.ca_pem.clone(),
            cert_pem: self.admin_cert_pem.clone(),
            key_pem: self.admin_key_pem.clone(),
            token: None,
        }
    }
}

/// The bundle of the authorities that a directory's server trusts, as [`ServerPki::ca_pem`].
pub fn trusted_authorities(dir: &Path) -> Result<String> {
    rollover::recover(dir)?;
    let authority = Authority::load(&dir.join("ca.crt"), &dir.join("ca.key"))?;
    trusted(dir, &authority).map(|(bundle, _)| bundle)
}

/// The bundle of trusted authorities, and the certificates after a leaf.
fn trusted(dir: &Path, authority: &Authority) -> Result<(String, String)> {
    let mut bundle = line_ended(authority.pem());
    let more = match RolloverStage::of(dir)? {
        RolloverStage::Settled => return Ok((bundle, String::new())),
        RolloverStage::Trusted => format!("{NEXT}.crt"),
        RolloverStage::Replaced => PREVIOUS.to_owned(),
    };
    let read = |name: &str| files::read(&dir.join(name), ROLLOVER_REMEDY);
    bundle.push_str(&line_ended(&read(&more)?.unwrap_or_default()));
    // Before the switch, the cross certificate is about a key that signs nothing yet.
    let chain = if more == PREVIOUS { read(CROSS)?.unwrap_or_default() } else { String::new() };
    Ok((bundle, chain))
}

/// A PEM text that another one can follow.
fn line_ended(pem: &str) -> String {
    if pem.ends_with('\n') { pem.to_owned() } else { format!("{pem}\n") }
}

fn serving_request(sans: &Sans) -> LeafRequest {
    LeafRequest {
        common_name: "kube-apiserver".to_owned(),
        organization: None,
        sans: sans.clone(),
        usage: LeafUsage::Server,
    }
}

fn admin_request() -> LeafRequest {
    LeafRequest {
        common_name: "system:admin".to_owned(),
        organization: Some("system:masters".to_owned()),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    }
}

fn kubelet_client_request() -> LeafRequest {
    LeafRequest {
        common_name: "kube-apiserver-kubelet-client".to_owned(),
        organization: Some("system:masters".to_owned()),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    }
}

fn front_proxy_client_request() -> LeafRequest {
    LeafRequest {
        common_name: "front-proxy-client".to_owned(),
        organization: None,
        sans: Sans::default(),
        usage: LeafUsage::Client,
    }
}

/// The token keys. The private key is written first: a public key alone means that the private one is lost.
fn service_account_keys(dir: &Path) -> Result<(String, String)> {
    let (key_path, public_path) = (dir.join("sa.key"), dir.join("sa.pub"));
    let public = files::read(&public_path, REMAKE_PUBLIC)?;
    let (key, key_pem) = match files::read_private(&key_path, KEEP_TOKENS)? {
        Some(pem) => (parse_key(&key_path, &pem, KEEP_TOKENS)?, pem),
        None if public.is_some() => {
            return Err(Error::broken(&key_path, "is missing although sa.pub is there", KEEP_TOKENS));
        }
        None => {
            let key = generate_key()?;
            let pem = key.serialize_pem();
            files::write(&key_path, &pem, Access::Owner)?;
            (key, pem)
        }
    };
    let own = key.public_key_pem();
    let public = match public {
        Some(text) if without_whitespace(&text).contains(&without_whitespace(&own)) => text,
        Some(_) => return Err(Error::broken(&public_path, "does not belong to sa.key", REMAKE_PUBLIC)),
        None => {
            files::write(&public_path, &own, Access::Everyone)?;
            own
        }
    };
    Ok((key_pem, public))
}

/// A PEM text without whitespace, to compare texts that differ in line endings only.
fn without_whitespace(pem: &str) -> String {
    pem.split_whitespace().collect()
}

#[cfg(test)]
mod tests;
