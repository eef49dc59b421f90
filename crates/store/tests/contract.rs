//! The store's contract, one guarantee per test, on each engine.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{delete, put, put_if, subject::Subject};
use corten_store::{Error, Event, Expect, LeaseId, NewValue, Observer, Op, Revision, Store, Watch};

macro_rules! contract {
    ($($name:ident)*) => {
        mod embedded {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Subject::embedded()).await;
            })*
        }

        mod etcd {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Subject::etcd().await).await;
            })*
        }
    };
}

contract! {
    expectations_decide_a_transaction
    a_transaction_is_all_or_nothing_and_has_one_revision
    the_revision_is_spliced_into_the_value
    ranges_are_ordered_paged_and_stay_within_the_prefix
    past_revisions_are_read_unchanged
    history_is_replayed_from_any_revision_and_survives_a_restart
    a_watch_continues_from_history_to_new_events_without_a_gap
    a_watch_that_fell_behind_catches_up_from_history
    observers_are_notified_after_readers_see_a_write_and_before_its_writer
    compaction_removes_history_and_keeps_live_entries
    revisions_are_not_reused_after_everything_is_deleted_and_compacted
    a_revoked_lease_deletes_its_keys
    a_lease_expires_as_an_ordinary_commit_also_across_a_restart
    an_observer_that_panics_closes_the_store_instead_of_hanging_it
    a_closed_store_reads_only_its_memory
    a_store_that_caught_up_has_all_writes
    concurrent_writers_of_one_key_do_not_overwrite_each_other
}

async fn expectations_decide_a_transaction(subject: Subject) {
    let here = subject.commit(vec![put("here", "1")]).await.unwrap().revision;
    let table = [
        ("here", Expect::Any, true),
        ("here", Expect::Present, true),
        ("here", Expect::Absent, false),
        ("here", Expect::ModRevision(here), true),
        ("here", Expect::ModRevision(here + 1), false),
        ("here", Expect::ModRevision(0), false),
        ("gone", Expect::Any, true),
        ("gone", Expect::Present, false),
        ("gone", Expect::Absent, true),
        ("gone", Expect::ModRevision(0), true),
        ("gone", Expect::ModRevision(here), false),
    ];
    for (key, expect, holds) in table {
        let check = Op::Check { key: key.into(), expect };
        match subject.commit(vec![check]).await {
            Ok(committed) => {
                assert!(holds, "{key} {expect:?}");
                assert_eq!(committed.entries[0].is_some(), key == "here", "{key} {expect:?}");
            }
            Err(Error::Conflict { op: 0, current }) => {
                assert!(!holds, "{key} {expect:?}");
                assert_eq!(current.is_some(), key == "here", "{key} {expect:?}");
            }
            Err(error) => panic!("{key} {expect:?}: {error}"),
        }
    }
    let checked = subject.commit(vec![Op::Check { key: "here".into(), expect: Expect::Any }]).await.unwrap();
    assert_eq!(subject.number(checked.revision), 1, "a check writes nothing");
}

async fn a_transaction_is_all_or_nothing_and_has_one_revision(subject: Subject) {
    let done = subject.commit(vec![put("a", "1"), put("b", "1")]).await.unwrap();
    assert_eq!(subject.show_all(&subject.store.range("", "", 0).entries), ["a=1@1", "b=1@1"]);
    assert_eq!(done.revision, subject.store.get("b").unwrap().mod_revision);
    let failed = subject.commit(vec![put("a", "2"), put_if("b", "2", Expect::Absent), delete("a")]).await;
    assert!(matches!(failed, Err(Error::Invalid(_))), "the same key twice");
    let failed = subject.commit(vec![put("a", "2"), put_if("b", "2", Expect::Absent)]).await;
    let Err(Error::Conflict { op: 1, current: Some(current) }) = failed else { panic!() };
    assert_eq!(subject.show(&current), "b=1@1");
    let check = Op::Check { key: "c".into(), expect: Expect::Absent };
    let nothing = Op::Delete { key: "d".into(), expect: Expect::Any };
    let done = subject.commit(vec![delete("b"), check, put("a", "3"), nothing]).await.unwrap();
    let entries: Vec<_> =
        done.entries.iter().map(|entry| entry.as_deref().map(|entry| subject.show(entry))).collect();
    assert_eq!(entries, [Some("b=1@1".into()), None, Some("a=3@2".into()), None]);
    let a = subject.store.get("a").unwrap();
    let numbers = (subject.number(a.create_revision), subject.number(a.mod_revision), a.version);
    assert_eq!(numbers, (1, 2, 2));
    assert!(subject.store.get("b").is_none());
    let nothing = Op::Delete { key: "d".into(), expect: Expect::Any };
    let done = subject.commit(vec![nothing]).await.unwrap();
    assert_eq!(subject.number(done.revision), 2, "nothing was written");
}

