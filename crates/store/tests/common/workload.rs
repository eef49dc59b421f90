//! A workload on a simulated disk, and the check of a store that is opened after a crash of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use corten_store::{
    Committed, Entry, Error, Event, Expect, LeaseId, NewValue, Observer, Op, Opened, Options, Revision,
    Sealing, SealingError, Store, Txn,
};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use super::{
    Chance, delete, put,
    simulated_disk::{
        ROOT, SimulatedDisk,
        model::{Loss, Model, Step},
    },
};

const KEYS: u64 = 12;
const HOUR: Duration = Duration::from_secs(3600);
/// The key that is written after a crash.
const PROBE: &str = "/probe";

pub(crate) fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
    now.as_nanos() as u64
}

pub(crate) fn directory() -> PathBuf {
    Path::new(ROOT).join("data/store")
}

/// Small files, so that a short workload has snapshots and several logs. A key of phase 0 stores values as they are.
pub(crate) fn options(disk: &SimulatedDisk, phase: u8) -> Options {
    let options = Options {
        history: HOUR,
        snapshot_bytes: 16 << 10,
        disk: Arc::new(disk.clone()),
        ..Options::default()
    };
    if phase == 0 { options } else { Options { sealing: Arc::new(Masking(phase)), ..options } }
}

/// Stores values masked with the number of a key, behind that number. Values without it were stored in phase 0.
#[derive(Debug)]
struct Masking(u8);

/// The first byte of a masked value; plain ones begin with digits.
const MASKED: u8 = 0xff;

impl Sealing for Masking {
    fn seal(&self, _: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        Ok(Some([MASKED, self.0].into_iter().chain(plain.iter().map(|byte| byte ^ self.0)).collect()))
    }

    fn open(&self, _: &str, stored: &[u8]) -> Result<Option<Opened>, SealingError> {
        let opened = match stored {
            [MASKED, key, masked @ ..] => {
                Opened { plain: masked.iter().map(|byte| byte ^ key).collect(), is_stale: *key != self.0 }
            }
            plain => Opened { plain: plain.to_vec(), is_stale: true },
        };
        Ok(Some(opened))
    }
}

/// A fact about the workload from a step on.
#[derive(Clone, Copy, Debug)]
enum Fact {
    /// The store is opened with the key of this phase.
    Opening(u8),
    Acknowledged(Revision),
    Compacting(Revision),
    Compacted(Revision),
    Granted(LeaseId),
    Revoking(LeaseId),
    Revoked(LeaseId),
}

/// The state at a revision: "key=value@revision" and the lease of each key.
type Contents = BTreeMap<String, (String, Option<LeaseId>)>;

/// All events of a workload, from the store itself.
#[derive(Default)]
struct Recorder {
    states: Mutex<BTreeMap<Revision, Contents>>,
    events: Mutex<BTreeMap<Revision, Vec<String>>>,
}

impl Observer for Recorder {
    fn apply(&self, events: &[Arc<Event>], _: Revision) {
        let (mut states, mut all) = (self.states.lock(), self.events.lock());
        for event in events {
            let mut contents = states.last_key_value().map(|(_, last)| last.clone()).unwrap_or_default();
            match &event.current {
                Some(entry) => contents.insert(event.key.to_string(), (short(entry), entry.lease)),
                None => contents.remove(&*event.key),
            };
            states.insert(event.revision, contents);
            all.entry(event.revision).or_default().push(short_event(event));
        }
    }
}

/// An entry, with the beginning of its value, which is unique, and its length.
fn short(entry: &Entry) -> String {
    let text = String::from_utf8_lossy(&entry.value);
    let start = text.split('x').next().unwrap_or_default();
    format!("{start}+{}@{}", text.len(), entry.mod_revision)
}

fn short_event(event: &Event) -> String {
    let side = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or("-".into(), |entry| short(entry));
    format!("{} {}: {} -> {}", event.revision, event.key, side(&event.previous), side(&event.current))
}

