//! Contracts of leader election, the same for every kind of lock: one holder, takeover after expiry or release, loss at the
//! renew deadline.

use tokio::task::JoinHandle;

use corten_api::{json, meta, time, value};
use corten_client::{DeleteOptions, kinds};

use super::*;
use crate::testing::{FakeServer, manual_clock, run_other_tasks, seconds, start, until};

const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
const LOCKS: [LockKind; 3] = [LockKind::Leases, LockKind::Endpoints, LockKind::ConfigMaps];

fn election(identity: &str) -> Election {
    Election::new(Key::new("kube-system", "leader"), identity.to_owned(), "kube-test")
}

fn election_on(lock: LockKind, identity: &str) -> Election {
    Election { lock, ..election(identity) }
}

fn holder(lease: &Value) -> &str {
    lease.str_at(&["spec", "holderIdentity"]).unwrap_or_default()
}

/// The record of a lock object.
fn record(server: &FakeServer, lock: LockKind) -> Record {
    let object = server.get(lock.kind(), "kube-system", "leader").expect("the lock exists");
    lock.read(&object).expect("the record can be read")
}

/// Holds the lock until it is lost.
fn hold(mut leader: Leadership) -> JoinHandle<()> {
    tokio::spawn(async move { leader.hold().await })
}

fn lease(server: &FakeServer) -> Value {
    server.get(&kinds::LEASES, "kube-system", "leader").expect("the lease exists")
}

fn candidate(server: &FakeServer, clock: &Clock, identity: &str) -> JoinHandle<Leadership> {
    tokio::spawn(Leadership::acquire(server.client(), clock.clone(), election(identity)))
}

/// Moves the clock one retry period at a time, so that every candidate sees each of them.
async fn pass(clock_control: &corten_base::ClockControl, duration: Duration) {
    for _ in 0..duration.as_secs() / 2 {
        clock_control.advance(seconds(2));
        run_other_tasks().await;
    }
}

/// Releases the lock while time passes.
async fn release(leader: Leadership, clock_control: &corten_base::ClockControl) {
    let releasing = tokio::spawn(leader.release());
    run_other_tasks().await;
    pass(clock_control, seconds(2)).await;
    until("the lock is released", || releasing.is_finished()).await;
}

#[tokio::test]
async fn the_first_candidate_creates_the_lease() {
    let (server, (clock, _)) = (FakeServer::default(), manual_clock());
    candidate(&server, &clock, "a").await.unwrap();
    let lease = lease(&server);
    assert_eq!(holder(&lease), "a");
    assert_eq!(lease.int_at(&["spec", "leaseDurationSeconds"]), Some(15));
    assert_eq!(lease.int_at(&["spec", "leaseTransitions"]), Some(0));
}

#[tokio::test]
async fn a_candidate_takes_over_after_the_lease_has_expired() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    // The first leader never renews.
    candidate(&server, &clock, "a").await.unwrap();
    let second = candidate(&server, &clock, "b");
    run_other_tasks().await;
    pass(&clock_control, seconds(14)).await;
    assert!(!second.is_finished(), "the lease is valid for 15 s");
    pass(&clock_control, seconds(2)).await;
    second.await.unwrap();
    assert_eq!(holder(&lease(&server)), "b");
    assert_eq!(lease(&server).int_at(&["spec", "leaseTransitions"]), Some(1));
}

#[tokio::test]
async fn a_renewed_lease_is_not_taken_over() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    let held = hold(leader);
    let second = candidate(&server, &clock, "b");
    run_other_tasks().await;
    pass(&clock_control, seconds(120)).await;
    assert!(!second.is_finished());
    assert!(!held.is_finished());
    assert_eq!(holder(&lease(&server)), "a");
}

#[tokio::test]
async fn leadership_is_lost_at_the_renew_deadline() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    let held = hold(leader);
    run_other_tasks().await;
    server.set_unreachable(true);
    pass(&clock_control, seconds(8)).await;
    assert!(!held.is_finished(), "the renew deadline is 10 s");
    pass(&clock_control, seconds(2)).await;
    until("the leader gives up", || held.is_finished()).await;
}

#[tokio::test]
async fn a_short_outage_does_not_cost_the_lease() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    let held = hold(leader);
    run_other_tasks().await;
    for _ in 0..5 {
        server.set_unreachable(true);
        pass(&clock_control, seconds(6)).await;
        server.set_unreachable(false);
        pass(&clock_control, seconds(4)).await;
    }
    assert!(!held.is_finished());
}

#[tokio::test]
async fn leadership_is_lost_at_once_when_another_holds_the_lease() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    let held = hold(leader);
    run_other_tasks().await;
    let mut taken = lease(&server);
    taken.set(&["spec", "holderIdentity"], "b");
    server.put(&kinds::LEASES, &taken);
    pass(&clock_control, seconds(2)).await;
    until("the leader notices", || held.is_finished()).await;
    assert_eq!(holder(&lease(&server)), "b");
}

