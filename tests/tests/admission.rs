//! Admission by the kubelet: accepted and refused pods, preemption; and the node's status.

use corten_e2e::eventually;
use corten_e2e::pods::{Node, Runtime, condition, container, pod, reasons};
use serde_json::{Value, json};

/// A pod that is already bound to the node, without the scheduler.
fn bound(node: &Node, name: &str, requests: &Value) -> Value {
    let mut asked = pod(name, "Always", &[container("main", "sleep 100000")]);
    asked["spec"]["nodeName"] = json!(node.name);
    asked["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    asked
}

/// Creates a pod that the kubelet refuses; returns reason and message of its status.
fn refused(node: &Node, asked: &Value) -> (String, String) {
    let name = asked["metadata"]["name"].as_str().expect("it has a name");
    node.create(asked);
    eventually("the pod has failed", || node.pod(name)["status"]["phase"] == "Failed");
    let status = node.pod(name)["status"].clone();
    let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
    let (reason, message) = (text("reason"), text("message"));
    let told = message.strip_prefix("Pod was rejected: ").expect("it says so").to_owned();
    eventually("it is told", || reasons(node.client(), name).contains(&format!("Warning {reason} {told}")));
    (reason, told)
}

#[test]
fn pods_that_do_not_fit_are_refused() {
    let node =
        Node::start_with("fits", Runtime::Native, &["max-pods=2", "system-reserved=cpu=100m,memory=64Mi"]);
    let object = node.object();
    let (all, left) = (&object["status"]["capacity"], &object["status"]["allocatable"]);
    let cpus: i64 = all["cpu"].as_str().and_then(|text| text.parse().ok()).expect("processors are counted");
    assert_eq!(left["cpu"], json!(format!("{}m", cpus * 1000 - 100)));
    assert_ne!(left["memory"], all["memory"]);

    let mut first = bound(&node, "first", &json!({"cpu": "50m"}));
    first["spec"]["hostNetwork"] = json!(true);
    first["spec"]["containers"][0]["ports"] = json!([{"containerPort": 4711, "hostPort": 4711}]);
    node.create(&first);
    eventually("the first runs", || condition(&node.pod("first"), "Ready") == "True");

    let asked = bound(&node, "large", &json!({"cpu": cpus.to_string()}));
    let expected = format!(
        "Node didn't have enough resource: cpu, requested: {}, used: 50, capacity: {}",
        cpus * 1000,
        cpus * 1000 - 100
    );
    assert_eq!(refused(&node, &asked), ("OutOfcpu".to_owned(), expected));

    let mut asked = bound(&node, "elsewhere", &json!({}));
    asked["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    let expected = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    assert_eq!(refused(&node, &asked), ("NodeAffinity".to_owned(), expected.to_owned()));

    let mut asked = bound(&node, "port", &json!({}));
    asked["spec"]["containers"][0]["ports"] = json!([{"containerPort": 1, "hostPort": 4711}]);
    let expected = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    assert_eq!(refused(&node, &asked), ("NodePorts".to_owned(), expected.to_owned()));

    let mut asked = bound(&node, "kernel", &json!({}));
    asked["spec"]["securityContext"] = json!({"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]});
    let expected = "forbidden sysctl: \"kernel.msgmax\" not allowlisted";
    assert_eq!(refused(&node, &asked), ("SysctlForbidden".to_owned(), expected.to_owned()));

    node.create(&bound(&node, "second", &json!({})));
    eventually("the second runs", || condition(&node.pod("second"), "Ready") == "True");
    let expected = "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2";
    assert_eq!(
        refused(&node, &bound(&node, "third", &json!({}))),
        ("OutOfpods".to_owned(), expected.to_owned())
    );

    let mut critical = bound(&node, "critical", &json!({"cpu": "10m"}));
    critical["spec"]["priorityClassName"] = json!("system-node-critical");
    node.create(&critical);
    eventually("the critical pod runs", || condition(&node.pod("critical"), "Ready") == "True");
    let gone = node.pod("second");
    let (reason, message) = (&gone["status"]["reason"], &gone["status"]["message"]);
    assert_eq!(gone["status"]["phase"], "Failed");
    assert_eq!((reason, message), (&json!("Preempting"), &json!("Preempted in order to admit critical pod")));
    assert_eq!(condition(&gone, "DisruptionTarget"), "True");
    assert_eq!(condition(&node.pod("first"), "Ready"), "True", "as few as possible go");
    let metrics = node.client().get(format!("/api/v1/nodes/{}/proxy/metrics", node.name)).text();
    for line in [
        "kubelet_admission_rejections_total{reason=\"OutOfcpu\"} 1",
        "kubelet_admission_rejections_total{reason=\"Other\"} 2",
        "kubelet_preemptions{preemption_signal=\"pods\"} 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    node.end();
}

#[test]
fn a_node_records_events() {
    let mut node = Node::start("tells", Runtime::Native);
    let told = |node: &Node, reason: &str| {
        let line = format!("Normal {reason} Node {} status is now: {reason}", node.name);
        eventually("an event of the node", || reasons(node.client(), &node.name).contains(&line));
    };
    for reason in ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"] {
        told(&node, reason);
    }
    let all = reasons(node.client(), &node.name);
    for line in [
        "Normal Starting Starting kubelet.",
        "Normal NodeAllocatableEnforced Updated Node Allocatable limit across pods",
    ] {
        assert!(all.iter().any(|told| told == line), "{all:?}");
    }
    let object = node.object();
    let images = object["status"]["images"].to_string();
    assert!(images.contains("busybox"), "{images}");
    let handlers = object["status"]["runtimeHandlers"].as_array().cloned().unwrap_or_default();
    assert!(handlers.iter().any(|handler| handler["name"] == "corten"), "{handlers:?}");

    let path = format!("/api/v1/nodes/{}", node.name);
    let close = |closed: bool| json!({"spec": {"unschedulable": closed}});
    node.client().patch(&path, "merge", &close(true)).expect_status(200);
    told(&node, "NodeNotSchedulable");
    node.client().patch(&path, "merge", &close(false)).expect_status(200);
    told(&node, "NodeSchedulable");

    node.replace();
    assert_eq!(reasons(node.client(), &node.name).iter().filter(|told| told.contains("Rebooted")).count(), 0);
}

#[test]
fn a_restarted_kubelet_admits_its_pods_again() {
    let mut node = Node::start("returns", Runtime::Native);
    let path = format!("/api/v1/nodes/{}", node.name);
    let label = |value: Value| json!({"metadata": {"labels": {"disk": value}}});
    node.client().patch(&path, "merge", &label(json!("fast"))).expect_status(200);
    let running = |name: &str| pod(name, "Always", &[container("main", "sleep 100000")]);
    let mut picky = running("picky");
    picky["spec"]["nodeSelector"] = json!({"disk": "fast"});
    node.create(&picky);
    node.create(&running("easy"));
    let started = |name: &str| {
        let status = node.pod(name)["status"]["containerStatuses"][0].clone();
        status["state"]["running"]["startedAt"].clone()
    };
    eventually("both run", || !started("picky").is_null() && !started("easy").is_null());
    let since = started("easy");

    node.client().patch(&path, "merge", &label(Value::Null)).expect_status(200);
    node.replace();
    eventually("who does not fit any more has failed", || {
        let status = node.pod("picky")["status"].clone();
        status["phase"] == "Failed" && status["reason"] == "NodeAffinity"
    });
    let easy = node.pod("easy")["status"].clone();
    assert_eq!(easy["phase"], "Running");
    assert_eq!(easy["containerStatuses"][0]["state"]["running"]["startedAt"], since);
    node.end();
}
