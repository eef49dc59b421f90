//! How a machine becomes a node of a cluster: from an invitation to a certificate of its own.
//!
//! The invitation is a bootstrap token, best with the fingerprint of the cluster's authority. What the cluster says of itself is
//! believed only if the token signed it, and if it has that fingerprint. Then the machine asks for a certificate in its name
//! and is that node from then on; the token is not needed again.

mod certificates;
mod discovery;
mod invitation;
mod transport;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_base::{Backoff, Clock};
use corten_client::{Client, Remote};
use corten_pki::{Credentials, KubeconfigNames, parse_kubeconfig, write_kubeconfig};

pub(crate) use certificates::{is_good, renewal, serving};
pub(crate) use invitation::{Invitation, fingerprint};
pub(crate) use transport::Renewable;

pub(crate) const AGENT: &str = "corten-agent";
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// What it takes to join.
pub(crate) struct Joining {
    /// `https://host:port`.
    pub(crate) server: String,
    /// Needed only once.
    pub(crate) means: Option<Means>,
    pub(crate) node_name: String,
    /// Where what identifies this machine is kept.
    pub(crate) kubeconfig: PathBuf,
}

/// By what a machine may ask to become a node.
pub(crate) enum Means {
    Invitation(Invitation),
    /// Those of somebody who may ask for nodes' certificates.
    Credentials(Credentials),
}

impl Joining {
    /// The way to the server as this node, which renews its certificate by itself for as long as `renew` runs.
    pub(crate) async fn join(self, clock: Clock) -> anyhow::Result<Joined> {
        create_private(self.kubeconfig.parent().unwrap_or(Path::new(".")))?;
        let credentials = match known(&self.kubeconfig, &self, &clock)? {
            Some(credentials) => credentials,
            None => self.bootstrap(&clock).await?,
        };
        let remote = Remote::new(&credentials).context("using this node's certificate")?;
        let transport = Renewable::new(remote);
        let client = Client::new(Arc::new(transport.clone()), AGENT);
        Ok(Joined { joining: self, credentials, transport, client, clock })
    }

    /// Becomes a node of the cluster.
    async fn bootstrap(&self, clock: &Clock) -> anyhow::Result<Credentials> {
        let Some(means) = &self.means else {
            bail!(
                "this machine is no node of {} yet; give --token, as `corten token create` prints it",
                self.server
            )
        };
        if let Means::Invitation(invitation) = means {
            invitation.verifiable()?;
        }
        let mut failures = 0;
        loop {
            let attempt = async {
                let known = match means {
                    Means::Invitation(invitation) => discovery::discover(&self.server, invitation).await?,
                    Means::Credentials(credentials) => credentials.clone(),
                };
                let as_invited = Remote::new(&known)?;
                let client = Client::new(Arc::new(as_invited), AGENT);
                certificates::client(&client, &self.node_name, &known, clock).await
            };
            match attempt.await {
                Ok(credentials) => {
                    self.keep(&credentials)?;
                    tracing::info!(node = self.node_name, server = self.server, "this machine has joined");
                    return Ok(credentials);
                }
                Err(error) if error.is::<discovery::Refused>() => return Err(error),
                Err(error) => {
                    failures += 1;
                    let reason = format!("{error:#}");
                    tracing::warn!(server = self.server, reason, "joining failed; trying again");
                    clock.sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    fn keep(&self, credentials: &Credentials) -> anyhow::Result<()> {
        let user = format!("system:node:{}", self.node_name);
        let names = KubeconfigNames { cluster: "corten", user: &user, context: "corten" };
        let path = &self.kubeconfig;
        write_kubeconfig(path, credentials, names).with_context(|| format!("writing {}", path.display()))
    }
}

/// A node of a cluster.
pub(crate) struct Joined {
    joining: Joining,
    credentials: Credentials,
    transport: Renewable,
    /// Speaks as the node, always with its current certificate.
    pub(crate) client: Client,
    clock: Clock,
}

impl Joined {
    /// Who vouches for the cluster.
    pub(crate) fn authority_pem(&self) -> &str {
        &self.credentials.ca_pem
    }

    /// Has the node's certificate renewed before it is over, for good.
    pub(crate) async fn renew(mut self) {
        let mut failures = 0;
        loop {
            let due = match renewal(&self.credentials.cert_pem) {
                Ok(due) => due,
                Err(error) => return tracing::error!(%error, "the node's certificate cannot be read"),
            };
            self.clock.sleep_until(due).await;
            let node = &self.joining.node_name;
            let renewed = certificates::client(&self.client, node, &self.credentials, &self.clock).await;
            match renewed.and_then(|credentials| self.take(credentials)) {
                Ok(()) => {
                    failures = 0;
                    tracing::info!(node = self.joining.node_name, "the node's certificate is renewed");
                }
                Err(error) => {
                    failures += 1;
                    let reason = format!("{error:#}");
                    tracing::warn!(reason, "the node's certificate could not be renewed yet");
                    self.clock.sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    fn take(&mut self, credentials: Credentials) -> anyhow::Result<()> {
        let remote = Remote::new(&credentials).context("using the new certificate")?;
        self.joining.keep(&credentials)?;
        self.transport.replace(remote);
        self.credentials = credentials;
        Ok(())
    }
}

/// What an earlier run was given, if it is still good for this server and this node.
fn known(path: &Path, joining: &Joining, clock: &Clock) -> anyhow::Result<Option<Credentials>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let mut credentials = parse_kubeconfig(&text).with_context(|| format!("reading {}", path.display()))?;
    let good = is_good(&credentials.cert_pem, &joining.node_name, clock);
    credentials.server = joining.server.clone();
    Ok(good.then_some(credentials))
}

fn create_private(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).with_context(|| format!("creating {}", folder.display()))
}
