//! Who a kubelet is that runs alone: what its kubeconfig says or, before there is one, what it is given when it asks with
//! another. Its certificate is renewed if the configuration wants that.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::{Client, Remote};
use corten_kubelet::configuration::Configuration;
use corten_pki::{Credentials, parse_kubeconfig};
use corten_reconcile::Manager;

use super::Args;
use crate::agent::AGENT;
use crate::join::{Joined, Joining, Means, is_good};

/// How the kubelet speaks to the API server.
pub(super) struct Identity {
    pub(super) client: Client,
    /// What can be renewed.
    joined: Option<Joined>,
}

impl Identity {
    /// Reads it, or asks for it.
    pub(super) async fn find(
        args: &Args,
        configuration: &Configuration,
        node: &str,
        clock: &Clock,
    ) -> anyhow::Result<Identity> {
        let Some(path) = &args.kubeconfig else {
            bail!("--kubeconfig says which server to work on; give one");
        };
        let own = path.exists().then(|| read(path)).transpose()?;
        let first = args.bootstrap_kubeconfig.as_deref().map(read).transpose()?;
        let good = own.as_ref().is_some_and(|own| is_good(&own.cert_pem, node, clock));
        let rotates = configuration.bool("rotateCertificates");
        match (own, first) {
            // Whoever is no node by certificate is left as they are.
            (Some(own), None) if !good || !rotates => Identity::fixed(&own),
            (None, None) => read(path).and_then(|own| Identity::fixed(&own)),
            (own, first) => {
                let server = first.as_ref().or(own.as_ref()).map(|known| known.server.clone());
                let joining = Joining {
                    server: server.unwrap_or_default(),
                    means: first.map(Means::Credentials),
                    node_name: node.to_owned(),
                    kubeconfig: path.clone(),
                };
                let joined = joining.join(clock.clone()).await?;
                let client = joined.client.named(AGENT);
                Ok(Identity { client, joined: rotates.then_some(joined) })
            }
        }
    }

    fn fixed(credentials: &Credentials) -> anyhow::Result<Identity> {
        let remote =
            Remote::new(credentials).with_context(|| format!("preparing for {}", credentials.server))?;
        Ok(Identity { client: Client::new(Arc::new(remote), AGENT), joined: None })
    }

    /// Has the certificate renewed for as long as the manager lives.
    pub(super) fn keep(self, manager: &Manager) {
        if let Some(joined) = self.joined {
            manager.spawn(joined.renew());
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Credentials> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse_kubeconfig(&text).with_context(|| format!("reading {}", path.display()))
}
