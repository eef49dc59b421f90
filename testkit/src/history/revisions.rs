//! Revisions: each acknowledged write has its own, later writes have higher ones, no watch misses or repeats one, and each
//! list shows exactly the writes up to its revision.

use std::collections::BTreeMap;

use super::{Action, Events, List, Operation, Outcome, Seen, State};

/// The key and the state of each revision.
type Log = BTreeMap<u64, (String, State)>;

pub(super) fn check(seen: &Seen) -> Result<(), String> {
    let mut log = Log::new();
    for watch in &seen.watches {
        check_order(watch)?;
        for (revision, key, state) in &watch.events {
            add(&mut log, *revision, key, state)?;
        }
    }
    let mut writes: Vec<&Operation> = seen.operations.iter().filter(|op| op.revision.is_some()).collect();
    for write in &writes {
        let (Some(revision), Action::Write { to, outcome: Outcome::Done, .. }) =
            (write.revision, &write.action)
        else {
            return Err(format!("a request that is no acknowledged write has a revision: {write:?}"));
        };
        add(&mut log, revision, &write.key, to)?;
    }
    writes.sort_by_key(|write| write.sent);
    check_time(&writes)?;
    for watch in &seen.watches {
        check_gaps(watch, &log)?;
    }
    for list in &seen.lists {
        check_list(list, &writes, &log)?;
    }
    Ok(())
}

fn add(log: &mut Log, revision: u64, key: &str, state: &State) -> Result<(), String> {
    let entry = (key.to_owned(), state.clone());
    match log.insert(revision, entry.clone()) {
        Some(other) if other != entry => Err(format!("revision {revision} is both {other:?} and {entry:?}")),
        _ => Ok(()),
    }
}

/// The revisions of a watch only grow.
fn check_order(watch: &Events) -> Result<(), String> {
    let mut last = watch.after;
    for (revision, key, _) in &watch.events {
        if *revision <= last {
            return Err(format!("a watch showed revision {revision} of {key} after revision {last}"));
        }
        last = *revision;
    }
    Ok(())
}

/// A write that was sent after another was acknowledged has a higher revision.
fn check_time(writes: &[&Operation]) -> Result<(), String> {
    let mut by_answer = writes.to_vec();
    by_answer.sort_by_key(|write| write.answered);
    let (mut highest, mut answered) = (None::<&Operation>, by_answer.iter().peekable());
    for write in writes {
        while let Some(earlier) = answered.next_if(|earlier| earlier.answered < write.sent) {
            if highest.is_none_or(|highest| highest.revision < earlier.revision) {
                highest = Some(earlier);
            }
        }
        if let Some(highest) = highest.filter(|highest| highest.revision >= write.revision) {
            return Err(format!("a later write has a lower revision:\n{highest:?}\n{write:?}"));
        }
    }
    Ok(())
}

/// A watch shows every known revision up to its last one.
fn check_gaps(watch: &Events, log: &Log) -> Result<(), String> {
    let Some((last, ..)) = watch.events.last() else { return Ok(()) };
    let shown: BTreeMap<u64, ()> = watch.events.iter().map(|(revision, ..)| (*revision, ())).collect();
    match log.range(watch.after + 1..=*last).find(|(revision, _)| !shown.contains_key(revision)) {
        Some((revision, entry)) => {
            Err(format!("a watch from {} to {last} misses revision {revision}: {entry:?}", watch.after))
        }
        None => Ok(()),
    }
}

