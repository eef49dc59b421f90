//! The task that makes the backups of schedules.
//!
//! A schedule's next backup counts from its last attempt, which is on disk: a time that passed while the server was down is made
//! up for once, at the next start. Nothing runs while there is no schedule.

use std::sync::Arc;
use std::time::Duration;

use corten_api::value;
use corten_reconcile::Event;
use jiff::Timestamp;

use super::job::Report;
use super::schedule::{self, Schedule, Schedules};
use super::server::Shared;

/// The longest sleep: the clock may be set meanwhile.
const RECHECK: Duration = Duration::from_secs(600);
const COMPONENT: &str = "corten-backup";

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let changed = shared.changed.notified();
        let next = next(&shared.schedules.lock());
        let Some((due, schedule)) = next else {
            changed.await;
            continue;
        };
        match Duration::try_from(due.duration_since(Timestamp::now())) {
            Ok(wait) if !wait.is_zero() => {
                let _ = tokio::time::timeout(wait.min(RECHECK), changed).await;
            }
            _ => back_up(&shared, &schedule).await,
        }
    }
}

/// The schedule whose turn is next, and its time.
fn next(schedules: &Schedules) -> Option<(Timestamp, Schedule)> {
    let times = schedules.values().filter_map(|(schedule, state)| {
        let since = state.since.parse().unwrap_or(Timestamp::UNIX_EPOCH);
        Some((schedule.next(since)?, schedule))
    });
    times.min_by_key(|(time, _)| *time).map(|(time, schedule)| (time, schedule.clone()))
}

async fn back_up(shared: &Shared, schedule: &Schedule) {
    let started = Timestamp::now().to_string();
    let made = {
        let _turn = shared.turn.lock().await;
        match schedule.job.secrets() {
            Ok(secrets) => schedule.job.run(&shared.cluster, secrets).await,
            Err(error) => Err(error),
        }
    };
    record(shared, schedule, &made);
    let saved = {
        let mut schedules = shared.schedules.lock();
        // It may have been deleted or replaced meanwhile.
        if let Some((_, state)) = schedules.get_mut(schedule.name()) {
            state.since = started;
            state.failure = made.as_ref().err().map(|error| format!("{error:#}"));
            match made {
                Ok(_) => state.last_success = Some(Timestamp::now().to_string()),
                Err(_) => state.failures += 1,
            }
        }
        schedule::save(&shared.cluster.data_dir, &schedules)
    };
    if let Err(error) = saved {
        tracing::error!(
            err = format!("{error:#}"),
            "cannot save backup schedules; a restart repeats the last backup"
        );
    }
}

fn record(shared: &Shared, schedule: &Schedule, made: &anyhow::Result<Report>) {
    let name = schedule.name();
    let about = value!({
        "apiVersion": "corten.io/v1", "kind": "BackupSchedule",
        "metadata": {"namespace": "kube-system", "name": (name)},
    });
    let event = match made {
        Ok(Report { name: backup, to, bytes, objects, retention_failure: None, .. }) => {
            tracing::info!(schedule = name, backup, to, bytes, objects, "backup created");
            Event::normal(COMPONENT, &about, "BackupCreated", format!("Created backup {backup} in {to}"))
        }
        Ok(Report { name: backup, to, retention_failure: Some(err), .. }) => {
            tracing::error!(
                schedule = name,
                backup,
                to,
                err,
                "backup created, but older ones cannot be deleted"
            );
            let message = format!("Created backup {backup} in {to}, but older ones cannot be deleted: {err}");
            Event::warning(COMPONENT, &about, "BackupRetentionFailed", message)
        }
        Err(error) => {
            let err = format!("{error:#}");
            tracing::error!(
                schedule = name,
                to = schedule.job.to,
                err,
                "backup failed; waiting for the next time"
            );
            Event::warning(COMPONENT, &about, "BackupFailed", format!("Cannot create a backup: {err}"))
        }
    };
    shared.recorder.record(event);
}

#[cfg(test)]
mod tests {
    use super::super::schedule::tests::schedule;
    use super::*;

    #[test]
    fn the_next_backup_counts_from_the_last_attempt() {
        let state = |since: &str| schedule::State { since: since.into(), ..Default::default() };
        let mut schedules = Schedules::new();
        assert!(next(&schedules).is_none());
        schedules.insert("a".into(), (schedule("a", "0 3 * * *"), state("2026-01-01T03:00:00Z")));
        schedules.insert("b".into(), (schedule("b", "30 * * * *"), state("2026-01-01T22:31:00Z")));
        let (time, first) = next(&schedules).unwrap();
        assert_eq!((time.to_string().as_str(), first.name()), ("2026-01-01T23:30:00Z", "b"));
        schedules.remove("b");
        assert_eq!(next(&schedules).unwrap().0.to_string(), "2026-01-02T03:00:00Z");
    }
}