#[tokio::test]
async fn a_conflicting_write_of_the_own_lease_is_retried() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    let held = hold(leader);
    run_other_tasks().await;
    let mut labelled = lease(&server);
    labelled.set(&["metadata", "labels", "a"], "b");
    server.put(&kinds::LEASES, &labelled);
    pass(&clock_control, seconds(20)).await;
    assert!(!held.is_finished());
    assert_eq!(lease(&server).str_at(&["metadata", "labels", "a"]), Some("b"));
}

#[tokio::test]
async fn a_released_lease_is_taken_at_once() {
    let (server, (clock, _)) = (FakeServer::default(), manual_clock());
    candidate(&server, &clock, "a").await.unwrap();
    let mut released = lease(&server);
    released.set(&["spec", "holderIdentity"], "");
    server.put(&kinds::LEASES, &released);
    candidate(&server, &clock, "b").await.unwrap();
    assert_eq!(holder(&lease(&server)), "b");
}

#[tokio::test]
async fn every_kind_of_lock_passes_from_leader_to_leader() {
    for lock in LOCKS {
        let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
        let acquire = |identity| {
            tokio::spawn(Leadership::acquire(server.client(), clock.clone(), election_on(lock, identity)))
        };
        let first = acquire("a").await.unwrap();
        assert_eq!(record(&server, lock).holder, "a", "{lock:?}");
        let held = hold(first);
        let second = acquire("b");
        pass(&clock_control, seconds(60)).await;
        assert!(!held.is_finished() && !second.is_finished(), "{lock:?}");
        held.abort();
        pass(&clock_control, seconds(12)).await;
        assert!(!second.is_finished(), "{lock:?}: the lock is valid for 15 s");
        pass(&clock_control, seconds(6)).await;
        let second = second.await.unwrap();
        let taken = record(&server, lock);
        assert_eq!((taken.holder.as_str(), taken.transitions), ("b", 1), "{lock:?}");
        release(second, &clock_control).await;
        let free = record(&server, lock);
        assert_eq!((free.holder.as_str(), free.lease_seconds, free.transitions), ("", 1, 1), "{lock:?}");
        // A released lock is taken without waiting.
        acquire("c").await.unwrap();
        let taken = record(&server, lock);
        assert_eq!((taken.holder.as_str(), taken.transitions), ("c", 2), "{lock:?}");
    }
}

#[tokio::test]
async fn annotations_have_upstreams_record() {
    let (server, (clock, _)) = (FakeServer::default(), manual_clock());
    let mut map = kinds::CONFIG_MAPS.new_object("kube-system", "leader");
    map.set(&["data"], value!({"kept": "yes"}));
    server.put(&kinds::CONFIG_MAPS, &map);
    Leadership::acquire(server.client(), clock, election_on(LockKind::ConfigMaps, "a")).await;
    let map = server.get(&kinds::CONFIG_MAPS, "kube-system", "leader").unwrap();
    assert_eq!(map.str_at(&["data", "kept"]), Some("yes"));
    let text = map.str_at(&["metadata", "annotations", ANNOTATION]).expect("a record");
    let now = time::format(start());
    let expected = value!({
        "holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": (now.clone()), "renewTime": (now),
        "leaderTransitions": 1,
    });
    assert_eq!(json::parse(text.as_bytes()).unwrap(), expected);
}

