//! The `Controller` trait: four parts, of which only `observe` reads anything outside its arguments.
//!
//! State that no cache holds, such as the scale of any kind or metrics, is requested by path before `plan`; the manager
//! makes those requests.

use std::time::Duration;

use corten_api::Value;
use corten_base::Backoff;
use corten_client::{Caches, Change, Error, Key, Kind};
use jiff::Timestamp;

use crate::{Plan, Queue, Report};

pub trait Controller: Send + Sync + 'static {
    /// A snapshot of the state that matters for one key.
    type World: Send + Sync;

    /// The name of the controller in `--controllers`, metrics and logs.
    fn name(&self) -> &'static str;

    /// The service account whose permissions it has; by default the name of the controller. Empty for the identity of
    /// the manager itself.
    fn account(&self) -> &'static str {
        self.name()
    }

    /// The name of its queue in metrics; a controller of several parts has one for each.
    fn queue(&self) -> &'static str {
        self.name()
    }

    /// The kinds it watches, each with the keys that a change concerns.
    fn watches(&self) -> Vec<Watch>;

    /// Reads what matters for a key from the caches. No requests, no clock.
    fn observe(&self, caches: &Caches, key: &Key) -> Self::World;

    /// The paths to be read before `plan`. Called again after `learn`, until it returns none. Pure.
    fn ask(&self, world: &Self::World) -> Vec<String> {
        let _ = world;
        Vec::new()
    }

    /// Stores the response of a path in the world. Pure.
    fn learn(&self, world: &mut Self::World, path: &str, answer: Result<Value, Error>) {
        let _ = (world, path, answer);
    }

    /// The desired actions. Pure.
    fn plan(&self, key: &Key, world: &Self::World, now: Timestamp) -> Plan;

    /// The actions that depend on the outcome of a plan, such as conditions and events. Pure.
    fn conclude(&self, key: &Key, world: &Self::World, report: &Report, now: Timestamp) -> Plan {
        let _ = (key, world, report, now);
        Plan::done()
    }

    /// The time for which changes of a kind are collected before their keys are queued.
    fn settle(&self, kind: &Kind) -> Duration {
        let _ = kind;
        Duration::ZERO
    }

    /// The backoff of a key after failures.
    fn retry(&self) -> Backoff {
        Queue::RETRY
    }

    /// The number of keys that are reconciled concurrently.
    fn workers(&self) -> usize {
        5
    }
}

/// A kind that a controller watches.
pub struct Watch {
    pub kind: &'static Kind,
    /// Adds the keys that a change concerns.
    pub keys: fn(&Caches, &Change, &mut Vec<Key>),
}

impl Watch {
    /// The objects that the controller reconciles.
    pub fn own(kind: &'static Kind) -> Watch {
        Watch { kind, keys: |_, change, keys| keys.push(change.object().key.clone()) }
    }

    /// Objects that are only looked up: their changes queue no key.
    pub fn lookup(kind: &'static Kind) -> Watch {
        Watch { kind, keys: |_, _, _| {} }
    }
}
