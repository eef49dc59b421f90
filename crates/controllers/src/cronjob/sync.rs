//! The reconcile of one cron job: the jobs that were created and finished since the last one, and the job that is due.

use std::collections::HashSet;
use std::time::Duration;

use corten_api::schedule::{self, Schedule};
use corten_api::status::quoted;
use corten_api::{Value, meta, time, value};
use corten_reconcile::Event;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::times::{NEVER, Never, Times};
use super::{Child, NAME, World, path};

/// The result of one reconcile.
#[derive(Debug, Default)]
pub(super) struct Sync<'a> {
    /// The status, before the outcome of the requests is known.
    pub(super) status: Value,
    pub(super) events: Vec<Event>,
    /// Finished jobs beyond the history limits.
    pub(super) old: Vec<&'a Child>,
    pub(super) start: Option<Start<'a>>,
    pub(super) requeue_after: Option<Duration>,
}

/// A job that is due.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) at: Timestamp,
    pub(super) job: Value,
    /// The job, if it was created before but is not in the status.
    pub(super) made: Option<&'a Child>,
    /// Running jobs that have to be deleted first.
    pub(super) replaced: Vec<&'a Child>,
}

impl<'a> Sync<'a> {
    pub(super) fn at(cron: &Value, world: &'a World, here: &TimeZone, now: Timestamp) -> Sync<'a> {
        let status = cron.get("status").cloned().unwrap_or_else(Value::object);
        let mut look = Sync { status, old: old_jobs(cron, &world.jobs), ..Sync::default() };
        look.note_jobs(cron, &world.jobs);
        look.note_missing(cron, world);
        if !meta::is_deleting(cron) {
            look.schedule(cron, world, here, now);
        }
        look
    }

    fn record_event(&mut self, cron: &Value, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event::normal(NAME, cron, reason, message));
    }

    fn warn(&mut self, cron: &Value, reason: &'static str, message: impl Into<String>) {
        self.events.push(Event::warning(NAME, cron, reason, message));
    }

    /// Removes finished jobs from the active list, and records the last success.
    fn note_jobs(&mut self, cron: &Value, jobs: &[Child]) {
        for job in jobs {
            let name = &job.object.key.name;
            let active = is_active(&self.status, &job.object.uid);
            let Some(finished) = job.view.finished else {
                if !active {
                    let message = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.warn(cron, "UnexpectedJob", message);
                }
                continue;
            };
            if active {
                remove_active(&mut self.status, &job.object.uid);
                let message = format!("Saw completed job: {name}, condition: {finished}");
                self.record_event(cron, "SawCompletedJob", message);
            }
            if finished == "Complete" {
                self.note_success(job.view.completed);
            }
        }
    }

    fn note_success(&mut self, completed: Option<Timestamp>) {
        let known = self.status.str_at(&["lastSuccessfulTime"]).and_then(|text| time::parse(text).ok());
        if let Some(completed) = completed.filter(|completed| known.is_none_or(|known| *completed > known)) {
            self.status.set(&["lastSuccessfulTime"], time::format(completed));
        }
    }

    /// Removes jobs that no longer exist from the active list.
    fn note_missing(&mut self, cron: &Value, world: &World) {
        let active = self.status.items_at(&["active"]).to_vec();
        for gone in missing(world, &active).filter(|job| world.asked.get(&path(job)) != Some(&true)) {
            let name = gone.str_at(&["name"]).unwrap_or_default();
            self.record_event(cron, "MissingJob", format!("Active job went missing: {name}"));
            remove_active(&mut self.status, gone.str_at(&["uid"]).unwrap_or_default());
        }
    }

    fn schedule(&mut self, cron: &Value, world: &'a World, here: &TimeZone, now: Timestamp) {
        let zone = cron.str_at(&["spec", "timeZone"]);
        if let Some(zone) = zone.filter(|zone| schedule::time_zone(zone).is_none()) {
            let message = format!("invalid timeZone: {}: unknown time zone {zone}", quoted(zone));
            self.warn(cron, "UnknownTimeZone", message);
            return;
        }
        if cron.bool_at(&["spec", "suspend"]) == Some(true) {
            return;
        }
        let Some(schedule) = self.parse(cron, zone) else { return };
        let at = |path: &[&str]| cron.str_at(path).and_then(|text| time::parse(text).ok());
        let last = at(&["status", "lastScheduleTime"]);
        let since = last.or_else(|| at(&["metadata", "creationTimestamp"])).unwrap_or(now);
        let times = Times { schedule: &schedule, here, since, now };
        self.requeue_after = Some(times.wait());
        // A new schedule starts with its next time, not with the times it would have had.
        if !world.rescheduled
            && let Some(due) = self.due(cron, &times)
            && last != Some(due)
        {
            self.begin(cron, world, due, zone);
        }
    }