#[test]
fn records_of_other_candidates_are_read_as_they_are() {
    let of = |text: &str| {
        let mut object = Value::object();
        object.set(&["metadata", "annotations", ANNOTATION], text);
        LockKind::Endpoints.read(&object)
    };
    let whole = of(
        r#"{"holderIdentity":"x_1","leaseDurationSeconds":30,"acquireTime":"2020-01-01T00:00:00Z","renewTime":null,"leaderTransitions":7,"strategy":"","preferredHolder":""}"#,
    )
    .unwrap();
    assert_eq!((whole.holder.as_str(), whole.lease(), whole.transitions), ("x_1", seconds(30), 7));
    assert!(whole.acquired.is_some() && whole.renewed.is_none());
    assert_eq!(LockKind::Endpoints.read(&Value::object()).unwrap(), Record::default(), "a free lock");
    assert_eq!(of(r#"{"leaseDurationSeconds":-5}"#).unwrap().lease(), Duration::ZERO);
    let forever = of(r#"{"holderIdentity":"x","leaseDurationSeconds":9223372036854775807}"#).unwrap();
    assert_eq!(forever.lease().as_secs(), i64::MAX as u64);
    for bad in ["", "soon", &format!("{{\"holderIdentity\":\"{}\"}}", "x".repeat(5000))] {
        assert!(of(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_lock_that_cannot_be_read_is_not_taken() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let mut map = kinds::CONFIG_MAPS.new_object("kube-system", "leader");
    map.set(&["metadata", "annotations", ANNOTATION], "not a record");
    server.put(&kinds::CONFIG_MAPS, &map);
    let election = election_on(LockKind::ConfigMaps, "a");
    let candidate = tokio::spawn(Leadership::acquire(server.client(), clock, election));
    pass(&clock_control, seconds(60)).await;
    assert!(!candidate.is_finished());
}

#[tokio::test]
async fn a_lock_is_valid_for_the_duration_that_it_names() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let long = Election { lease: seconds(60), ..election("a") };
    Leadership::acquire(server.client(), clock.clone(), long).await;
    let second = candidate(&server, &clock, "b");
    run_other_tasks().await;
    pass(&clock_control, seconds(58)).await;
    assert!(!second.is_finished(), "the other's lease is longer than the own");
    pass(&clock_control, seconds(4)).await;
    second.await.unwrap();
}

#[tokio::test]
async fn only_a_renewal_extends_a_lock() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    candidate(&server, &clock, "a").await.unwrap();
    let second = candidate(&server, &clock, "b");
    for round in 0..9 {
        let mut labelled = lease(&server);
        labelled.set(&["metadata", "labels", "round"], round.to_string());
        server.put(&kinds::LEASES, &labelled);
        pass(&clock_control, seconds(2)).await;
    }
    until("the lock has expired although its object changed", || second.is_finished()).await;
}

#[tokio::test]
async fn leadership_is_lost_at_the_renew_deadline_although_the_server_hangs() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let held = hold(candidate(&server, &clock, "a").await.unwrap());
    run_other_tasks().await;
    server.set_silent(true);
    pass(&clock_control, seconds(8)).await;
    assert!(!held.is_finished());
    pass(&clock_control, seconds(2)).await;
    until("the leader gives up", || held.is_finished()).await;
}

#[tokio::test]
async fn a_renewal_without_a_response_is_found_again() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let held = hold(candidate(&server, &clock, "a").await.unwrap());
    run_other_tasks().await;
    // The renewal at 2 s is carried out, but its response is lost.
    server.set_silent(true);
    pass(&clock_control, seconds(4)).await;
    server.set_silent(false);
    pass(&clock_control, seconds(60)).await;
    assert!(!held.is_finished());
    assert_eq!(lease(&server).int_at(&["spec", "leaseTransitions"]), Some(0));
}

#[tokio::test]
async fn a_deleted_lock_is_created_again_by_its_holder() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let held = hold(candidate(&server, &clock, "a").await.unwrap());
    run_other_tasks().await;
    let (client, key) = (server.client(), Key::new("kube-system", "leader"));
    client.delete(&kinds::LEASES, &key, &DeleteOptions::default()).await.unwrap();
    pass(&clock_control, seconds(4)).await;
    assert!(!held.is_finished());
    assert_eq!(holder(&lease(&server)), "a");
}

#[tokio::test]
async fn a_release_leaves_the_lock_of_another_holder_alone() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    let mut taken = lease(&server);
    taken.set(&["spec", "holderIdentity"], "b");
    server.put(&kinds::LEASES, &taken);
    release(leader, &clock_control).await;
    assert_eq!(holder(&lease(&server)), "b");
}

#[tokio::test]
async fn a_release_repeats_itself_after_a_conflict() {
    let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
    let leader = candidate(&server, &clock, "a").await.unwrap();
    run_other_tasks().await;
    server.fail_next_write(corten_api::Status::stale("", "leases", "leader"));
    release(leader, &clock_control).await;
    assert_eq!(holder(&lease(&server)), "");
}

#[tokio::test]
async fn leaders_record_events_about_the_lock() {
    for lock in LOCKS {
        let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
        let leader = Leadership::acquire(server.client(), clock, election_on(lock, "a")).await;
        release(leader, &clock_control).await;
        let events = server.list(&kinds::EVENTS);
        let mut messages: Vec<_> = events.iter().filter_map(|event| event.str_at(&["message"])).collect();
        messages.sort_unstable();
        assert_eq!(messages, ["a became leader", "a stopped leading"], "{lock:?}");
        for event in &events {
            assert_eq!(event.str_at(&["reason"]), Some("LeaderElection"));
            assert_eq!(event.str_at(&["source", "component"]), Some("kube-test"));
            assert_eq!(meta::namespace(event), "kube-system");
            let about = |key: &str| event.str_at(&["involvedObject", key]).unwrap_or_default().to_owned();
            assert_eq!((about("kind"), about("name")), (lock.kind().kind.to_string(), "leader".to_owned()));
        }
    }
}

#[test]
fn unsafe_durations_are_rejected() {
    let table = [
        (15, 10, 2, None),
        (10, 10, 2, Some(ElectionError::Lease)),
        (15, 10, 9, Some(ElectionError::Renew)),
        (15, 10, 0, Some(ElectionError::Retry)),
        (0, 0, 0, Some(ElectionError::Lease)),
    ];
    for (lease, renew, retry, expected) in table {
        let durations =
            Election { lease: seconds(lease), renew: seconds(renew), retry: seconds(retry), ..election("a") };
        assert_eq!(durations.validate().err(), expected, "{lease} {renew} {retry}");
    }
}
