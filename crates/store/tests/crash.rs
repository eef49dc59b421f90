//! Kills a writing process at random moments, repeatedly on the same directory, and checks the store afterwards.
//!
//! Checked after each kill: every acknowledged write is present; transactions are whole; revisions are never reused; history
//! never changes, event by event; and a watch resumed from any uncompacted revision turns the state of that revision into the
//! current one. The check works on a copy, so the directory itself never sees a clean shutdown.

mod common;

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::SystemTime,
};

use common::{Chance, commit, copied, put, show_event};
use corten_store::{Entry, Error, Event, Expect, Op, Options, Revision, Store};

const DIR: &str = "CORTEN_STORE_CRASH_DIR";
const SEED: &str = "CORTEN_STORE_CRASH_SEED";
const ROUNDS: u64 = 10;
const WRITERS: u64 = 6;
const KEYS: u64 = 8;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let seed = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    match env::var_os(DIR) {
        Some(dir) => runtime.block_on(write_for_ever(Path::new(&dir), seed.expect("a seed"))),
        None => runtime.block_on(kill_and_check(seed.unwrap_or_else(fresh_seed))),
    }
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
    now.as_nanos() as u64
}

/// The child: writers that print each acknowledgement as "left-key start-of-value left-revision", in
/// lines short enough for a pipe to take them whole or not at all.
async fn write_for_ever(dir: &Path, seed: u64) {
    // Small, so that kills also hit snapshots.
    let options = Options { snapshot_bytes: 200_000, ..Options::default() };
    let store = Store::open(dir, options).expect("a store that opens after a kill");
    let writers: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(write_pairs(store.clone(), writer, seed))).collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
}

async fn write_pairs(store: Store, writer: u64, seed: u64) {
    let mut chance = Chance::new(seed ^ (writer << 32));
    for count in 0.. {
        let key = chance.below(KEYS);
        let (left, right) = (format!("/{writer}/{key}/left"), format!("/{writer}/{key}/right"));
        let delete = chance.below(5) == 0 && store.get(&left).is_some();
        let start = if delete { "-".into() } else { format!("{seed:x}.{count}.") };
        let value = format!("{start}{}", "x".repeat(padding(&mut chance)));
        let ops = if delete {
            let delete = |key: &str| Op::Delete { key: key.into(), expect: Expect::Present };
            vec![delete(&left), delete(&right)]
        } else {
            vec![put(&left, &value), put(&right, &value)]
        };
        let done = commit(&store, ops).await.expect("a commit");
        let line = format!("{left} {start} {}\n", done.revision);
        std::io::stdout().write_all(line.as_bytes()).expect("a parent that listens");
        if chance.below(100) == 0 {
            store.compact(done.revision.saturating_sub(300)).await.expect("a compaction");
        }
    }
}

/// Values are from a few bytes to several pages long.
fn padding(chance: &mut Chance) -> usize {
    [0, 100, 3_000, 40_000][chance.below(4) as usize]
}

struct Ack {
    key: String,
    value: String,
    revision: Revision,
}

/// The parent's knowledge from all rounds so far.
#[derive(Default)]
struct Known {
    acks: BTreeMap<Revision, Ack>,
    /// The two events of every revision ever seen.
    events: BTreeMap<Revision, [String; 2]>,
}

async fn kill_and_check(seed: u64) {
    println!("crash test with {SEED}={seed}");
    let mut chance = Chance::new(seed);
    let dir = tempfile::tempdir().expect("a directory");
    let mut known = Known::default();
    for round in 0..ROUNDS {
        let acks = run_and_kill(dir.path(), seed.wrapping_add(round), 1 + chance.below(400));
        println!("round {round}: killed after {} acknowledgements", acks.len());
        for ack in acks {
            let revision = ack.revision;
            assert!(known.acks.insert(revision, ack).is_none(), "revision {revision} twice");
        }
        let copy = copied(dir.path());
        let store = Store::open(copy.path(), Options::default()).expect("a store that opens");
        check(&store, &mut known, &mut chance).await;
    }
    println!("ok: {} writes, {} events", known.acks.len(), known.events.len());
}

/// Lets the child write until it has acknowledged `count` transactions.
fn run_and_kill(dir: &Path, seed: u64, count: u64) -> Vec<Ack> {
    let mut child = Command::new(env::current_exe().expect("our own path"))
        .env(DIR, dir)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut acks: Vec<Ack> = lines.by_ref().take(count as usize).map(ack).collect();
    child.kill().expect("a child to kill");
    // The lines that it printed before it died were acknowledged too.
    acks.extend(lines.map(ack));
    child.wait().expect("a dead child");
    assert!(acks.len() as u64 >= count, "the child died by itself");
    acks
}