async fn the_revision_is_spliced_into_the_value(mut subject: Subject) {
    let put_at = |at| {
        let value = NewValue { bytes: b"<>".to_vec(), revision_at: Some(at), note: None };
        vec![Op::Put { key: "a".into(), expect: Expect::Any, value, lease: None }]
    };
    for at in 0..=2 {
        let done = subject.commit(put_at(at)).await.unwrap();
        let mut expected = "<>".to_owned();
        expected.insert_str(at, &done.revision.to_string());
        assert_eq!(subject.store.get("a").unwrap().value, expected);
        assert_eq!(done.entries[0].as_ref().unwrap().value, expected);
        subject.reopen().await;
        assert_eq!(subject.store.get("a").unwrap().value, expected, "after a restart");
    }
    assert!(matches!(subject.commit(put_at(3)).await, Err(Error::Invalid(_))));
}

async fn ranges_are_ordered_paged_and_stay_within_the_prefix(subject: Subject) {
    for key in ["/b/2", "/a/9", "/b/1", "/b/3", "/b", "/c/1"] {
        subject.commit(vec![put(key, "")]).await.unwrap();
    }
    let page = |from: &str, limit| {
        let range = subject.store.range("/b/", from, limit);
        (range.entries.iter().map(|e| e.key.to_string()).collect::<Vec<_>>(), range.remaining)
    };
    assert_eq!(page("", 0), (vec!["/b/1".into(), "/b/2".into(), "/b/3".into()], 0));
    assert_eq!(page("", 2), (vec!["/b/1".into(), "/b/2".into()], 1));
    assert_eq!(page("/b/2\0", 2), (vec!["/b/3".into()], 0));
    assert_eq!(page("/c", 2), (vec![], 0));
    assert_eq!(subject.store.range("", "", 1).remaining, 5);
    assert_eq!(subject.number(subject.store.range("", "", 1).revision), 6);
}

async fn past_revisions_are_read_unchanged(subject: Subject) {
    subject.commit(vec![put("/a", "1"), put("/b", "2"), put("/z", "3")]).await.unwrap();
    subject.commit(vec![put("/b", "4"), put("/c", "5"), delete("/a")]).await.unwrap();
    subject.commit(vec![put("/a", "7"), delete("/c")]).await.unwrap();
    subject.commit(vec![put("x", "9")]).await.unwrap();
    let table: [(u64, &[&str]); 5] = [
        (0, &[]),
        (1, &["/a=1@1", "/b=2@1", "/z=3@1"]),
        (2, &["/b=4@2", "/c=5@2", "/z=3@1"]),
        (3, &["/a=7@3", "/b=4@2", "/z=3@1"]),
        (4, &["/a=7@3", "/b=4@2", "/z=3@1"]),
    ];
    for (number, expected) in table {
        let revision = subject.at(number);
        let range = subject.store.range_at("/", "", 0, revision).await.unwrap();
        assert_eq!(subject.show_all(&range.entries), expected, "at {number}");
        assert_eq!(range.revision, revision);
        let page = subject.store.range_at("/", "/b", 1, revision).await.unwrap();
        let rest: Vec<_> = expected.iter().filter(|entry| **entry >= "/b").collect();
        assert_eq!(page.entries.len(), rest.len().min(1), "at {number}");
        assert_eq!(page.remaining as usize, rest.len().saturating_sub(1), "at {number}");
    }
    let future = subject.store.range_at("/", "", 0, subject.store.revision() + 1).await;
    assert!(matches!(future, Err(Error::Future { .. })));
}

