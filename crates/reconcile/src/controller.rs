//! The shape of a controller: four parts, of which only `observe` sees anything outside its arguments.

use corten_api::{Str, Value};
use corten_client::{Caches, Change, Key, Kind};
use jiff::Timestamp;

use crate::{Plan, Report};

pub trait Controller: Send + Sync + 'static {
    /// A snapshot of the part of the world that matters for one key.
    type World: Send + Sync;

    /// As `--controllers`, metrics and logs call it.
    fn name(&self) -> &'static str;

    /// The service account whose rights it has; most are called as their controllers are.
    fn account(&self) -> &'static str {
        self.name()
    }

    /// Which kinds it follows, and which of its keys a change of one of them concerns.
    fn watches(&self) -> Vec<Watch>;

    /// Reads what matters for a key from the caches. No requests, no clock.
    fn observe(&self, caches: &Caches, key: &Key) -> Self::World;

    /// What has to be asked of the server itself before planning, because caches may be behind and a wrong plan
    /// could not be undone. Pure; most ask nothing.
    fn questions(&self, key: &Key, world: &Self::World) -> Vec<Question> {
        let _ = (key, world);
        Vec::new()
    }

    /// Takes in the answers, in the order of the questions. Pure.
    fn learn(&self, world: &mut Self::World, answers: Vec<Value>) {
        let _ = (world, answers);
    }

    /// What is to be done. Pure.
    fn plan(&self, key: &Key, world: &Self::World, now: Timestamp) -> Plan;

    /// What is to be done about what became of a plan: conditions and events that depend on it. Pure.
    fn conclude(&self, key: &Key, world: &Self::World, report: &Report, now: Timestamp) -> Plan {
        let _ = (key, world, report, now);
        Plan::done()
    }

    /// How many keys are worked on at a time.
    fn workers(&self) -> usize {
        5
    }
}

/// Something only the server knows for sure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// An object; the answer to one that does not exist is null.
    Object(&'static Kind, Key),
    /// Everything of a kind in a namespace, as a list.
    All(&'static Kind, Str),
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
}
