//! Joining a cluster: from a bootstrap token to a client certificate of the node.
//!
//! The bootstrap token should carry the fingerprint of the cluster's CA. `cluster-info` is trusted only if it is signed with
//! the token and its CA has that fingerprint. Then the machine requests a certificate for `system:node:NAME` and uses that
//! from then on; the token is not needed again.

mod certificates;
mod discovery;
mod invitation;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_base::{Backoff, Clock};
use corten_client::{Client, Remote, Servers};
use corten_pki::{Credentials, KubeconfigNames, parse_kubeconfig, write_kubeconfig};

pub(crate) use certificates::{is_valid_for, renewal_time, serving};
pub(crate) use invitation::{Invitation, fingerprint};

pub(crate) const AGENT: &str = "corten-agent";
const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// The settings for joining.
pub(crate) struct Joining {
    /// The API servers, each as `https://host:port`. Any of them will do.
    pub(crate) servers: Vec<String>,
    /// Needed only for the first certificate.
    pub(crate) bootstrap: Option<BootstrapCredentials>,
    pub(crate) node_name: String,
    /// The file of the node's credentials.
    pub(crate) kubeconfig: PathBuf,
}

/// The credentials for the first certificate request.
pub(crate) enum BootstrapCredentials {
    Invitation(Invitation),
    /// Those of a user who may request node certificates.
    Credentials(Credentials),
}

impl Joining {
    /// Returns the client of this node. Its certificate is renewed for as long as `renew` runs.
    pub(crate) async fn join(self, clock: Clock) -> anyhow::Result<Joined> {
        create_private_directory(self.kubeconfig.parent().unwrap_or(Path::new(".")))?;
        let credentials = match stored_credentials(&self.kubeconfig, &self, &clock)? {
            Some(credentials) => credentials,
            None => self.bootstrap(&clock).await?,
        };
        let servers = Servers::new(&self.servers, credentials.clone(), &self.node_name)
            .context("cannot use this node's certificate")?;
        let client = Client::new(Arc::new(servers.clone()), AGENT);
        Ok(Joined { joining: self, credentials, servers, client, clock })
    }

    /// Gets the node's first certificate.
    async fn bootstrap(&self, clock: &Clock) -> anyhow::Result<Credentials> {
        let Some(bootstrap) = &self.bootstrap else {
            bail!(
                "this machine has not joined {} yet; give the token that `corten token create` prints with --token",
                self.servers.join(", ")
            )
        };
        if let BootstrapCredentials::Invitation(invitation) = bootstrap {
            invitation.verifiable()?;
        }
        let mut failures = 0;
        loop {
            for server in &self.servers {
                match self.request_certificate(server, bootstrap, clock).await {
                    Ok(credentials) => {
                        self.write_kubeconfig(&credentials)?;
                        tracing::info!(node = self.node_name, server, "joined the cluster");
                        return Ok(credentials);
                    }
                    Err(error) if error.is::<discovery::Refused>() => return Err(error),
                    Err(error) => {
                        let err = format!("{error:#}");
                        tracing::warn!(server, err, "cannot join the cluster; retrying");
                    }
                }
            }
            failures += 1;
            clock.sleep(RETRY.delay(failures)).await;
        }
    }

    /// Requests the node's first certificate from one of the servers.
    async fn request_certificate(
        &self,
        server: &str,
        bootstrap: &BootstrapCredentials,
        clock: &Clock,
    ) -> anyhow::Result<Credentials> {
        let known = match bootstrap {
            BootstrapCredentials::Invitation(invitation) => discovery::discover(server, invitation).await?,
            BootstrapCredentials::Credentials(credentials) => credentials.clone(),
        };
        let client = Client::new(Arc::new(Remote::new(&known)?), AGENT);
        certificates::client(&client, &self.node_name, &known, clock).await
    }

    fn write_kubeconfig(&self, credentials: &Credentials) -> anyhow::Result<()> {
        let user = format!("system:node:{}", self.node_name);
        let names = KubeconfigNames { cluster: "corten", user: &user, context: "corten" };
        let path = &self.kubeconfig;
        write_kubeconfig(path, credentials, names).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A machine that has joined a cluster.
pub(crate) struct Joined {
    joining: Joining,
    credentials: Credentials,
    servers: Servers,
    /// The client of the node, always with its current certificate.
    pub(crate) client: Client,
    clock: Clock,
}

impl Joined {
    /// The cluster's CA.
    pub(crate) fn authority_pem(&self) -> &str {
        &self.credentials.ca_pem
    }

    /// The connections to the API servers, which the client uses.
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Renews the node's certificate before it expires. Never returns while the certificate is readable.
    pub(crate) async fn renew(mut self) {
        let mut failures = 0;
        loop {
            let due = match renewal_time(&self.credentials.cert_pem) {
                Ok(due) => due,
                Err(err) => {
                    return tracing::error!(%err, "cannot read the node's certificate; it will not be renewed");
                }
            };
            self.clock.sleep_until(due).await;
            let node = &self.joining.node_name;
            let renewed = certificates::client(&self.client, node, &self.credentials, &self.clock).await;
            match renewed.and_then(|credentials| self.replace_credentials(credentials)) {
                Ok(()) => {
                    failures = 0;
                    tracing::info!(node = self.joining.node_name, "renewed the node's client certificate");
                }
                Err(error) => {
                    failures += 1;
                    let (node, err) = (&self.joining.node_name, format!("{error:#}"));
                    let backoff = RETRY.delay(failures);
                    tracing::warn!(
                        node,
                        err,
                        ?backoff,
                        "cannot renew the node's client certificate; retrying"
                    );
                    self.clock.sleep(backoff).await;
                }
            }
        }
    }

    fn replace_credentials(&mut self, credentials: Credentials) -> anyhow::Result<()> {
        self.joining.write_kubeconfig(&credentials)?;
        self.servers.replace_credentials(credentials.clone()).context("cannot use the new certificate")?;
        self.credentials = credentials;
        Ok(())
    }
}

/// The credentials of an earlier run, if they are still valid for this node.
fn stored_credentials(path: &Path, joining: &Joining, clock: &Clock) -> anyhow::Result<Option<Credentials>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut credentials =
        parse_kubeconfig(&text).with_context(|| format!("cannot read {}", path.display()))?;
    let good = is_valid_for(&credentials.cert_pem, &joining.node_name, clock);
    if let Some(server) = joining.servers.first() {
        credentials.server.clone_from(server);
    }
    Ok(good.then_some(credentials))
}

fn create_private_directory(folder: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).with_context(|| format!("cannot create {}", folder.display()))
}