    fn parse(&mut self, cron: &Value, zone: Option<&str>) -> Option<Schedule> {
        let text = cron.str_at(&["spec", "schedule"]).unwrap_or_default();
        let has_zone = text.contains("TZ");
        if has_zone {
            let message = format!(
                "CRON_TZ or TZ used in schedule {} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                quoted(text)
            );
            self.warn(cron, "UnsupportedSchedule", message);
        }
        match Schedule::parse(text) {
            Ok(schedule) => Some(match zone.and_then(schedule::time_zone).filter(|_| !has_zone) {
                Some(zone) => schedule.in_zone(zone),
                None => schedule,
            }),
            Err(why) => {
                let message = format!("unparseable schedule: {} : {why}", quoted(text));
                self.warn(cron, "UnparseableSchedule", message);
                None
            }
        }
    }

    /// The time for which a job is due, unless its deadline has passed.
    fn due(&mut self, cron: &Value, times: &Times<'_>) -> Option<Timestamp> {
        let deadline = cron.int_at(&["spec", "startingDeadlineSeconds"]).map(SignedDuration::from_secs);
        let missed = match times.missed(deadline) {
            Ok(missed) => missed,
            Err(Never) => {
                let text = cron.str_at(&["spec", "schedule"]).unwrap_or_default();
                self.warn(cron, "InvalidSchedule", format!("invalid schedule: {text} : {NEVER}"));
                self.requeue_after = None;
                return None;
            }
        };
        let due = missed.last?;
        if missed.many {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn(cron, "TooManyMissedTimes", message);
        }
        if deadline.is_some_and(|deadline| due.checked_add(deadline).is_ok_and(|last| last < times.now)) {
            let shown = due.strftime("%a, %d %b %Y %H:%M:%S +0000");
            self.warn(cron, "MissSchedule", format!("Missed scheduled time to start a job: {shown}"));
            return None;
        }
        Some(due)
    }

    /// Starts a job, as the concurrency policy allows.
    fn begin(&mut self, cron: &Value, world: &'a World, due: Timestamp, zone: Option<&str>) {
        let active = self.status.items_at(&["active"]);
        let job = job(cron, due, zone);
        if active.iter().any(|known| known.str_at(&["name"]) == Some(meta::name(&job))) {
            return;
        }
        let policy = cron.str_at(&["spec", "concurrencyPolicy"]);
        if policy == Some("Forbid") && !active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.record_event(cron, "JobAlreadyActive", message);
            return;
        }
        let is_replaced =
            |job: &&Child| policy == Some("Replace") && is_active(&self.status, &job.object.uid);
        let replaced = world.jobs.iter().filter(is_replaced).collect();
        let made = world.jobs.iter().find(|known| known.object.key.name == meta::name(&job));
        self.start = Some(Start { at: due, job, made, replaced });
    }
}

/// Active jobs that are not in the cache.
pub(super) fn missing<'a>(world: &World, active: &'a [Value]) -> impl Iterator<Item = &'a Value> {
    let seen: HashSet<&str> = world.jobs.iter().map(|job| job.object.uid.as_str()).collect();
    active.iter().filter(move |job| !seen.contains(job.str_at(&["uid"]).unwrap_or_default()))
}

/// True if a job is in the active list.
fn is_active(status: &Value, uid: &str) -> bool {
    status.items_at(&["active"]).iter().any(|job| job.str_at(&["uid"]) == Some(uid))
}

pub(super) fn remove_active(status: &mut Value, uid: &str) {
    let Some(active) = status.get_mut("active").and_then(Value::as_array_mut) else { return };
    active.retain(|job| job.str_at(&["uid"]) != Some(uid));
    if active.is_empty() {
        status.remove(&["active"]);
    }
}

/// Finished jobs beyond the history limits, oldest first.
fn old_jobs<'a>(cron: &Value, jobs: &'a [Child]) -> Vec<&'a Child> {
    let mut old = Vec::new();
    for (kind, limit) in [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")] {
        let Some(limit) = cron.int_at(&["spec", limit]) else { continue };
        let of_kind = |job: &&Child| job.view.finished == Some(kind) && !job.object.deleting;
        let mut finished: Vec<_> = jobs.iter().filter(of_kind).collect();
        finished.sort_by_key(|job| (job.view.started.is_none(), job.view.started, job.object.key.clone()));
        let surplus = finished.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        old.extend(finished.into_iter().take(surplus));
    }
    old
}

/// The job of a scheduled time. Its name is derived from the time, so that there is never a second one.
fn job(cron: &Value, due: Timestamp, zone: Option<&str>) -> Value {
    let template = cron.at(&["spec", "jobTemplate"]).unwrap_or(&Value::Null);
    let name = format!("{}-{}", meta::name(cron), due.as_second() / 60);
    let mut job = value!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": (name), "namespace": (meta::namespace(cron)),
            "ownerReferences": [(crate::claims::reference(cron))],
        },
        "spec": (template.get("spec").cloned().unwrap_or_else(Value::object)),
    });
    for key in ["labels", "annotations"] {
        if let Some(given) = template.at(&["metadata", key]) {
            job.set(&["metadata", key], given.clone());
        }
    }
    let zone = zone.and_then(schedule::time_zone).unwrap_or(TimeZone::UTC);
    job.set(
        &["metadata", "annotations", "batch.kubernetes.io/cronjob-scheduled-timestamp"],
        shown(due, &zone),
    );
    job
}

/// A time in a time zone.
fn shown(at: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(at);
    if offset.is_zero() { time::format(at).to_string() } else { at.display_with_offset(offset).to_string() }
}