async fn history_is_replayed_from_any_revision_and_survives_a_restart(mut subject: Subject) {
    let expected = [
        "1: - -> /a=1@1",
        "2: /a=1@1 -> /a=2@2",
        "2: - -> /b=2@2",
        "4: /a=2@2 -> -",
        "4: /b=2@2 -> /b=4@4",
        "5: - -> /a=3@5",
    ];
    subject.commit(vec![put("/a", "1")]).await.unwrap();
    subject.commit(vec![put("/a", "2"), put("other", ""), put("/b", "2")]).await.unwrap();
    subject.commit(vec![put("other", "")]).await.unwrap();
    subject.commit(vec![delete("/a"), put("/b", "4")]).await.unwrap();
    subject.commit(vec![put("/a", "3")]).await.unwrap();
    subject.reopen().await;
    let read = async |after, up_to, limit| {
        let (after, up_to) = (subject.at(after), subject.at(up_to));
        subject.show_events(&subject.store.events_since("/", after, up_to, limit).await.unwrap())
    };
    for after in 0..=5 {
        let missed: Vec<_> =
            expected.iter().filter(|event| event[..1].parse::<u64>().unwrap() > after).collect();
        assert_eq!(read(after, 5, 100).await.iter().collect::<Vec<_>>(), missed, "after {after}");
    }
    for (after, up_to, limit, page) in
        [(0, 2, 1, 0..1), (1, 5, 1, 1..3), (0, 5, 2, 0..3), (0, 5, 3, 0..3), (0, 5, 4, 0..5), (2, 3, 9, 3..3)]
    {
        let events = read(after, up_to, limit).await;
        assert_eq!(events, expected[page], "after {after}, {limit} and the rest of a revision");
    }
    let again = subject.store.get("/a").unwrap();
    assert_eq!((subject.number(again.create_revision), again.version), (5, 1));
}

async fn a_watch_continues_from_history_to_new_events_without_a_gap(subject: Subject) {
    subject.commit(vec![put("/a", "1"), put("x", "")]).await.unwrap();
    subject.commit(vec![put("/b", "2"), put("x", "2")]).await.unwrap();
    let mut watch = subject.store.watch("/", subject.at(1)).unwrap();
    subject.commit(vec![put("/c", "3"), put("/a", "4")]).await.unwrap();
    let seen = take(&mut watch, 3).await;
    assert_eq!(subject.show_events(&seen), ["2: - -> /b=2@2", "3: - -> /c=3@3", "3: /a=1@1 -> /a=4@3"]);
    let pending = tokio::spawn(async move { take(&mut watch, 1).await });
    subject.commit(vec![delete("/b")]).await.unwrap();
    assert_eq!(subject.show_events(&pending.await.unwrap()), ["4: /b=2@2 -> -"]);
    let future = subject.store.watch("/", subject.store.revision() + 1);
    assert!(matches!(future, Err(Error::Future { .. })));
}

async fn a_watch_that_fell_behind_catches_up_from_history(subject: Subject) {
    let mut watch = subject.store.watch("/", subject.at(0)).unwrap();
    for round in 0..30 {
        let ops = (0..100).map(|key| put(&format!("/{key}"), &round.to_string())).collect();
        subject.commit(ops).await.unwrap();
    }
    let mut seen = 0;
    while seen < 3000 {
        let events = watch.next().await.unwrap();
        for event in &events {
            assert_eq!(subject.number(event.revision), seen / 100 + 1);
            seen += 1;
        }
        assert_eq!(seen % 100, 0, "a revision comes whole");
    }
    subject.store.clone().close();
    assert!(matches!(watch.next().await, Err(Error::Closed)));
}

async fn take(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.extend(watch.next().await.unwrap());
    }
    seen
}

/// Compares events with the state that a reader sees at that moment.
struct Checker {
    store: Store,
    notified: parking_lot::Mutex<Vec<Revision>>,
}

impl Observer for Checker {
    fn apply(&self, events: &[Arc<Event>], revision: Revision) {
        assert_eq!(self.store.revision(), revision);
        self.notified.lock().extend(events.iter().map(|event| event.revision));
    }
}

