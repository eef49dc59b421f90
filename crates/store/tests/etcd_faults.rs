//! Faults of etcd under a store: nothing acknowledged is lost, nothing outdated is taken for current, and the store recovers
//! without a restart.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{
    commit, delete,
    etcd::{EtcdServer, Gate, Plain},
    put, put_if,
};
use corten_store::{Error, EtcdOptions, Expect, Store};

async fn connect(server: &EtcdServer, timeout: Duration) -> Store {
    let options = EtcdOptions { timeout, ..server.options() };
    Store::connect(options, Arc::new(Plain)).await.unwrap()
}

/// Waits until a store has a value that another one wrote.
async fn wait_for(store: &Store, key: &str, value: Option<&str>) {
    let mut progress = store.progress();
    let seen = async {
        loop {
            progress.borrow_and_update();
            let found = store.get(key).map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
            if found.as_deref() == value {
                return;
            }
            progress.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), seen).await.expect("the value arrives");
}

#[tokio::test]
async fn writes_survive_that_etcd_is_killed() {
    let mut server = EtcdServer::start(&[]);
    let store = server.connect().await;
    let mut watch = store.watch("/", store.revision()).unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for index in 0..20 {
            let key = format!("/{round}/{index}");
            acknowledged
                .push(commit(&store, vec![put_if(&key, "1", Expect::Absent)]).await.unwrap().revision);
        }
        server.kill_9();
        let write = tokio::spawn({
            let store = store.clone();
            async move { commit(&store, vec![put("/waits", "1")]).await }
        });
        server.restart();
        // The write waited for a connection, or its connection broke.
        let _ = write.await.unwrap();
        store.catch_up().await.unwrap();
        assert_eq!(store.range(&format!("/{round}/"), "", 0).entries.len(), 20);
    }
    commit(&store, vec![put("/last", "1")]).await.unwrap();
    let mut seen = Vec::new();
    loop {
        let events = watch.next().await.unwrap();
        seen.extend(events.iter().map(|event| event.revision));
        if events.iter().any(|event| &*event.key == "/last") {
            break;
        }
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(acknowledged.iter().all(|revision| seen.contains(revision)), "no event is missing");
    let again = connect(&server, Duration::from_secs(20)).await;
    let written = |round| again.range(&format!("/{round}/"), "", 0).entries.len();
    assert_eq!([written(0), written(1), written(2)], [20; 3]);
}

#[tokio::test]
async fn requests_fail_while_etcd_does_not_respond() {
    let server = EtcdServer::start(&[]);
    let store = connect(&server, Duration::from_secs(2)).await;
    commit(&store, vec![put("/a", "1")]).await.unwrap();
    server.signal("STOP");
    let failed = store.catch_up().await.unwrap_err();
    assert!(matches!(failed, Error::Etcd(_)), "{failed:?}");
    let failed = commit(&store, vec![put("/a", "2")]).await.unwrap_err();
    assert!(matches!(failed, Error::Etcd(_)), "{failed:?}");
    assert_eq!(store.get("/a").unwrap().value, "1", "memory is still read");
    server.signal("CONT");
    while store.catch_up().await.is_err() {}
    let done = commit(&store, vec![put("/a", "3")]).await.unwrap();
    assert_eq!(store.get("/a").unwrap().mod_revision, done.revision);
}

#[tokio::test]
async fn differences_are_published_when_missed_events_are_compacted() {
    let server = EtcdServer::start(&[]);
    let gate = Gate::start(&server).await;
    let store = Store::connect(gate.options(&server), Arc::new(Plain)).await.unwrap();
    for key in ["/changed", "/gone", "/same", "/new again"] {
        commit(&store, vec![put(key, "old")]).await.unwrap();
    }
    let mut watch = store.watch("/", store.revision()).unwrap();
    // The store's connection breaks, and cannot be opened again until much has happened.
    gate.close();
    let other = server.connect().await;
    for ops in [
        vec![put("/changed", "new")],
        vec![delete("/gone")],
        vec![delete("/new again")],
        vec![put("/new again", "new")],
        vec![put("/created", "new")],
    ] {
        commit(&other, ops).await.unwrap();
    }
    other.compact(other.revision()).await.unwrap();
    gate.open();
    wait_for(&store, "/created", Some("new")).await;
    wait_for(&store, "/gone", None).await;
    let mut shown = Vec::new();
    while shown.len() < 5 {
        for event in watch.next().await.unwrap() {
            let value =
                event.current.as_ref().map_or("-".into(), |entry| String::from_utf8_lossy(&entry.value));
            shown.push(format!("{}={value}", event.key));
        }
    }
    shown.sort();
    assert_eq!(shown, ["/changed=new", "/created=new", "/gone=-", "/new again=-", "/new again=new"]);
    store.catch_up().await.unwrap();
    assert_eq!(store.revision(), other.revision());
    let done = commit(&store, vec![put("/after", "1")]).await.unwrap();
    assert_eq!(store.get("/after").unwrap().mod_revision, done.revision);
}

#[tokio::test]
async fn a_full_etcd_refuses_writes_and_serves_reads() {
    let server = EtcdServer::start(&["--quota-backend-bytes", "2000000"]);
    let store = server.connect().await;
    let value = "v".repeat(100_000);
    let mut count = 0;
    let failed = loop {
        match commit(&store, vec![put(&format!("/{count}"), &value)]).await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 1000, "space without end");
    };
    assert!(matches!(failed, Error::NoSpace(_)), "{failed:?}");
    store.catch_up().await.unwrap();
    assert_eq!(store.range("", "", 0).entries.len(), count);
    assert!(store.get(&format!("/{count}")).is_none());
}

#[tokio::test]
async fn a_store_starts_before_its_etcd() {
    let mut server = EtcdServer::start(&[]);
    commit(&server.connect().await, vec![put("/a", "1")]).await.unwrap();
    server.kill_9();
    let options = server.options();
    let connecting = tokio::spawn(async move { Store::connect(options, Arc::new(Plain)).await });
    tokio::task::yield_now().await;
    server.restart();
    assert_eq!(connecting.await.unwrap().unwrap().get("/a").unwrap().value, "1");
}

#[tokio::test]
async fn one_of_two_stores_compacts() {
    let server = EtcdServer::start(&[]);
    let options = || EtcdOptions { compaction: Some(Duration::from_millis(200)), ..server.options() };
    let first = Store::connect(options(), Arc::new(Plain)).await.unwrap();
    let second = Store::connect(options(), Arc::new(Plain)).await.unwrap();
    let written = commit(&first, vec![put("/a", "1")]).await.unwrap().revision;
    commit(&second, vec![put("/a", "2")]).await.unwrap();
    let both = async {
        for store in [&first, &second] {
            while store.compacted() <= written {
                commit(store, vec![put("/b", "")]).await.unwrap();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("both learn of a compaction");
    for store in [&first, &second] {
        assert!(matches!(store.watch("/", written), Err(Error::Compacted { .. })));
        let past = store.range_at("/", "", 0, written).await;
        assert!(matches!(past, Err(Error::Compacted { .. })), "{past:?}");
    }
}