fn ack(line: Result<String, std::io::Error>) -> Ack {
    let line = line.expect("a line");
    let mut words = line.split(' ').map(str::to_owned);
    let mut word = || words.next().expect("a word");
    Ack { key: word(), value: word(), revision: word().parse().expect("a revision") }
}

async fn check(store: &Store, known: &mut Known, chance: &mut Chance) {
    let (revision, compacted) = (store.revision(), store.compacted());
    let last_acknowledged = known.acks.keys().next_back().copied().unwrap_or(0);
    assert!(revision >= last_acknowledged, "the last pair is missing");
    let events = store.events_since("", compacted, revision, usize::MAX).await.expect("history");
    for pair in events.chunk_by(|a, b| a.revision == b.revision) {
        let shown = whole_pair(pair);
        let before = known.events.insert(pair[0].revision, shown.clone());
        assert!(before.is_none_or(|before| before == shown), "history changed at {shown:?}");
    }
    for ack in known.acks.range(compacted + 1..).map(|(_, ack)| ack) {
        let [event, _] = known.events.get(&ack.revision).expect("an acknowledged revision in history");
        let start = match &*ack.value {
            "-" => " -> -".to_owned(),
            value => format!(" -> {}={value}", ack.key),
        };
        assert!(event.contains(&start), "acknowledged was{start}, not {event}");
    }
    check_present(store, known);
    for _ in 0..5 {
        let after = compacted + chance.below(revision - compacted + 1);
        check_resume(store, after).await;
    }
}

/// The events of a revision, which are a left side and its right side.
fn whole_pair(events: &[Arc<Event>]) -> [String; 2] {
    let [left, right] = events else { panic!("half a transaction at {}", events[0].revision) };
    assert_eq!(left.key.replace("left", "right"), *right.key, "half a transaction at {}", left.revision);
    [show_event(left), show_event(right)]
}

/// The last acknowledged write of each key is present or was replaced, and pairs are whole.
fn check_present(store: &Store, known: &Known) {
    let mut last: BTreeMap<&str, &Ack> = BTreeMap::new();
    for ack in known.acks.values() {
        last.insert(&ack.key, ack);
    }
    for (key, ack) in last {
        let left = store.get(key);
        let right = store.get(&key.replace("left", "right"));
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map(|entry| entry.value.clone());
        assert_eq!(value(&left), value(&right), "half a transaction on {key}");
        match &left {
            Some(entry) if entry.mod_revision == ack.revision => {
                assert!(entry.value.starts_with(ack.value.as_bytes()), "{key}");
            }
            Some(entry) => assert!(entry.mod_revision > ack.revision, "{key} went back"),
            None => {
                let deleted_later = known
                    .events
                    .range(ack.revision + 1..)
                    .any(|(_, [left, _])| left.ends_with(" -> -") && left.contains(&format!(" {key}=")));
                assert!(ack.value == "-" || deleted_later, "{key} is lost");
            }
        }
    }
}

/// The state as of a revision plus the events watched from there is the current state.
async fn check_resume(store: &Store, after: Revision) {
    let range = store.range_at("", "", 0, after).await.expect("the state of the past");
    let mut replayed: BTreeMap<_, _> =
        range.entries.into_iter().map(|entry| (entry.key.clone(), entry.mod_revision)).collect();
    let mut watch = store.watch("", after).expect("a watch");
    let mut reached = after;
    while reached < store.revision() {
        let events = watch.next().await.expect("events");
        for event in &events {
            let previous = event.previous.as_ref().map(|entry| entry.mod_revision);
            assert_eq!(replayed.get(&event.key).copied(), previous, "at {}", event.revision);
            match &event.current {
                Some(entry) => replayed.insert(event.key.clone(), entry.mod_revision),
                None => replayed.remove(&event.key),
            };
            assert!(event.revision > after, "out of order");
        }
        let last = events.last().map_or(reached, |event| event.revision);
        assert!(events.is_sorted_by_key(|event| event.revision) && last > reached, "out of order");
        reached = last;
    }
    let present: BTreeMap<_, _> = store
        .range("", "", 0)
        .entries
        .into_iter()
        .map(|entry| (entry.key.clone(), entry.mod_revision))
        .collect();
    assert_eq!(replayed, present, "resumed after {after}");
    assert!(!matches!(store.watch("", after), Err(Error::Compacted { .. })));
}
