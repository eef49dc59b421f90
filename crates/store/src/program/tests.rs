//! Programs against a small store: `a` and `b` were put at revisions 11 and 12, `b` with lease 7.

use std::time::{Duration, Instant};

use super::*;
use crate::{lease::Leases, sealing::Plain, state::State};

fn put(key: &str, value: Option<&'static str>, lease: PutLease) -> Step {
    Step::Put { key: key.into(), value: value.map(|value| Bytes::from_static(value.as_bytes())), lease }
}

fn keys(start: &str, end: &str) -> Keys {
    Keys { start: start.into(), end: End::Before(end.into()) }
}

fn read(keys: Keys) -> Step {
    Step::Read { keys, limit: None, revision: None }
}

fn condition(keys: Keys, target: Target, relation: Relation) -> Condition {
    Condition { keys, target, relation }
}

fn steps(success: Vec<Step>) -> Program {
    Program { success, ..Program::default() }
}

/// Runs a program in the store above; returns its result and the writes.
fn run(program: Program) -> (Result<Outcome, Error>, Vec<String>) {
    let (state, leases) = (State::default(), Leases::default());
    let mut planner = Planner::new(&state, &leases, &Plain, 0, 10, Instant::now());
    planner.grant(Some(LeaseId(7)), Duration::from_secs(1)).unwrap();
    planner.program(steps(vec![put("a", Some("1"), PutLease::None)])).unwrap();
    planner.program(steps(vec![put("b", Some("2"), PutLease::Some(LeaseId(7)))])).unwrap();
    let outcome = planner.program(program);
    let show = |event: &crate::Event| {
        let value = event.current.as_ref().map(|entry| {
            let lease = entry.lease.map_or(0, |id| id.0);
            format!("={}/{lease}", String::from_utf8_lossy(&entry.value))
        });
        format!("{} {}{}", event.revision, event.key, value.unwrap_or_default())
    };
    let writes = planner.finish().0.writes.iter().skip(2).map(|write| show(&write.event)).collect();
    (outcome, writes)
}

fn read_keys(result: &StepResult) -> Vec<&str> {
    let StepResult::Read { entries, .. } = result else { panic!("not a read: {result:?}") };
    entries.iter().map(|entry| &*entry.key).collect()
}

#[test]
fn conditions_compare_every_key_of_a_range_and_absent_keys_as_zeros() {
    let cases = [
        (Keys::one("a"), Target::Version(1), Relation::Equal, true),
        (Keys::one("a"), Target::Modified(11), Relation::Less, false),
        (Keys::one("a"), Target::Created(10), Relation::Greater, true),
        (Keys::one("b"), Target::Lease(7), Relation::Equal, true),
        (Keys::one("b"), Target::Value(Bytes::from_static(b"2")), Relation::NotEqual, false),
        (Keys::one("z"), Target::Version(0), Relation::Equal, true),
        (Keys::one("z"), Target::Created(-1), Relation::Greater, true),
        (Keys::one("z"), Target::Value(Bytes::new()), Relation::Equal, false),
        (Keys::one("z"), Target::Value(Bytes::new()), Relation::NotEqual, false),
        (keys("a", "z"), Target::Modified(10), Relation::Greater, true),
        (keys("a", "z"), Target::Modified(11), Relation::Greater, false),
        (keys("z", "a"), Target::Version(0), Relation::Equal, true),
        (Keys { start: "b".into(), end: End::Unbounded }, Target::Lease(7), Relation::Equal, true),
    ];
    for (keys, target, relation, expected) in cases {
        let conditions = vec![condition(keys, target, relation)];
        let shown = format!("{conditions:?}");
        let (outcome, _) = run(Program { conditions, ..Program::default() });
        assert_eq!(outcome.unwrap().succeeded, expected, "{shown}");
    }
}

#[test]
fn steps_see_earlier_writes_and_conditions_do_not() {
    let absent = condition(Keys::one("c"), Target::Version(0), Relation::Equal);
    let nested = Program {
        conditions: vec![absent],
        success: vec![put("d", Some("4"), PutLease::None), read(keys("a", "z"))],
        failure: Vec::new(),
    };
    let (outcome, writes) = run(steps(vec![
        read(keys("a", "z")),
        put("c", Some("3"), PutLease::None),
        Step::Delete(keys("a", "b")),
        Step::Program(Box::new(nested)),
    ]));
    let outcome = outcome.unwrap();
    assert_eq!(outcome.revision, 13);
    assert_eq!(read_keys(&outcome.results[0]), ["a", "b"]);
    let StepResult::Program(nested) = &outcome.results[3] else { panic!() };
    assert!(nested.succeeded, "decided before the put");
    assert_eq!(read_keys(&nested.results[1]), ["b", "c", "d"]);
    assert_eq!(writes, ["13 c=3/0", "13 a", "13 d=4/0"], "in one revision");
}

#[test]
fn a_put_keeps_the_value_or_the_lease_of_a_key_that_exists() {
    let (outcome, writes) =
        run(steps(vec![put("b", None, PutLease::None), put("a", Some("x"), PutLease::Keep)]));
    let StepResult::Put { previous: Some(previous), .. } = &outcome.unwrap().results[0] else { panic!() };
    assert_eq!(previous.mod_revision, 12);
    assert_eq!(writes, ["13 b=2/0", "13 a=x/0"]);
    assert_eq!(run(steps(vec![put("b", Some("x"), PutLease::Keep)])).1, ["13 b=x/7"]);
}

#[test]
fn an_invalid_step_fails_the_program_without_a_write() {
    let read_at = |revision| Step::Read { keys: Keys::one("a"), limit: None, revision: Some(revision) };
    let cases = [
        (put("z", None, PutLease::None), "key does not exist"),
        (put("z", Some(""), PutLease::Keep), "key does not exist"),
        (put("z", Some(""), PutLease::Some(LeaseId(8))), "lease does not exist or has expired"),
        (read_at(13), "revision 13 is in the future; the store is at 12"),
    ];
    for (step, expected) in cases {
        let nested = Step::Program(Box::new(steps(vec![step])));
        let (outcome, writes) = run(steps(vec![put("c", Some(""), PutLease::None), nested]));
        assert_eq!(outcome.unwrap_err().to_string(), expected);
        assert!(writes.is_empty());
    }
    let (outcome, _) = run(steps(vec![read_at(12)]));
    assert!(matches!(outcome.unwrap().results[..], [StepResult::Deferred(12)]));
}

#[test]
fn reads_count_beyond_their_limit_and_deletions_return_entries() {
    let limited = Step::Read { keys: keys("a", "z"), limit: Some(1), revision: None };
    let (outcome, writes) = run(steps(vec![limited, Step::Delete(keys("a", "z")), read(keys("a", "z"))]));
    let results = outcome.unwrap().results;
    assert!(matches!(&results[0], StepResult::Read { entries, count: 2, .. } if entries.len() == 1));
    assert!(matches!(&results[1], StepResult::Deleted { entries, revision: 13 } if entries.len() == 2));
    assert!(read_keys(&results[2]).is_empty());
    assert_eq!(writes, ["13 a", "13 b"]);
}

#[test]
fn prefixes_are_those_of_all_keys() {
    for (keys, expected) in [
        (Keys::one("/a/b"), "/a/b"),
        (keys("/a/b/", "/a/b0"), "/a/b"),
        (keys("\u{e4}", "\u{e5}"), ""),
        (Keys { start: "/a".into(), end: End::Unbounded }, ""),
    ] {
        assert_eq!(keys.prefix(), expected);
    }
}
