//! The shape of a controller: four parts, of which only `observe` sees anything outside its arguments.
//!
//! What no cache holds, such as the scale of any kind or metrics, a controller asks for by path before it plans; the
//! requests are made for it.

use std::time::Duration;

use corten_api::Value;
use corten_base::Backoff;
use corten_client::{Caches, Change, Error, Key, Kind};
use jiff::Timestamp;

use crate::{Plan, Queue, Report};

pub trait Controller: Send + Sync + 'static {
    /// A snapshot of the part of the world that matters for one key.
    type World: Send + Sync;

    /// As `--controllers`, metrics and logs call it.
    fn name(&self) -> &'static str;

    /// The service account whose rights it has; most are called as their controllers are. Empty for the rights of the
    /// manager itself.
    fn account(&self) -> &'static str {
        self.name()
    }

    /// As metrics call its queue; a controller of several parts has one for each.
    fn queue(&self) -> &'static str {
        self.name()
    }

    /// Which kinds it follows, and which of its keys a change of one of them concerns.
    fn watches(&self) -> Vec<Watch>;

    /// Reads what matters for a key from the caches. No requests, no clock.
    fn observe(&self, caches: &Caches, key: &Key) -> Self::World;

    /// The paths that have to be read before a plan can be made. Asked again with what was learned, until there
    /// are none. Pure.
    fn ask(&self, world: &Self::World) -> Vec<String> {
        let _ = world;
        Vec::new()
    }

    /// Takes in what was read at a path. Pure.
    fn learn(&self, world: &mut Self::World, path: &str, answer: Result<Value, Error>) {
        let _ = (world, path, answer);
    }

    /// What is to be done. Pure.
    fn plan(&self, key: &Key, world: &Self::World, now: Timestamp) -> Plan;

    /// What is to be done about what became of a plan: conditions and events that depend on it. Pure.
    fn conclude(&self, key: &Key, world: &Self::World, report: &Report, now: Timestamp) -> Plan {
        let _ = (key, world, report, now);
        Plan::done()
    }

    /// How long changes of a kind are collected before what they concern is looked at.
    fn settle(&self, kind: &Kind) -> Duration {
        let _ = kind;
        Duration::ZERO
    }

    /// How long a key waits after failures.
    fn retry(&self) -> Backoff {
        Queue::RETRY
    }

    /// How many keys are worked on at a time.
    fn workers(&self) -> usize {
        5
    }
}

/// One kind that a controller follows.
pub struct Watch {
    pub kind: &'static Kind,
    /// Adds the keys that a change concerns.
    pub keys: fn(&Caches, &Change, &mut Vec<Key>),
}

impl Watch {
    /// The objects a controller is about.
    pub fn own(kind: &'static Kind) -> Watch {
        Watch { kind, keys: |_, change, keys| keys.push(change.object().key.clone()) }
    }

    /// Objects that are only looked up: their changes concern nobody.
    pub fn lookup(kind: &'static Kind) -> Watch {
        Watch { kind, keys: |_, _, _| {} }
    }
}
