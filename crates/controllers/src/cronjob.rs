//! CronJob controller: creates jobs at the times of a schedule.
//!
//! Owns the jobs of cron jobs and the status of cron jobs; watches both. Never touches the pods of jobs, and never
//! creates a job twice for one time.

mod sync;
mod times;

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::{Str, Value, meta, time, value};
use corten_client::{Caches, Change, DeleteOptions, Error, Key, Object, Propagation, kinds};
use corten_reconcile::{Action, Controller, Event, Outcome, Plan, Report, Step, Watch};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use crate::jobs::{BatchOptions, JobView};
use sync::Sync;

const NAME: &str = "cronjob-controller";

pub(crate) struct CronJobs {
    /// The time zone of schedules without one.
    here: TimeZone,
    /// The schedule of each cron job at its last reconcile.
    schedules: Mutex<HashMap<Key, (Str, Str)>>,
    options: BatchOptions,
}

impl CronJobs {
    pub(crate) fn new(here: TimeZone, options: BatchOptions) -> CronJobs {
        CronJobs { here, schedules: Mutex::default(), options }
    }

    /// True if the schedule differs from that of the last reconcile.
    fn is_rescheduled(&self, key: &Key, cron: &Value) -> bool {
        let text = |field: &str| Str::new(cron.str_at(&["spec", field]).unwrap_or_default());
        let schedule = (text("schedule"), text("timeZone"));
        let known = self.schedules.lock().insert(key.clone(), schedule.clone());
        known.is_some_and(|known| known != schedule)
    }
}

/// The state of one cron job.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist.
    cron: Option<Value>,
    jobs: Vec<Child>,
    /// By path, whether an active job that the cache lacks exists in the API server.
    asked: HashMap<String, bool>,
    /// True if its schedule has just changed.
    rescheduled: bool,
}

/// A job of a cron job.
#[derive(Debug)]
struct Child {
    object: Arc<Object>,
    view: Arc<JobView>,
}

impl From<Arc<Object>> for Child {
    fn from(object: Arc<Object>) -> Child {
        Child { view: object.view(), object }
    }
}

impl Child {
    fn delete(&self) -> Action {
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            uid: Some(self.object.uid.clone()),
            ..DeleteOptions::default()
        };
        Action::Delete { kind: &kinds::JOBS, key: self.object.key.clone(), options }
    }
}

impl Controller for CronJobs {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::CRON_JOBS), Watch { kind: &kinds::JOBS, keys: cron_job_of }]
    }

    fn workers(&self) -> usize {
        self.options.concurrent_cron_job_syncs
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let Some(cron) = caches.of(&kinds::CRON_JOBS).get(key) else {
            self.schedules.lock().remove(key);
            return World::default();
        };
        let is_own = |job: &Arc<Object>| job.controller().is_some_and(|owner| owner.uid == cron.uid);
        let jobs = caches.of(&kinds::JOBS).owned_by(&cron.uid).into_iter().filter(is_own);
        let tree = cron.tree();
        let rescheduled = self.is_rescheduled(key, &tree);
        World { jobs: jobs.map(Child::from).collect(), rescheduled, cron: Some(tree), ..World::default() }
    }

    fn ask(&self, world: &World) -> Vec<String> {
        let Some(cron) = &world.cron else { return Vec::new() };
        let paths = sync::missing(world, cron.items_at(&["status", "active"])).map(path);
        paths.filter(|path| !world.asked.contains_key(path)).collect()
    }

    /// A job counts as gone only if the server says so.
    fn learn(&self, world: &mut World, path: &str, answer: Result<Value, Error>) {
        let is_gone = answer.is_err_and(|error| error.is_not_found());
        world.asked.insert(path.to_owned(), !is_gone);
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(cron) = &world.cron else { return Plan::done() };
        let look = Sync::at(cron, world, &self.here, now);
        let mut plan = Plan { events: look.events, requeue_after: look.requeue_after, ..Plan::done() };
        let delete = |plan: &mut Plan, jobs: &[&Child]| {
            if !jobs.is_empty() {
                plan.steps.push(Step::Together(jobs.iter().map(|job| job.delete()).collect()));
            }
        };
        if let Some(start) = look.start {
            delete(&mut plan, &start.replaced);
            if start.made.is_none() {
                plan = plan.then(Action::Create { kind: &kinds::JOBS, object: start.job });
            }
        }
        delete(&mut plan, &look.old);
        plan
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, now: Timestamp) -> Plan {
        let Some(cron) = &world.cron else { return Plan::done() };
        let look = Sync::at(cron, world, &self.here, now);
        let mut status = look.status;
        for outcome in &report.outcomes {
            if let (Action::Delete { options, .. }, Ok(_)) = (&outcome.action, &outcome.result) {
                sync::remove_active(&mut status, options.uid.as_deref().unwrap_or_default());
            }
        }
        if let Some(start) = look.start {
            let made = report.outcomes.iter().find_map(|outcome| match (&outcome.action, &outcome.result) {
                (Action::Create { .. }, Ok(job)) => Some(reference(job)),
                _ => None,
            });
            if let Some(job) = made.or_else(|| start.made.map(|known| reference(&known.object.tree()))) {
                status.make_object().entry("active").make_array().push(job);
                status.set(&["lastScheduleTime"], time::format(start.at));
            }
        }
        let mut plan = Plan::done();
        plan.events = report.outcomes.iter().filter_map(|outcome| event_for(cron, outcome)).collect();
        let known = cron.get("status").cloned().unwrap_or_else(Value::object);
        if known != status {
            let mut object = cron.clone();
            object.set(&["status"], status);
            plan = plan.then(Action::Update { kind: &kinds::CRON_JOBS, object, subresource: "status" });
        }
        plan
    }
}

/// The cron job that owns a job.
fn cron_job_of(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    for job in change.states() {
        if let Some(owner) = job.controller().filter(|owner| owner.kind == kinds::CRON_JOBS.kind) {
            keys.push(Key::new(job.key.namespace.clone(), owner.name.clone()));
        }
    }
}

/// The path of an active job.
fn path(job: &Value) -> String {
    let text = |key: &str| job.str_at(&[key]).unwrap_or_default();
    kinds::JOBS.path(text("namespace"), text("name"), "")
}

/// The reference to a job in the active list.
fn reference(job: &Value) -> Value {
    value!({
        "apiVersion": "batch/v1", "kind": "Job",
        "namespace": (meta::namespace(job)), "name": (meta::name(job)),
        "uid": (meta::uid(job)), "resourceVersion": (meta::resource_version(job)),
    })
}

/// The event about a job that was created or deleted, or that could not be.
fn event_for(cron: &Value, outcome: &Outcome) -> Option<Event> {
    match (&outcome.action, &outcome.result) {
        (Action::Create { object, .. }, Ok(_)) => {
            let message = format!("Created job {}", meta::name(object));
            Some(Event::normal(NAME, cron, "SuccessfulCreate", message))
        }
        (Action::Create { .. }, Err(error))
            if !error.has_cause("NamespaceTerminating") && !error.already_exists() =>
        {
            Some(Event::warning(NAME, cron, "FailedCreate", format!("Error creating job: {error}")))
        }
        (Action::Delete { key, .. }, Ok(_)) => {
            Some(Event::normal(NAME, cron, "SuccessfulDelete", format!("Deleted job {}", key.name)))
        }
        (Action::Delete { .. }, Err(error)) => {
            Some(Event::warning(NAME, cron, "FailedDelete", format!("Deleted job: {error}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