/// A workload that was carried out.
pub(crate) struct Run {
    pub(crate) steps: Vec<Step>,
    pub(crate) syncs: BTreeMap<String, usize>,
    states: BTreeMap<Revision, Contents>,
    events: BTreeMap<Revision, Vec<String>>,
    /// In order of their steps.
    facts: Vec<(usize, Fact)>,
    /// The kind of syncs that did nothing.
    ignored: Option<String>,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

impl Run {
    /// Runs a workload of about this many requests for each of three phases, whose values are sealed differently.
    pub(crate) fn of(seed: u64, requests: usize, ignored: Option<&str>) -> Run {
        let ignored = ignored.map(str::to_owned);
        let disk = SimulatedDisk::of(Model::with_directory(Path::new(ROOT)), ignored.clone());
        let recorder = Arc::new(Recorder::default());
        let mut worker =
            Worker { disk: disk.clone(), chance: Chance::new(seed), facts: Vec::new(), count: 0 };
        runtime().block_on(async {
            let mut last = 0;
            for phase in [0, 0, 1, 1, 2] {
                worker.fact(Fact::Opening(phase));
                // If values are written again, all history is dropped.
                worker.fact(Fact::Compacting(if phase == 0 { 0 } else { last }));
                let store = Store::open(&directory(), options(&disk, phase)).expect("a store that opens");
                store.observe("", recorder.clone());
                worker.work(&store, requests / 5).await;
                worker.leave_lease(&store).await;
                last = store.revision();
                store.close();
            }
        });
        let states = std::mem::take(&mut *recorder.states.lock());
        let events = std::mem::take(&mut *recorder.events.lock());
        Run { steps: disk.steps(), syncs: disk.syncs(), states, events, facts: worker.facts, ignored }
    }
}

struct Worker {
    disk: SimulatedDisk,
    chance: Chance,
    facts: Vec<(usize, Fact)>,
    count: usize,
}

impl Worker {
    fn fact(&mut self, fact: Fact) {
        self.facts.push((self.disk.position(), fact));
    }

    fn acknowledged(&mut self, done: Result<Committed, Error>) {
        let revision = done.expect("a commit").revision;
        self.fact(Fact::Acknowledged(revision));
    }

    /// Sends requests of all kinds.
    async fn work(&mut self, store: &Store, requests: usize) {
        let mut leases: BTreeSet<LeaseId> = store.leases().into_iter().collect();
        for _ in 0..requests {
            match self.chance.below(100) {
                0..65 => {
                    let ops = self.ops(store, None);
                    let done = store.commit(Txn { ops }).await;
                    self.acknowledged(done);
                }
                65..75 => {
                    // Committed together.
                    let txns = [self.ops(store, None), self.ops(store, None), self.ops(store, None)];
                    let [a, b, c] = txns.map(|ops| store.commit(Txn { ops }));
                    let done = tokio::join!(a, b, c);
                    for done in [done.0, done.1, done.2] {
                        // A key that the transaction before it deleted.
                        if !matches!(done, Err(Error::Conflict { .. })) {
                            self.acknowledged(done);
                        }
                    }
                }
                75..82 => {
                    let lease = store.grant(HOUR).await.expect("a lease");
                    self.fact(Fact::Granted(lease));
                    leases.insert(lease);
                    let ops = self.ops(store, Some(lease));
                    let done = store.commit(Txn { ops }).await;
                    self.acknowledged(done);
                }
                82..87 => {
                    if let Some(lease) = leases.pop_first() {
                        store.keep_alive(lease).await.expect("a lease");
                        self.fact(Fact::Revoking(lease));
                        store.revoke(lease).await.expect("a lease");
                        self.fact(Fact::Revoked(lease));
                    }
                }
                87..93 => {
                    let revision = store.revision().saturating_sub(self.chance.below(30));
                    self.fact(Fact::Compacting(revision));
                    store.compact(revision).await.expect("a compaction");
                    self.fact(Fact::Compacted(revision));
                }
                93..97 => store.raise(store.revision() + 2).await.expect("later revisions"),
                _ => store.shrink().await.expect("a snapshot"),
            }
        }
    }

    /// Leaves a lease in a log that has no writes.
    async fn leave_lease(&mut self, store: &Store) {
        store.shrink().await.expect("a snapshot");
        let lease = store.grant(HOUR).await.expect("a lease");
        self.fact(Fact::Granted(lease));
    }

