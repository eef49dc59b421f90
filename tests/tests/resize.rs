//! In-place resize of running pods: allocation, pending resizes, and restarts of the kubelet.

use corten_e2e::pods::{Node, PODS, Runtime, condition, container, events, pod};
use corten_e2e::{eventually, on_every_runtime};
use serde_json::{Value, json};

/// Resources with the same requests and limits.
fn resources(cpu: &str, memory: &str) -> Value {
    json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}})
}

fn ask(node: &Node, pod: &str, container: &str, resources: &Value) {
    let patch = json!({"spec": {"containers": [{"name": container, "resources": resources}]}});
    node.client().patch(format!("{PODS}/{pod}/resize"), "strategic-merge", &patch).expect(200);
}

/// A container's status.
fn status(node: &Node, pod: &str, container: &str) -> Value {
    let pod = node.pod(pod);
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    statuses.into_iter().find(|status| status["name"] == container).unwrap_or_default()
}

fn gets_what_it_asks_for(runtime: Runtime) {
    let mut node = Node::start("resized", runtime);
    // Memory that cannot be reclaimed.
    let holding = "head -c 8000000 /dev/zero > /dev/shm/held; sleep 100000";
    let mut asked = pod("web", "Always", &[container("kept", holding), container("begun", "sleep 100000")]);
    let containers = &mut asked["spec"]["containers"];
    containers[0]["resources"] = resources("100m", "64Mi");
    containers[1]["resources"] = resources("100m", "64Mi");
    containers[1]["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    node.create(&asked);
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    let kept = status(&node, "web", "kept")["containerID"].clone();

    ask(&node, "web", "kept", &resources("200m", "96Mi"));
    eventually("it has more", || status(&node, "web", "kept")["resources"] == resources("200m", "96Mi"));
    assert_eq!(status(&node, "web", "kept")["containerID"], kept, "it goes on");
    ask(&node, "web", "begun", &resources("100m", "96Mi"));
    eventually("the other began anew", || status(&node, "web", "begun")["restartCount"] == 1);
    eventually("it has more, too", || {
        status(&node, "web", "begun")["resources"] == resources("100m", "96Mi")
    });
    let told = events(node.client(), "web");
    for text in ["Pod resize started: ", "Pod resize completed: ", "Container begun resize requires restart"]
    {
        assert!(told.contains(text), "{text} is not in:\n{told}");
    }

    ask(&node, "web", "kept", &resources("200m", "1Mi"));
    let error = || condition(&node.pod("web"), "PodResizeInProgress") == "True";
    eventually("what is in use stays", || {
        error() && events(node.client(), "web").contains("below current usage")
    });
    node.replace();
    ask(&node, "web", "kept", &resources("200m", "64Mi"));
    eventually("less is possible", || status(&node, "web", "kept")["resources"] == resources("200m", "64Mi"));
    eventually("nothing is left to do", || condition(&node.pod("web"), "PodResizeInProgress").is_empty());
    assert_eq!(status(&node, "web", "kept")["containerID"], kept, "it goes on");
    node.end();
}

fn waits_for_room(runtime: Runtime) {
    let node = Node::start("room", runtime);
    let all = node.client().get(format!("/api/v1/nodes/{}", node.name)).expect(200);
    let all: u64 =
        all["status"]["allocatable"]["cpu"].as_str().and_then(|cpu| cpu.parse().ok()).expect("cpus");
    let rest = format!("{}m", all * 1000 - 300);
    let with = |name: &str, cpu: &str| {
        let mut asked = pod(name, "Always", &[container("main", "sleep 100000")]);
        asked["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        asked
    };
    node.create(&with("small", "100m"));
    node.create(&with("large", &rest));
    for name in ["small", "large"] {
        eventually("the pods run", || condition(&node.pod(name), "Ready") == "True");
    }
    ask(&node, "small", "main", &json!({"requests": {"cpu": "400m"}}));
    eventually("it has to wait", || condition(&node.pod("small"), "PodResizePending") == "True");
    assert_eq!(status(&node, "small", "main")["allocatedResources"]["cpu"], "100m");
    node.client().delete(format!("{PODS}/large?gracePeriodSeconds=1"));
    eventually("its turn comes", || status(&node, "small", "main")["resources"]["requests"]["cpu"] == "400m");
    eventually("nothing is left to wait for", || {
        condition(&node.pod("small"), "PodResizePending").is_empty()
    });
    node.end();
}

on_every_runtime! {
    gets_what_it_asks_for
    waits_for_room
}
