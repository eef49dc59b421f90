//! The server's certificates while it runs: leaves are renewed before they end, and changes of the directory are used, such as
//! those of `corten certificate`.
//!
//! The directory is the only record. Whatever changed in it, the same steps follow: load it (which issues what is missing,
//! stale or signed by another CA), use it on new connections, publish it. *Invariant:* a directory that cannot be loaded
//! changes nothing.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use corten_api::value;
use corten_apiserver::Certificates;
use corten_base::Clock;
use corten_client::{Client, Key, Patch, kinds};
use corten_pki::{KubeconfigNames, LiveCertificates, Sans, ServerPki, write_kubeconfig};
use corten_sys::files::Entries;
use jiff::Timestamp;

use super::authentication;
use crate::join::fingerprint;
use crate::node::{KubeletTls, Node, serving_request};

/// The time after which a directory is read again that could not be loaded, or that cannot be watched.
const RETRY: Duration = Duration::from_secs(60);
/// The time between attempts to acknowledge CAs in a Node.
const ACKNOWLEDGE_AGAIN: Duration = Duration::from_secs(1);

/// Follows the certificates of a directory.
pub(super) struct Follower {
    directory: PathBuf,
    sans: Sans,
    clock: Clock,
    /// The texts in use: the serving and the administrator's certificate, and the trusted and retired CAs.
    used: [String; 4],
    due: Timestamp,
    events: Option<Entries>,
}

impl Follower {
    /// Follows a directory whose certificates are in use.
    pub(super) fn new(directory: &Path, sans: Sans, used: &ServerPki, clock: Clock) -> Follower {
        let events = Entries::of(directory)
            .inspect_err(|err| tracing::warn!(%err, "cannot watch certificates; reading them every minute"))
            .ok();
        Follower {
            directory: directory.to_owned(),
            sans,
            clock,
            used: texts(used),
            due: Timestamp::try_from(used.renewal).unwrap_or(Timestamp::MAX),
            events,
        }
    }

    /// Waits until other certificates are to be used. Cancel-safe.
    pub(super) async fn next(&mut self) -> ServerPki {
        loop {
            self.wait().await;
            let now = SystemTime::from(self.clock.now());
            match ServerPki::load_or_create(&self.directory, &self.sans, now) {
                Ok(fresh) => {
                    self.due = Timestamp::try_from(fresh.renewal).unwrap_or(Timestamp::MAX);
                    let texts = texts(&fresh);
                    if texts != self.used {
                        self.used = texts;
                        return fresh;
                    }
                }
                Err(err) => {
                    let err = &err as &dyn std::error::Error;
                    tracing::warn!(err, "cannot load certificates; keeping those in use");
                    self.due = self.clock.now() + RETRY;
                }
            }
        }
    }

    /// Waits for a change of the directory, or until a certificate is to be renewed.
    async fn wait(&mut self) {
        let Some(events) = &mut self.events else {
            return self.clock.sleep_until(self.due.min(self.clock.now() + RETRY)).await;
        };
        tokio::select! {
            () = self.clock.sleep_until(self.due) => {}
            changed = events.next() => {
                if let Err(err) = changed {
                    tracing::warn!(%err, "cannot watch certificates; reading them every minute");
                    self.events = None;
                }
            }
        }
    }
}

fn texts(pki: &ServerPki) -> [String; 4] {
    [&pki.serving.cert_pem, &pki.admin_cert_pem, &pki.ca_pem, &pki.retired_pem].map(Clone::clone)
}

/// The annotation in which a node acknowledges the CAs that it uses.
pub(crate) const AUTHORITIES_ANNOTATION: &str = "corten.io/certificate-authorities";

/// The node in this process, whose kubelet's certificate this process issues.
pub(super) struct OwnNode {
    pub(super) name: String,
    pub(super) sans: Sans,
    pub(super) node: Node,
}

/// All that uses the certificates of the directory.
pub(super) struct User {
    pub(super) live: LiveCertificates,
    pub(super) trust: Certificates,
    pub(super) administrator: Client,
    pub(super) kubeconfig: PathBuf,
    /// The server's URL in the kubeconfig.
    pub(super) server: String,
    /// The trusted CAs.
    pub(super) bundle: String,
    pub(super) node: Option<OwnNode>,
}

impl User {
    /// Uses other certificates. True if the CAs are others. A part that fails keeps what it had, and is logged.
    pub(super) async fn use_certificates(
        &mut self,
        fresh: &ServerPki,
        flags: &authentication::Flags,
    ) -> bool {
        let is_other_ca = fresh.ca_pem != self.bundle;
        let failed = |err: anyhow::Error, part: &str| {
            tracing::error!(err = %format!("{err:#}"), part, "cannot use new certificates; keeping those in use");
        };
        // New CAs are trusted before a certificate that they signed is presented.
        if is_other_ca {
            let closes = loses(&self.bundle, &fresh.ca_pem);
            let trusted = match flags.client_authorities(&fresh.ca_pem) {
                Ok(all) => {
                    self.trust.trust(&all, &fresh.retired_pem, closes).await.map_err(anyhow::Error::msg)
                }
                Err(err) => Err(err),
            };
            if let Err(err) = trusted {
                failed(err, "clients");
            }
        }
        if let Err(err) = self.live.replace(fresh) {
            failed(err.into(), "server");
        }
        if let Some(OwnNode { name, sans, node }) = &self.node
            && let Err(err) = renew_kubelet(fresh, name, sans, &node.tls)
        {
            failed(err, "kubelet");
        }
        let credentials = fresh.admin_credentials(&self.server);
        if let Err(err) = write_kubeconfig(&self.kubeconfig, &credentials, KubeconfigNames::default()) {
            failed(err.into(), "kubeconfig");
        }
        self.bundle.clone_from(&fresh.ca_pem);
        tracing::info!(is_other_ca, "using new certificates");
        is_other_ca
    }