    /// The operations of a transaction: puts of distinct keys, or a deletion.
    fn ops(&mut self, store: &Store, lease: Option<LeaseId>) -> Vec<Op> {
        let key = |index: u64| format!("/{index}");
        let first = self.chance.below(KEYS);
        if lease.is_none() && self.chance.below(5) == 0 && store.get(&key(first)).is_some() {
            return vec![delete(&key(first))];
        }
        let count = 1 + self.chance.below(3);
        (first..first + count)
            .map(|index| {
                self.count += 1;
                let size = [0, 10, 300, 900, 3_000][self.chance.below(5) as usize];
                let value = NewValue::from(format!("{}.{}", self.count, "x".repeat(size)).into_bytes());
                Op::Put { key: key(index).into(), expect: Expect::Any, value, lease }
            })
            .collect()
    }
}

/// The facts at a step.
#[derive(Clone, Debug, Default)]
struct Known {
    phase: u8,
    acknowledged: Revision,
    /// The highest revision whose compaction was requested, and that of an acknowledged one.
    compacting: Revision,
    compacted: Revision,
    /// Leases that must exist, and those that may.
    granted: BTreeSet<LeaseId>,
    revoking: BTreeSet<LeaseId>,
    revoked: BTreeSet<LeaseId>,
}

impl Known {
    fn learn(&mut self, fact: Fact) {
        match fact {
            Fact::Opening(phase) => self.phase = phase,
            Fact::Acknowledged(revision) => self.acknowledged = self.acknowledged.max(revision),
            Fact::Compacting(revision) => self.compacting = self.compacting.max(revision),
            Fact::Compacted(revision) => self.compacted = self.compacted.max(revision),
            Fact::Granted(lease) => drop(self.granted.insert(lease)),
            Fact::Revoking(lease) => {
                self.granted.remove(&lease);
                self.revoking.insert(lease);
            }
            Fact::Revoked(lease) => {
                self.revoking.remove(&lease);
                self.revoked.insert(lease);
            }
        }
    }
}

/// Crashes a run at increasing steps.
pub(crate) struct Check<'a> {
    run: &'a Run,
    runtime: Runtime,
    /// The disk after the steps so far.
    model: Model,
    known: Known,
    facts: std::iter::Peekable<std::slice::Iter<'a, (usize, Fact)>>,
}

/// The observations of a store that was opened after a crash.
struct Seen {
    steps: Vec<Step>,
    /// The step at which it was open, and its revision then.
    opened: usize,
    revision: Revision,
    /// The step at which a write was acknowledged, and its revision.
    probed: usize,
    probe: Revision,
}

/// A write after an earlier crash, which lost all revisions after this one.
#[derive(Clone, Copy)]
struct Probe {
    after: Revision,
    revision: Revision,
}

/// The last revision of the run in a store at a revision.
fn run_revision(revision: Revision, probe: Option<Probe>) -> Revision {
    probe.filter(|probe| probe.revision == revision).map_or(revision, |probe| probe.after)
}

