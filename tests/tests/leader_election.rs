//! Leader election between processes: with every kind of lock, a stopped leader hands over at once, a killed one after its
//! lease, and one that was paused for longer than its lease exits.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use corten_e2e::eventually;
use corten_testkit::{Client, DEADLINE, Server, corten_binary};
use serde_json::Value;

const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// The duration of a lease in the tests.
const LEASE: Duration = Duration::from_secs(4);
const LOCKS: [&str; 3] = ["leases", "endpoints", "configmaps"];

/// A component in a process of its own.
struct Component(Child);

impl Component {
    fn start(server: &Server, command: &str, lock: &str) -> Component {
        let child = Command::new(corten_binary())
            .args([command, "--secure-port=0", "--leader-elect-lease-duration=4s"])
            .args(["--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms"])
            .arg(format!("--leader-elect-resource-lock={lock}"))
            .args(["--leader-elect-resource-name=elected", "--leader-elect-resource-namespace=default"])
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the component's process starts");
        Component(child)
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send {name}");
    }

    /// Waits until it has exited by itself; returns its output too.
    fn exited(&mut self) -> (ExitStatus, String) {
        let (started, mut text) = (Instant::now(), String::new());
        let status = loop {
            if let Some(status) = self.0.try_wait().expect("a child can be waited for") {
                break status;
            }
            assert!(started.elapsed() < DEADLINE, "it does not exit");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut output = self.0.stderr.take().expect("stderr is piped");
        output.read_to_string(&mut text).expect("it prints text");
        (status, text)
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn path(lock: &str) -> String {
    match lock {
        "leases" => "/apis/coordination.k8s.io/v1/namespaces/default/leases/elected".to_owned(),
        other => format!("/api/v1/namespaces/default/{other}/elected"),
    }
}

/// The record of a lock, if there is one.
fn record(client: &Client, lock: &str) -> Option<Value> {
    let found = client.get(path(lock));
    if found.status != 200 {
        return None;
    }
    let object = found.json();
    match lock {
        "leases" => Some(object["spec"].clone()),
        _ => serde_json::from_str(object["metadata"]["annotations"][ANNOTATION].as_str()?).ok(),
    }
}

fn transitions(client: &Client, lock: &str) -> Value {
    let record = record(client, lock).expect("the lock exists");
    record[if lock == "leases" { "leaseTransitions" } else { "leaderTransitions" }].clone()
}

/// Returns true if a component holds the lock.
fn leads(client: &Client, lock: &str, component: &Component) -> bool {
    let process = format!("_{}-", component.0.id());
    let record = record(client, lock);
    record.is_some_and(|record| record["holderIdentity"].as_str().is_some_and(|who| who.contains(&process)))
}

#[test]
fn every_kind_of_lock_passes_from_process_to_process() {
    let server = Server::start();
    let client = server.client();
    for lock in LOCKS {
        let mut first = Component::start(&server, "scheduler", lock);
        eventually(&format!("{lock}: the first leads"), || leads(client, lock, &first));
        let second = Component::start(&server, "controller-manager", lock);
        first.signal("TERM");
        let (status, text) = first.exited();
        assert!(status.success(), "{lock}: {text}");
        let stopped = Instant::now();
        eventually(&format!("{lock}: the second leads"), || leads(client, lock, &second));
        assert!(stopped.elapsed() < LEASE, "{lock}: a released lock is not waited for");
        assert_eq!(transitions(client, lock), 1);
        let third = Component::start(&server, "scheduler", lock);
        drop(second);
        eventually(&format!("{lock}: the third leads"), || leads(client, lock, &third));
        assert_eq!(transitions(client, lock), 2);
        third.signal("TERM");
        eventually(&format!("{lock}: the lock is free"), || {
            record(client, lock).is_some_and(|record| record["holderIdentity"] == "")
        });
        client.delete(path(lock)).expect_status(200);
    }
    let events = client.get("/api/v1/namespaces/default/events").expect(200);
    let events = events["items"].as_array().cloned().unwrap_or_default();
    for (kind, component) in [
        ("Lease", "default-scheduler"),
        ("Endpoints", "kube-controller-manager"),
        ("ConfigMap", "default-scheduler"),
    ] {
        for what in ["became leader", "stopped leading"] {
            // Killed leaders say nothing at the end.
            let expected = what == "became leader" || component == "default-scheduler";
            let found = events.iter().any(|event| {
                event["reason"] == "LeaderElection"
                    && event["involvedObject"]["kind"] == kind
                    && event["source"]["component"] == component
                    && event["message"].as_str().is_some_and(|message| message.ends_with(what))
            });
            assert_eq!(found, expected, "{kind} {component} {what}: {events:#?}");
        }
    }
}

#[test]
fn a_leader_that_was_paused_for_longer_than_its_lease_exits() {
    let server = Server::start();
    let client = server.client();
    let mut first = Component::start(&server, "scheduler", "leases");
    eventually("the first leads", || leads(client, "leases", &first));
    let second = Component::start(&server, "scheduler", "leases");
    first.signal("STOP");
    eventually("the second leads", || leads(client, "leases", &second));
    first.signal("CONT");
    let (status, text) = first.exited();
    assert!(status.code() == Some(1) && text.contains("leaderelection lost"), "{status}: {text}");
    assert!(leads(client, "leases", &second), "the new leader keeps the lock");
}

#[test]
fn unsafe_settings_are_rejected_before_anything_starts() {
    for (flags, text) in [
        (["--leader-elect-lease-duration=10s", "--leader-elect"], "must be greater than `RenewDeadline`"),
        (["--leader-elect-retry-period=9s", "--leader-elect"], "greater than retryPeriod*JitterFactor"),
        (
            ["--leader-elect-resource-lock=endpointsleases", "--leader-elect"],
            "endpointsleases lock is removed",
        ),
    ] {
        for command in ["scheduler", "controller-manager"] {
            let output =
                Command::new(corten_binary()).arg(command).args(flags).output().expect("corten runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(text), "{command} {flags:?}: {said}");
        }
    }
}
