//! Contracts of plan execution: order, the first failure, slow start, and which writes the caches must show.

use corten_api::{Status, value};
use corten_client::{DeleteOptions, kinds};

use super::*;
use crate::testing::FakeServer;

fn create(name: &str) -> Action {
    let object = value!({"metadata": {"name": name, "namespace": "n"}});
    Action::Create { kind: &kinds::CONFIG_MAPS, object }
}

fn delete(name: &str) -> Action {
    let (key, options) = (Key::new("n", name), DeleteOptions::default());
    Action::Delete { kind: &kinds::CONFIG_MAPS, key, options }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan { steps, ..Plan::done() }
}

fn refused() -> Status {
    Status::forbidden("", "configmaps", "x", "injected")
}

#[test]
fn an_update_uses_the_version_of_the_one_before() {
    let claim =
        |version: &str| value!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": version}});
    let update = |version, subresource| Action::Update {
        kind: &kinds::PERSISTENT_VOLUME_CLAIMS,
        object: claim(version),
        subresource,
    };
    let written = Outcome { action: update("4", ""), result: Ok(claim("9")) };
    let report = Report { outcomes: vec![written] };
    assert_eq!(with_written_version(&update("4", "status"), &report), Some(update("9", "status")));
    assert_eq!(with_written_version(&update("3", "status"), &report), None, "it was read at another time");
    assert_eq!(with_written_version(&update("4", ""), &Report::default()), None);
}

#[tokio::test]
async fn the_first_failing_step_is_the_last() {
    let server = FakeServer::default();
    server.pass_next_write();
    server.fail_next_write(refused());
    let steps = ["a", "b", "c"].map(|name| Step::One(create(name))).into();
    let report = execute(&server.client(), &plan(steps)).await;
    assert_eq!(report.outcomes.len(), 2);
    assert_eq!(report.failures().count(), 1);
    assert_eq!(server.list(&kinds::CONFIG_MAPS).len(), 1);
}

#[tokio::test]
async fn actions_of_a_step_that_run_together_do_not_stop_each_other() {
    let server = FakeServer::default();
    server.fail_next_write(refused());
    let together = Step::Together(["a", "b", "c"].map(create).into());
    let report = execute(&server.client(), &plan(vec![together, Step::One(create("d"))])).await;
    assert_eq!(report.outcomes.len(), 3, "the next step is not reached");
    assert_eq!(server.list(&kinds::CONFIG_MAPS).len(), 2);
}

#[tokio::test]
async fn slow_start_doubles_its_batches_and_stops_after_a_failure() {
    for (passed, expected) in [(0, 1), (1, 3), (2, 3), (3, 7), (6, 7), (7, 10), (10, 10)] {
        let server = FakeServer::default();
        for _ in 0..passed {
            server.pass_next_write();
        }
        server.fail_next_write(refused());
        let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
        let step = Step::SlowStart(names.iter().map(|name| create(name)).collect());
        let report = execute(&server.client(), &plan(vec![step])).await;
        assert_eq!(report.outcomes.len(), expected, "write {} fails", passed + 1);
    }
}

#[tokio::test]
async fn a_chain_stops_at_its_first_failure() {
    let server = FakeServer::default();
    server.fail_next_write(refused());
    let step = Step::SlowStartEach(vec![vec![create("a"), create("b")], vec![create("c")]]);
    let report = execute(&server.client(), &plan(vec![step])).await;
    assert_eq!(report.outcomes.len(), 1);
}

#[tokio::test]
async fn deleting_what_does_not_exist_succeeds() {
    let server = FakeServer::default();
    let report = execute(&server.client(), &plan(vec![Step::One(delete("a"))])).await;
    assert!(report.is_success());
}

#[tokio::test]
async fn the_caches_must_show_successful_writes_only() {
    let server = FakeServer::default();
    let report = execute(&server.client(), &plan(vec![Step::One(create("a")), Step::One(delete("a"))])).await;
    let gone = Written::Gone(&kinds::CONFIG_MAPS, Key::new("n", "a"), String::new());
    assert_eq!(written(&report), [Written::Version(&kinds::CONFIG_MAPS, 1), gone]);
    server.fail_next_write(refused());
    let report = execute(&server.client(), &plan(vec![Step::One(create("b"))])).await;
    assert_eq!(written(&report), []);
}

#[test]
fn conflicts_and_missing_objects_are_expected_errors() {
    for (status, expected) in [
        (Status::stale("", "pods", "p"), true),
        (Status::already_exists("", "pods", "p"), true),
        (Status::not_found("", "pods", "p"), true),
        (refused(), false),
    ] {
        assert_eq!(is_retryable(&status.clone().into()), expected, "{status}");
    }
}