impl<'a> Check<'a> {
    pub(crate) fn of(run: &'a Run) -> Check<'a> {
        Check {
            run,
            runtime: runtime(),
            model: Model::with_directory(Path::new(ROOT)),
            known: Known::default(),
            facts: run.facts.iter().peekable(),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) {
        self.model.apply(step);
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        self.model.has_unsynced()
    }

    /// Crashes here, opens the store, crashes that at a random step, and opens it again. Returns the number of crashes.
    pub(crate) fn crash(
        &mut self,
        position: usize,
        loss: Loss,
        chance: &mut Chance,
    ) -> Result<usize, String> {
        while let Some((_, fact)) = self.facts.next_if(|(step, _)| *step <= position) {
            self.known.learn(*fact);
        }
        let context = |complaint: String| {
            let first = position.saturating_sub(6);
            let mut text =
                format!("crash after step {position}, {loss:?}: {complaint}\nknown: {:?}\n", self.known);
            for (index, step) in self.run.steps[first..position].iter().enumerate() {
                let _ = writeln!(text, "step {}: {}", first + index + 1, brief(step));
            }
            text
        };
        let image = self.model.after(loss, chance);
        let seen = self.open(&image, &self.known, None).map_err(context)?;
        let steps = seen.steps.len();
        // Names that a killed process left behind are settled by few steps, which one random step would hardly meet.
        let all = loss == Loss::Process && self.model.has_unsynced_names();
        let random = chance.below(steps as u64 + 1) as usize;
        let second: Vec<usize> = if all { (0..=steps).collect() } else { vec![random] };
        for again in &second {
            self.crash_again(&image, &seen, *again, chance).map_err(context)?;
        }
        Ok(1 + second.len())
    }

    /// Crashes the recovery from a crash after one of its steps, and opens the store again.
    fn crash_again(
        &self,
        image: &Model,
        seen: &Seen,
        again: usize,
        chance: &mut Chance,
    ) -> Result<(), String> {
        let mut model = image.clone();
        seen.steps[..again].iter().for_each(|step| model.apply(step));
        let mut known = self.known.clone();
        let losses = [Loss::PowerWithout, Loss::PowerWithSome, Loss::PowerWithSome, Loss::PowerWithAll];
        let loss = losses[chance.below(4) as usize];
        let mut probe = None;
        if again >= seen.opened {
            known.acknowledged = known.acknowledged.max(seen.revision);
            probe = Some(Probe { after: seen.revision, revision: seen.probe });
        }
        if again >= seen.probed {
            known.acknowledged = seen.probe;
        }
        let opened = self.open(&model.after(loss, chance), &known, probe);
        opened.map(|_| ()).map_err(|complaint| {
            let mut text = format!("crash of recovery after its step {again}, {loss:?}: {complaint}\n");
            for (index, step) in seen.steps[..again].iter().enumerate() {
                let _ = writeln!(text, "recovery step {}: {}", index + 1, brief(step));
            }
            text
        })
    }

    /// Opens a store on a disk and compares it with what is known.
    fn open(&self, image: &Model, known: &Known, probe: Option<Probe>) -> Result<Seen, String> {
        let disk = SimulatedDisk::of(image.clone(), self.run.ignored.clone());
        let store = Store::open(&directory(), options(&disk, known.phase))
            .map_err(|error| format!("{error}: {:?}", std::error::Error::source(&error)))?;
        let (opened, revision) = (disk.position(), store.revision());
        let checked = self.runtime.block_on(async {
            self.check_state(&store, known, probe)?;
            self.check_history(&store, known, probe).await?;
            self.check_leases(&store, known)?;
            let done = store.commit(Txn { ops: vec![put(PROBE, "0.")] }).await;
            done.map_err(|error| format!("cannot write: {error}"))
        });
        let probed = disk.position();
        store.close();
        let probe = checked?.revision;
        if probe <= revision || probe <= known.acknowledged {
            return Err(format!("revision {probe} after {revision}"));
        }
        Ok(Seen { steps: disk.steps(), opened, revision, probed, probe })
    }

    fn check_state(&self, store: &Store, known: &Known, probe: Option<Probe>) -> Result<(), String> {
        let range = store.range("", "", 0);
        if range.revision < known.acknowledged {
            return Err(format!("is at revision {}", range.revision));
        }
        let last = run_revision(range.revision, probe);
        let expected = self.run.states.range(..=last).next_back();
        let mut expected = expected.map(|(_, contents)| contents.clone()).unwrap_or_default();
        if last != range.revision {
            expected.insert(PROBE.into(), (format!("0.+2@{}", range.revision), None));
        }
        let found: Contents = (range.entries.iter())
            .map(|entry| (entry.key.to_string(), (short(entry), entry.lease)))
            .collect();
        if found != expected {
            return Err(format!("at revision {}: {found:?} instead of {expected:?}", range.revision));
        }
        Ok(())
    }

    async fn check_history(&self, store: &Store, known: &Known, probe: Option<Probe>) -> Result<(), String> {
        let (revision, compacted) = (store.revision(), store.compacted());
        if !(known.compacted..=known.compacting).contains(&compacted) {
            return Err(format!("compacted {compacted} of {revision}"));
        }
        let events =
            store.events_since("", compacted, revision, 0).await.map_err(|error| error.to_string())?;
        let last = run_revision(revision, probe);
        let found = events.iter().filter(|event| event.revision <= last);
        let found: Vec<String> = found.map(|event| short_event(event)).collect();
        let expected = self.run.events.range(compacted.min(last) + 1..last + 1);
        let expected: Vec<String> = expected.flat_map(|(_, events)| events.clone()).collect();
        if found != expected {
            return Err(format!("history after {compacted}: {found:?} instead of {expected:?}"));
        }
        Ok(())
    }

    fn check_leases(&self, store: &Store, known: &Known) -> Result<(), String> {
        let leases: BTreeSet<LeaseId> = store.leases().into_iter().collect();
        if !known.granted.is_subset(&leases) {
            return Err(format!("leases {leases:?} instead of {:?}", known.granted));
        }
        if let Some(lease) = leases.intersection(&known.revoked).next() {
            return Err(format!("{lease:?} is revoked"));
        }
        for entry in store.range("", "", 0).entries {
            let Some(id) = entry.lease else { continue };
            if !store.lease(id).is_some_and(|lease| lease.keys.contains(&entry.key)) {
                return Err(format!("{} has {id:?}, which does not have it", entry.key));
            }
        }
        Ok(())
    }
}

fn brief(step: &Step) -> String {
    match step {
        Step::Write { inode, at, bytes } => format!("write {} bytes at {at} of file {inode}", bytes.len()),
        step => format!("{step:?}"),
    }
}