async fn observers_are_notified_after_readers_see_a_write_and_before_its_writer(subject: Subject) {
    let store = &subject.store;
    subject.commit(vec![put("/a", "1"), put("x", "1")]).await.unwrap();
    let checker = Arc::new(Checker { store: store.clone(), notified: Default::default() });
    let (revision, entries) = store.observe("/", Arc::clone(&checker) as Arc<dyn Observer>);
    assert_eq!((subject.number(revision), subject.show_all(&entries)), (1, vec!["/a=1@1".to_string()]));
    for expected in [vec![2], vec![2, 3]] {
        let done = subject.commit(vec![put("/a", "2"), put("x", "2")]).await.unwrap();
        let notified: Vec<u64> = checker.notified.lock().iter().map(|at| subject.number(*at)).collect();
        assert_eq!(notified, expected);
        assert_eq!(*store.progress().borrow(), done.revision);
    }
    store.clone().close();
}

async fn compaction_removes_history_and_keeps_live_entries(mut subject: Subject) {
    subject.commit(vec![put("/a", "1"), put("/b", "1")]).await.unwrap();
    subject.commit(vec![put("/a", "2"), delete("/b")]).await.unwrap();
    subject.commit(vec![put("/a", "3"), put("/c", "3")]).await.unwrap();
    let (first, second, third) = (subject.at(1), subject.at(2), subject.at(3));
    subject.store.compact(second).await.unwrap();
    assert_eq!(subject.store.compacted(), second);
    subject.store.compact(first).await.unwrap();
    assert_eq!(subject.store.compacted(), second, "never goes back");
    let future = subject.store.compact(subject.store.revision() + 1).await;
    assert!(matches!(future, Err(Error::Future { .. })));
    // Closing and opening completes the removal of files.
    subject.reopen().await;
    let store = &subject.store;
    assert_eq!((store.compacted(), subject.number(store.revision())), (second, 3));
    let gone = store.range_at("/", "", 0, first).await;
    assert!(
        matches!(gone, Err(Error::Compacted { requested, compacted }) if (requested, compacted) == (first, second))
    );
    assert!(matches!(store.watch("/", first), Err(Error::Compacted { .. })));
    assert!(matches!(store.events_since("/", first, third, 9).await, Err(Error::Compacted { .. })));
    let range = store.range_at("/", "", 0, second).await.unwrap();
    assert_eq!(subject.show_all(&range.entries), ["/a=2@2"]);
    let events = store.events_since("/", second, third, 9).await.unwrap();
    assert_eq!(subject.show_events(&events), ["3: /a=2@2 -> /a=3@3", "3: - -> /c=3@3"]);
}

async fn revisions_are_not_reused_after_everything_is_deleted_and_compacted(mut subject: Subject) {
    subject.commit(vec![put("/a", "1")]).await.unwrap();
    let last = subject.commit(vec![delete("/a")]).await.unwrap().revision;
    subject.store.compact(last).await.unwrap();
    subject.reopen().await;
    assert!(subject.store.revision() >= last);
    assert!(subject.commit(vec![put("/a", "1")]).await.unwrap().revision > last);
}

fn leased(key: &str, lease: Option<LeaseId>) -> Op {
    Op::Put { key: key.into(), expect: Expect::Any, value: NewValue::default(), lease }
}

async fn a_revoked_lease_deletes_its_keys(mut subject: Subject) {
    let hour = subject.store.grant(Duration::from_secs(3600)).await.unwrap();
    let all = ["/a", "/b", "/d"].map(|key| leased(key, Some(hour)));
    subject.commit(all.into()).await.unwrap();
    subject.commit(vec![leased("/b", None), put("/c", "")]).await.unwrap();
    subject.store.keep_alive(hour).await.unwrap();
    subject.reopen().await;

    let store = &subject.store;
    assert_eq!(store.get("/a").unwrap().lease, Some(hour));
    store.revoke(hour).await.unwrap();
    let events = store.events_since("/", subject.at(2), Revision::MAX, 0).await.unwrap();
    assert_eq!(subject.show_events(&events), ["3: /a=@1 -> -", "3: /d=@1 -> -"], "in one revision");
    assert!(store.get("/a").is_none(), "attached");
    assert!(store.get("/b").is_some(), "detached by a later put");
    assert!(matches!(store.revoke(hour).await, Err(Error::UnknownLease)));
    assert!(matches!(store.keep_alive(hour).await, Err(Error::UnknownLease)));
    let late = subject.commit(vec![leased("/a", Some(hour))]).await;
    assert!(matches!(late, Err(Error::UnknownLease)));
    subject.reopen().await;
    assert_ne!(subject.store.grant(Duration::from_secs(1)).await.unwrap(), hour, "not reused");
}