    /// Acknowledges the CAs in the Node of this process, once that exists.
    pub(super) fn acknowledge(&self) {
        let Some(own) = &self.node else { return };
        let key = Key::new("", own.name.as_str());
        let mut patch = value!({"metadata": {"annotations": {}}});
        patch.set(&["metadata", "annotations", AUTHORITIES_ANNOTATION], fingerprint(&self.bundle));
        let client = self.administrator.clone();
        own.node.spawn(async move {
            while let Err(err) = client.patch(&kinds::NODES, &key, &Patch::Merge(patch.clone()), "").await {
                tracing::debug!(%err, "cannot acknowledge the CAs; retrying");
                tokio::time::sleep(ACKNOWLEDGE_AGAIN).await;
            }
        });
    }
}

/// Issues the kubelet's certificate again, and trusts the CAs of a server.
fn renew_kubelet(pki: &ServerPki, node: &str, sans: &Sans, tls: &KubeletTls) -> anyhow::Result<()> {
    let request = serving_request(node, sans.clone());
    let leaf =
        pki.authority.issue(&request, SystemTime::now()).context("cannot issue the node's certificate")?;
    if let Some(authorities) = &tls.authorities {
        authorities.replace(&pki.ca_pem).context("cannot use the CAs of the kubelet's clients")?;
    }
    tls.serving.replace(&leaf).context("cannot use the node's certificate")
}

/// True if a CA of one bundle is not in another one.
pub(super) fn loses(before: &str, after: &str) -> bool {
    let [before, after] = [before, after].map(|pem| corten_pki::pem_certificates(pem).unwrap_or_default());
    before.iter().any(|authority| !after.contains(authority))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use corten_pki::{RolloverStage, begin_rollover, finish_rollover, switch_authority};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    struct Fixture {
        directory: tempfile::TempDir,
        clock: Clock,
        control: corten_base::ClockControl,
        pki: ServerPki,
    }

    impl Fixture {
        fn new() -> Fixture {
            let directory = tempfile::tempdir().unwrap();
            let (clock, control) = Clock::manual(Timestamp::from_second(1_800_000_000).unwrap());
            let pki =
                ServerPki::load_or_create(directory.path(), &Sans::default(), clock.now().into()).unwrap();
            Fixture { directory, clock, control, pki }
        }

        fn follower(&self) -> Follower {
            Follower::new(self.directory.path(), Sans::default(), &self.pki, self.clock.clone())
        }
    }

    #[tokio::test]
    async fn leaves_are_renewed_before_they_end() {
        let fixture = Fixture::new();
        let mut follower = fixture.follower();
        let short = Duration::from_millis(50);
        fixture.control.advance(334 * DAY);
        assert!(tokio::time::timeout(short, follower.next()).await.is_err(), "a month is left");
        fixture.control.advance(2 * DAY);
        let fresh = follower.next().await;
        assert_ne!(fresh.serving.cert_pem, fixture.pki.serving.cert_pem);
        assert_ne!(fresh.admin_cert_pem, fixture.pki.admin_cert_pem);
        assert_eq!(fresh.ca_pem, fixture.pki.ca_pem, "the CA is not replaced");
        assert!(fresh.renewal > fixture.pki.renewal + 300 * DAY);
        assert!(tokio::time::timeout(short, follower.next()).await.is_err(), "once");
    }

    #[tokio::test]
    async fn removed_leaves_and_steps_of_a_rollover_are_followed() {
        let fixture = Fixture::new();
        let directory = fixture.directory.path();
        let mut follower = fixture.follower();
        std::fs::remove_file(directory.join("apiserver.crt")).unwrap();
        let fresh = follower.next().await;
        assert_ne!(fresh.serving.cert_pem, fixture.pki.serving.cert_pem);
        begin_rollover(directory, fixture.clock.now().into()).unwrap();
        let trusted = follower.next().await;
        assert!(trusted.ca_pem.starts_with(&fixture.pki.ca_pem) && trusted.ca_pem != fixture.pki.ca_pem);
        assert!(!loses(&fixture.pki.ca_pem, &trusted.ca_pem));
        switch_authority(directory).unwrap();
        let mut replaced = follower.next().await;
        // The steps of the switch may be seen one by one.
        while RolloverStage::of(directory).unwrap() != RolloverStage::Replaced
            || loses(&trusted.ca_pem, &replaced.ca_pem)
        {
            replaced = follower.next().await;
        }
        assert_ne!(replaced.serving.cert_pem, fresh.serving.cert_pem, "signed by the new CA");
        finish_rollover(directory).unwrap();
        let settled = follower.next().await;
        assert!(loses(&replaced.ca_pem, &settled.ca_pem) && !loses(&settled.ca_pem, &replaced.ca_pem));
        assert_eq!(settled.retired_pem, fixture.pki.ca_pem);
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.ends_with(".key") || mode == 0o600, "{name}: {mode:o}");
        }
    }
}
