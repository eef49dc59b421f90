//! Random histories on the store and on a model; both must agree on the current state, on every uncompacted revision, and on
//! the events.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{collections::BTreeMap, time::SystemTime};

use common::{Chance, commit, open, show_all, show_events};
use corten_store::{Error, Expect, NewValue, Op, Revision, Store};

const SEED: &str = "CORTEN_STORE_MODEL_SEED";
const STEPS: usize = 400;

/// key -> (value, mod_revision)
type Contents = BTreeMap<String, (String, Revision)>;

#[derive(Clone)]
enum Deed {
    Put(String),
    Delete,
}

#[derive(Default)]
struct Model {
    /// The state after each revision; index 0 is the empty store.
    states: Vec<Contents>,
    /// The events of each revision, from 1 on.
    events: Vec<Vec<String>>,
    compacted: Revision,
}

impl Model {
    fn revision(&self) -> Revision {
        self.states.len() as Revision - 1
    }

    fn present(&self) -> &Contents {
        self.states.last().expect("a first state")
    }

    fn holds(&self, key: &str, expect: Expect) -> bool {
        let current = self.present().get(key);
        match expect {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::Present => current.is_some(),
            Expect::ModRevision(revision) => current.map_or(0, |(_, at)| *at) == revision,
        }
    }

    /// Applies the operations, or returns the index of the one that conflicts.
    fn apply(&mut self, ops: &[(String, Expect, Deed)]) -> Result<(), usize> {
        for (index, (key, expect, _)) in ops.iter().enumerate() {
            if !self.holds(key, *expect) {
                return Err(index);
            }
        }
        let mut next = self.present().clone();
        let mut events = Vec::new();
        for (key, _, deed) in ops {
            events.extend(self.write(&mut next, key, deed));
        }
        if !events.is_empty() {
            self.events.push(events);
            self.states.push(next);
        }
        Ok(())
    }

    /// Sets the value of a key, or deletes the key. Returns the event.
    fn write(&self, next: &mut Contents, key: &str, deed: &Deed) -> Option<String> {
        let revision = self.revision() + 1;
        let shown = |(value, at): &(String, Revision)| format!("{key}={value}@{at}");
        let before = next.get(key).map(shown);
        match deed {
            Deed::Put(value) => {
                next.insert(key.to_owned(), (value.clone(), revision));
            }
            Deed::Delete => {
                next.remove(key)?;
            }
        }
        let (before, after) = (before.unwrap_or("-".into()), next.get(key).map_or("-".into(), shown));
        Some(format!("{revision}: {before} -> {after}"))
    }

    fn shown(&self, revision: Revision, prefix: &str) -> Vec<String> {
        let state = &self.states[revision as usize];
        let under = state.iter().filter(|(key, _)| key.starts_with(prefix));
        under.map(|(key, (value, at))| format!("{key}={value}@{at}")).collect()
    }
}

#[tokio::test]
async fn random_histories_agree_with_a_model() {
    let given = std::env::var(SEED).ok().and_then(|seed| seed.parse::<u64>().ok());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    let seed = given.unwrap_or_else(|| now() as u64);
    println!("model test with {SEED}={seed}");
    let mut chance = Chance::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut model = Model { states: vec![Contents::new()], ..Model::default() };
    for step in 0..STEPS {
        match chance.below(40) {
            0 => {
                store.close();
                store = open(dir.path());
            }
            1 => {
                let revision = chance.below(model.revision() + 1);
                store.compact(revision).await.unwrap();
                model.compacted = model.compacted.max(revision);
            }
            2..6 => check_past(&store, &model, &mut chance).await,
            _ => write(&store, &mut model, &mut chance, step).await,
        }
        let range = store.range("", "", 0);
        assert_eq!(show_all(&range.entries), model.shown(model.revision(), ""));
        assert_eq!((store.revision(), store.compacted()), (model.revision(), model.compacted));
    }
}

async fn write(store: &Store, model: &mut Model, chance: &mut Chance, step: usize) {
    let mut ops = Vec::new();
    for key in 0..12 {
        if chance.below(6) != 0 {
            continue;
        }
        let key = format!("/{}/{key}", key % 3);
        let revision = chance.below(model.revision() + 1);
        let current = model.present().get(&key).map_or(0, |(_, revision)| *revision);
        let expects = [
            Expect::Any,
            Expect::Any,
            Expect::ModRevision(current),
            Expect::ModRevision(current),
            Expect::Present,
            Expect::Absent,
            Expect::ModRevision(revision),
        ];
        let expect = expects[chance.below(7) as usize];
        let deed = match chance.below(3) {
            0 => Deed::Delete,
            _ => Deed::Put(format!("{step}")),
        };
        ops.push((key, expect, deed));
    }
    let txn = ops.iter().cloned().map(|(key, expect, deed)| {
        let (key, value) = (key.into(), |text: String| NewValue::from(text.into_bytes()));
        match deed {
            Deed::Put(text) => Op::Put { key, expect, value: value(text), lease: None },
            Deed::Delete => Op::Delete { key, expect },
        }
    });
    match (commit(store, txn.collect()).await, model.apply(&ops)) {
        (Ok(done), Ok(())) => assert_eq!(done.revision, model.revision()),
        (Err(Error::Conflict { op, .. }), Err(expected)) => assert_eq!(op, expected),
        (got, expected) => panic!("{got:?} but the model says {expected:?}"),
    }
}

async fn check_past(store: &Store, model: &Model, chance: &mut Chance) {
    let revision = chance.below(model.revision() + 1);
    let prefix = ["", "/1/", "/2"][chance.below(3) as usize];
    let range = store.range_at(prefix, "", 0, revision).await;
    let limit = [0, 1, 5][chance.below(3) as usize];
    let events = store.events_since(prefix, revision, Revision::MAX, limit).await;
    if revision < model.compacted {
        assert!(matches!(range, Err(Error::Compacted { .. })));
        assert!(matches!(events, Err(Error::Compacted { .. })));
        return;
    }
    assert_eq!(show_all(&range.unwrap().entries), model.shown(revision, prefix));
    let under = format!(" {prefix}");
    let mut expected: Vec<String> = Vec::new();
    for events in &model.events[revision as usize..] {
        if limit == 0 || expected.len() < limit {
            expected.extend(events.iter().filter(|event| event.contains(&under)).cloned());
        }
    }
    assert_eq!(show_events(&events.unwrap()), expected);
}
