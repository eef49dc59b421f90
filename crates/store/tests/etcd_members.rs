//! A store on three etcd members with TLS: it survives the loss of any one of them, and of all for a while.

mod common;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use common::{commit, etcd::Plain, etcd_members::EtcdMembers, put, put_if};
use corten_store::{Error, EtcdOptions, Expect, Store};

const DEADLINE: Duration = Duration::from_secs(60);

/// Repeats a write until it succeeds. A conflict is an earlier attempt that succeeded without a response.
async fn create(store: &Store, key: &str) {
    let write = async {
        loop {
            match commit(store, vec![put_if(key, "1", Expect::Absent)]).await {
                Ok(_) => return,
                Err(Error::Conflict { .. }) => return,
                Err(Error::Etcd(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, write).await.expect("the cluster accepts writes");
}

async fn catch_up(store: &Store) {
    let caught_up = async { while store.catch_up().await.is_err() {} };
    tokio::time::timeout(DEADLINE, caught_up).await.expect("the cluster answers");
}

fn keys(store: &Store) -> BTreeSet<String> {
    store.range("/", "", 0).entries.iter().map(|entry| entry.key.to_string()).collect()
}

#[tokio::test]
async fn every_write_survives_the_loss_of_each_member_in_turn() {
    let mut cluster = EtcdMembers::start();
    let store = Store::connect(cluster.options(0), Arc::new(Plain)).await.unwrap();
    let other = Store::connect(cluster.options(1), Arc::new(Plain)).await.unwrap();
    let mut watch = store.watch("/", store.revision()).unwrap();
    let mut written = BTreeSet::new();
    // One of the three is the leader.
    for member in 0..3 {
        cluster.kill_9(member);
        for index in 0..10 {
            let key = format!("/down-{member}/{index}");
            create(if index % 2 == 0 { &store } else { &other }, &key).await;
            written.insert(key);
        }
        cluster.restart(member);
        for store in [&store, &other] {
            catch_up(store).await;
            assert_eq!(keys(store), written);
        }
    }
    let mut seen = Vec::new();
    while seen.len() < written.len() {
        let events = tokio::time::timeout(DEADLINE, watch.next()).await.expect("an event").unwrap();
        seen.extend(events.iter().map(|event| (event.revision, event.key.to_string())));
    }
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "in order: {seen:?}");
    assert_eq!(seen.into_iter().map(|(_, key)| key).collect::<BTreeSet<_>>(), written, "each once");
}

#[tokio::test]
async fn a_member_that_hangs_is_left() {
    let cluster = EtcdMembers::start();
    let store = Store::connect(cluster.options(0), Arc::new(Plain)).await.unwrap();
    commit(&store, vec![put("/a", "1")]).await.unwrap();
    for member in 0..3 {
        cluster.signal(member, "STOP");
        let key = format!("/hangs-{member}");
        create(&store, &key).await;
        catch_up(&store).await;
        assert!(store.get(&key).is_some());
        cluster.signal(member, "CONT");
    }
    let again = Store::connect(cluster.options(2), Arc::new(Plain)).await.unwrap();
    assert_eq!(keys(&again), keys(&store));
}

#[tokio::test]
async fn nothing_is_acknowledged_without_a_quorum() {
    let mut cluster = EtcdMembers::start();
    let options = EtcdOptions { timeout: Duration::from_secs(3), ..cluster.options(0) };
    let store = Store::connect(options, Arc::new(Plain)).await.unwrap();
    commit(&store, vec![put("/a", "1")]).await.unwrap();
    cluster.kill_9(1);
    cluster.kill_9(2);
    assert!(commit(&store, vec![put("/a", "2")]).await.is_err());
    assert!(store.catch_up().await.is_err());
    assert_eq!(store.get("/a").unwrap().value, "1");
    cluster.kill_9(0);
    assert!(commit(&store, vec![put("/a", "3")]).await.is_err());
    for member in 0..3 {
        cluster.restart(member);
    }
    create(&store, "/back").await;
    catch_up(&store).await;
    let again = Store::connect(cluster.options(1), Arc::new(Plain)).await.unwrap();
    assert_eq!(keys(&again), keys(&store));
    assert_eq!(again.get("/a").unwrap().value, store.get("/a").unwrap().value);
}
