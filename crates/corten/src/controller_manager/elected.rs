//! A component of `corten server` that works while this server leads it.
//!
//! Invariants: the component has no task while another server leads it; what it does is dropped before its lease is given up,
//! and when the lease is lost, after which this server is a candidate again. Unlike a process of its own, which exits.

use corten_base::Clock;
use corten_client::Client;
use corten_reconcile::{Election, Leadership};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An election in which this server is a candidate, as the component's user.
pub(super) struct Candidacy {
    pub(super) client: Client,
    pub(super) election: Election,
}

/// A component that may have to be elected before it works.
pub(super) struct Elected {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Elected {
    /// Starts `work` whenever this server leads; its result works until it is dropped.
    pub(super) fn start<W: Send + Sync + 'static>(
        candidacy: Candidacy,
        work: impl Fn() -> W + Send + Sync + 'static,
    ) -> Elected {
        let (stop, stopping) = watch::channel(false);
        Elected { stop, task: tokio::spawn(run(candidacy, work, stopping)) }
    }

    /// Makes it end the work and give the lease up.
    pub(super) fn signal_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until it has given the lease up.
    pub(super) async fn stopped(self) {
        // The task ends by returning.
        let _ = self.task.await;
    }
}

async fn run<W>(candidacy: Candidacy, work: impl Fn() -> W, mut stop: watch::Receiver<bool>) {
    let Candidacy { client, election } = candidacy;
    let clock = Clock::real();
    loop {
        tracing::info!(lease = %election.key, identity = election.identity, "attempting to acquire leader lease");
        let acquiring = Leadership::acquire(client.clone(), clock.clone(), election.clone());
        let mut leadership = tokio::select! {
            leadership = acquiring => leadership,
            () = stopped(&mut stop) => return,
        };
        tracing::info!(lease = %election.key, "acquired leader lease");
        let working = work();
        let is_lost = tokio::select! {
            () = leadership.hold() => true,
            () = stopped(&mut stop) => false,
        };
        drop(working);
        if !is_lost {
            return leadership.release().await;
        }
        tracing::warn!(lease = %election.key, "leader election lost; stopped the component");
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = stop.wait_for(|stop| *stop).await;
}
