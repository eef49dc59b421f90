//! Contracts of leader election: one holder, takeover after expiry, loss at the renew deadline.

use tokio::task::JoinHandle;

use super::*;
use crate::testing::{FakeServer, manual_clock, run_other_tasks, seconds, until};

fn election(identity: &str) -> Election {
    Election::new(Key::new("kube-system", "leader"), identity.to_owned())
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
    let mut leader = candidate(&server, &clock, "a").await.unwrap();
    let held = tokio::spawn(async move { leader.hold().await });
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
    let mut leader = candidate(&server, &clock, "a").await.unwrap();
    let held = tokio::spawn(async move { leader.hold().await });
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
    let mut leader = candidate(&server, &clock, "a").await.unwrap();
    let held = tokio::spawn(async move { leader.hold().await });
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
    let mut leader = candidate(&server, &clock, "a").await.unwrap();
    let held = tokio::spawn(async move { leader.hold().await });
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
    let mut leader = candidate(&server, &clock, "a").await.unwrap();
    let held = tokio::spawn(async move { leader.hold().await });
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
    let leader = candidate(&server, &clock, "a").await.unwrap();
    leader.release().await;
    assert_eq!(holder(&lease(&server)), "");
    assert_eq!(lease(&server).int_at(&["spec", "leaseDurationSeconds"]), Some(1));
    let second = candidate(&server, &clock, "b").await.unwrap();
    assert_eq!(holder(&lease(&server)), "b");
    assert_eq!(lease(&server).int_at(&["spec", "leaseTransitions"]), Some(1));
    // A former leader releases only what is its own.
    let former = Leadership {
        client: server.client(),
        clock: clock.clone(),
        election: election("a"),
        lease: lease(&server),
    };
    former.release().await;
    assert_eq!(holder(&lease(&server)), "b");
    second.release().await;
}