/// A list shows the state at its revision, and all writes that were acknowledged before it was requested.
fn check_list(list: &List, writes: &[&Operation], log: &Log) -> Result<(), String> {
    let before = writes.iter().filter(|write| write.answered < list.sent).max_by_key(|write| write.revision);
    if let Some(write) = before.filter(|write| write.revision > Some(list.revision)) {
        return Err(format!(
            "a list at revision {} is older than an acknowledged write: {write:?}",
            list.revision
        ));
    }
    let mut state: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for (revision, (key, value)) in log.range(..=list.revision) {
        match value {
            Some(value) => state.insert(key.clone(), (*revision, value.clone())),
            None => state.remove(key),
        };
    }
    if state == list.items {
        return Ok(());
    }
    let differs = |(key, item): &(&String, &(u64, String))| list.items.get(*key) != Some(*item);
    let missing: Vec<_> = state.iter().filter(differs).take(4).collect();
    let extra: Vec<_> =
        list.items.iter().filter(|(key, item)| state.get(*key) != Some(*item)).take(4).collect();
    Err(format!("the list at revision {} has {extra:?} where the writes say {missing:?}", list.revision))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn write(sent: u64, answered: u64, revision: u64, key: &str, to: &str) -> Operation {
        let action = Action::Write { from: None, to: Some(to.to_owned()), outcome: Outcome::Done };
        let time = Duration::from_millis;
        Operation {
            key: key.to_owned(),
            action,
            revision: Some(revision),
            sent: time(sent),
            answered: time(answered),
        }
    }

    fn watch(after: u64, events: &[(u64, &str, &str)]) -> Events {
        let event = |(revision, key, value): &(u64, &str, &str)| {
            (*revision, (*key).to_owned(), (!value.is_empty()).then(|| (*value).to_owned()))
        };
        Events { after, events: events.iter().map(event).collect() }
    }

    fn list(sent: u64, revision: u64, items: &[(&str, u64, &str)]) -> List {
        let item = |(key, revision, value): &(&str, u64, &str)| {
            ((*key).to_owned(), (*revision, (*value).to_owned()))
        };
        List { revision, items: items.iter().map(item).collect(), sent: Duration::from_millis(sent) }
    }

    /// Writes of `a`, `b` and `a` again, and a deletion of `b` whose revision only watches know.
    fn good() -> Seen {
        let events = [(2, "a", "1"), (3, "b", "1"), (5, "a", "2"), (6, "b", "")];
        Seen {
            operations: vec![write(0, 1, 2, "a", "1"), write(2, 9, 3, "b", "1"), write(3, 8, 5, "a", "2")],
            lists: vec![list(20, 6, &[("a", 5, "2")]), list(4, 4, &[("a", 2, "1"), ("b", 3, "1")])],
            watches: vec![watch(1, &events), watch(3, &events[2..]), watch(9, &[])],
        }
    }

    #[test]
    fn records_that_agree_are_good() {
        assert_eq!(good().check_revisions(), Ok(()));
        assert_eq!(Seen::default().check_revisions(), Ok(()));
    }

    #[test]
    fn records_that_disagree_are_bad() {
        type Change = fn(&mut Seen);
        let table: [(&str, Change); 9] = [
            ("an event is missing", |seen| drop(seen.watches[0].events.remove(1))),
            ("an event comes twice", |seen| seen.watches[1].events.push((6, "b".into(), None))),
            ("events are out of order", |seen| seen.watches[0].events.swap(0, 1)),
            ("an event has another value", |seen| seen.watches[1].events[0].2 = Some("3".into())),
            ("a write has another's revision", |seen| seen.operations[0].revision = Some(3)),
            ("a later write has a lower revision", |seen| seen.operations.push(write(50, 51, 4, "c", "1"))),
            ("a list lacks a key", |seen| drop(seen.lists[1].items.remove("b"))),
            ("a list has a deleted key", |seen| {
                seen.lists[0].items.insert("b".into(), (3, "1".into()));
            }),
            ("a list is older than an acknowledged write", |seen| {
                seen.lists[1].sent = Duration::from_millis(30)
            }),
        ];
        for (what, change) in table {
            let mut bad = good();
            change(&mut bad);
            assert!(bad.check_revisions().is_err(), "{what}");
        }
    }

    impl Seen {
        fn check_revisions(&self) -> Result<(), String> {
            check(self)
        }
    }
}