async fn a_lease_expires_as_an_ordinary_commit_also_across_a_restart(mut subject: Subject) {
    // etcd counts in seconds.
    let short = Duration::from_secs(1);
    let mut watch = subject.store.watch("/", subject.at(0)).unwrap();
    let lease = subject.store.grant(short).await.unwrap();
    subject.commit(vec![leased("/a", Some(lease))]).await.unwrap();
    let seen = take(&mut watch, 2).await;
    assert_eq!(subject.show_events(&seen), ["1: - -> /a=@1", "2: /a=@1 -> -"]);

    let lease = subject.store.grant(short).await.unwrap();
    let committed = subject.commit(vec![leased("/b", Some(lease))]).await.unwrap();
    subject.reopen().await;
    let mut watch = subject.store.watch("/", committed.revision).unwrap();
    let seen = take(&mut watch, 1).await;
    assert_eq!(subject.show_events(&seen), ["4: /b=@3 -> -"]);
}

struct Panicking;

impl Observer for Panicking {
    fn apply(&self, _: &[Arc<Event>], _: Revision) {
        panic!("an observer's bug");
    }
}

async fn an_observer_that_panics_closes_the_store_instead_of_hanging_it(mut subject: Subject) {
    let store = &subject.store;
    let mut watch = store.watch("/", subject.at(0)).unwrap();
    store.observe("/", Arc::new(Panicking));
    for _ in 0..2 {
        assert!(matches!(subject.commit(vec![put("/a", "1")]).await, Err(Error::Closed)));
    }
    assert_eq!(&*take(&mut watch, 1).await[0].key, "/a");
    assert!(matches!(watch.next().await, Err(Error::Closed)));
    subject.reopen().await;
    assert_eq!(subject.store.get("/a").unwrap().value, "1", "it was durable");
}

async fn a_closed_store_reads_only_its_memory(subject: Subject) {
    subject.commit(vec![put("/a", "1")]).await.unwrap();
    let (store, clone) = (subject.store.clone(), &subject.store);
    store.close();
    assert!(matches!(clone.events_since("/", 0, 1, 9).await, Err(Error::Closed)));
    assert!(matches!(clone.range_at("/", "", 0, 0).await, Err(Error::Closed)));
    assert!(matches!(subject.commit(vec![put("/a", "")]).await, Err(Error::Closed)));
    assert!(clone.get("/a").is_some());
}

async fn a_store_that_caught_up_has_all_writes(subject: Subject) {
    let other = subject.another().await;
    for value in 0..20 {
        let value = value.to_string();
        let done = subject.commit(vec![put("/a", &value)]).await.unwrap();
        other.catch_up().await.unwrap();
        assert!(*other.progress().borrow() >= done.revision);
        assert_eq!(other.get("/a").unwrap().value, value);
    }
}

async fn concurrent_writers_of_one_key_do_not_overwrite_each_other(subject: Subject) {
    const WRITERS: usize = 4;
    const EACH: usize = 25;
    subject.commit(vec![put("/count", "0")]).await.unwrap();
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let store = subject.another().await;
        writers.push(tokio::spawn(async move {
            let mut current = store.get("/count").unwrap();
            let mut done = 0;
            while done < EACH {
                let count: usize = std::str::from_utf8(&current.value).unwrap().parse().unwrap();
                let expect = Expect::ModRevision(current.mod_revision);
                let next = put_if("/count", &(count + 1).to_string(), expect);
                match store.commit(next.into()).await {
                    Ok(committed) => {
                        current = committed.entries[0].clone().unwrap();
                        done += 1;
                    }
                    Err(Error::Conflict { op: 0, current: Some(newer) }) => {
                        assert!(newer.mod_revision > current.mod_revision);
                        let known = store.get("/count").unwrap();
                        assert!(known.mod_revision >= newer.mod_revision, "the store has seen it too");
                        current = known;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    subject.store.catch_up().await.unwrap();
    assert_eq!(subject.store.get("/count").unwrap().value, (WRITERS * EACH).to_string());
}
