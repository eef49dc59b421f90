//! The identity of `corten kubelet`: the user of its kubeconfig or, before there is one, of a certificate that it requests
//! with the bootstrap kubeconfig. The certificate is renewed if `rotateCertificates` is set.

use std::sync::Arc;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::{Client, Remote};
use corten_kubelet::configuration::Configuration;
use corten_pki::Credentials;
use corten_reconcile::Manager;

use super::Args;
use crate::join::{BootstrapCredentials, Joined, Joining, is_valid_for};
use crate::kubeconfig;
use crate::node::KUBELET_AGENT;

/// The kubelet's client of the API server.
pub(super) struct Identity {
    pub(super) client: Client,
    /// The certificate to renew.
    joined: Option<Joined>,
}

impl Identity {
    /// Reads the kubeconfig, or requests a certificate for it.
    pub(super) async fn find(
        args: &Args,
        configuration: &Configuration,
        node: &str,
        clock: &Clock,
    ) -> anyhow::Result<Identity> {
        let Some(path) = &args.kubeconfig else {
            bail!("no API server: name a kubeconfig with --kubeconfig");
        };
        let own = path.exists().then(|| kubeconfig::read(path)).transpose()?;
        let first = args.bootstrap_kubeconfig.as_deref().map(kubeconfig::read).transpose()?;
        let good = own.as_ref().is_some_and(|own| is_valid_for(&own.cert_pem, node, clock));
        let rotates = configuration.bool("rotateCertificates");
        match (own, first) {
            // Credentials other than a node's certificate are used as they are.
            (Some(own), None) if !good || !rotates => Identity::fixed(&own),
            (None, None) => kubeconfig::read(path).and_then(|own| Identity::fixed(&own)),
            (own, first) => {
                let server = first.as_ref().or(own.as_ref()).map(|known| known.server.clone());
                let joining = Joining {
                    servers: server.into_iter().collect(),
                    bootstrap: first.map(BootstrapCredentials::Credentials),
                    node_name: node.to_owned(),
                    kubeconfig: path.clone(),
                };
                let joined = joining.join(clock.clone()).await?;
                let client = joined.client.named(KUBELET_AGENT);
                Ok(Identity { client, joined: rotates.then_some(joined) })
            }
        }
    }

    fn fixed(credentials: &Credentials) -> anyhow::Result<Identity> {
        let remote =
            Remote::new(credentials).with_context(|| format!("cannot connect to {}", credentials.server))?;
        Ok(Identity { client: Client::new(Arc::new(remote), KUBELET_AGENT), joined: None })
    }

    /// Renews the certificate until the manager is dropped.
    pub(super) fn renew(self, manager: &Manager) {
        if let Some(joined) = self.joined {
            manager.spawn(joined.renew());
        }
    }
}
