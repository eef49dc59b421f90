//! A node's reports on its pods and its garbage collection: real containers on a node of this machine.

use std::path::PathBuf;
use std::process::Command;

use corten_e2e::{eventually, pods};
use corten_testkit::{Client, DataDirectory, Request, Server, Tool, corten_binary};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

struct Node {
    server: Server,
    directory: DataDirectory,
    name: String,
}

impl Node {
    fn start(name: &str, kubelet: &[&str]) -> Node {
        let directory = DataDirectory::new();
        pods::import(directory.path());
        let name = format!("{name}-{}", std::process::id());
        let manifests = directory.path().join("manifests").display().to_string();
        let mut arguments = vec!["--node-name", name.as_str(), "--kubelet-port", "0", "--healthz-port", "0"];
        arguments.extend(["--pod-network", "none", "--pod-manifest-path", &manifests]);
        arguments.extend(kubelet.iter().flat_map(|flag| ["--kubelet-arg", flag]));
        let server = Server::try_start(&directory, &arguments).unwrap_or_else(|failure| panic!("{failure}"));
        let client = server.client();
        eventually("the node is there", || client.get(format!("/api/v1/nodes/{name}")).status == 200);
        eventually("the default account", || {
            client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });
        Node { server, directory, name }
    }

    fn client(&self) -> &Client {
        self.server.client()
    }

    /// Runs a script in a pod of its own.
    fn run(&self, name: &str, policy: &str, script: &str, more: &Value) {
        let mut container = json!({
            "name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
        });
        let mut spec = json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 1});
        if let Some(limits) = more.get("resources") {
            container["resources"] = limits.clone();
        }
        if let Some(volumes) = more.get("volumes") {
            spec["volumes"] = volumes.clone();
            container["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        }
        spec["containers"] = json!([container]);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
        self.client().post(PODS, &pod).expect_status(201);
    }

    fn pod(&self, name: &str) -> Value {
        self.client().get(format!("{PODS}/{name}")).expect(200)
    }

    /// The path of a pod's logs.
    fn logs(&self, name: &str) -> PathBuf {
        let uid = self.pod(name)["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
        PathBuf::from(format!("/var/log/pods/default_{name}_{uid}/main"))
    }

    /// A response of the kubelet.
    fn kubelet(&self, path: &str) -> String {
        let answer = self.client().get(format!("/api/v1/nodes/{}/proxy/{path}", self.name));
        assert_eq!(answer.status, 200, "{path}");
        answer.text()
    }

    fn condition(&self, kind: &str) -> String {
        let node = self.client().get(format!("/api/v1/nodes/{}", self.name)).expect(200);
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|c| c["type"] == kind);
        found.and_then(|c| c["status"].as_str()).unwrap_or_default().to_owned()
    }
}

impl Drop for Node {
    /// Leaves no containers behind, however a test ends.
    fn drop(&mut self) {
        pods::delete_all_pods(self.server.client(), self.directory.path());
    }
}

fn milli(text: &str) -> f64 {
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    match (text.strip_suffix('n'), text.strip_suffix('u'), text.strip_suffix('m')) {
        (Some(nano), _, _) => number(nano) / 1e6,
        (_, Some(micro), _) => number(micro) / 1e3,
        (_, _, Some(milli)) => number(milli),
        _ => number(text) * 1000.0,
    }
}

#[test]
fn resource_usage_of_pods_is_reported() {
    let node = Node::start("uses", &[]);
    node.run(
        "busy",
        "Always",
        "while true; do true; done",
        &json!({"resources": {"limits": {"cpu": "300m"}}}),
    );
    node.run("idle", "Always", "sleep 1000", &json!({}));
    let used = |name: &str| -> Option<f64> {
        let list = node.client().get(format!("{METRICS}/namespaces/default/pods?labelSelector=app%3D{name}"));
        let list = list.expect(200);
        let items = list["items"].as_array().expect("lists have items");
        assert!(items.iter().all(|item| item["metadata"]["name"] == name));
        items.first()?["containers"][0]["usage"]["cpu"].as_str().map(milli)
    };
    eventually("both pods are measured", || used("busy").is_some() && used("idle").is_some());
    eventually("who is busy uses more", || used("busy") > Some(20.0) && used("idle") < Some(20.0));
    let nodes = node.client().get(format!("{METRICS}/nodes")).expect(200);
    assert_eq!(nodes["items"][0]["metadata"]["name"], json!(node.name));
    let path = format!("{METRICS}/nodes/{}", node.name);
    let packed = Request::new("GET", path).accept("application/vnd.kubernetes.protobuf");
    let packed = node.client().send(&packed);
    assert_eq!((packed.status, packed.header("content-type")), (200, "application/vnd.kubernetes.protobuf"));
    assert!(packed.body.starts_with(b"k8s\0") && packed.text().contains(&node.name), "{packed:?}");
    assert_eq!(node.client().get(format!("{METRICS}/namespaces/default/pods/none")).status, 404);
    let kubectl = Tool::new("kubectl", &node.server);
    let top = kubectl.run(&["top", "pods", "--containers", "--no-headers"]).ok();
    assert!(top.lines().any(|line| line.starts_with("busy")), "{top}");
    assert!(kubectl.run(&["top", "nodes", "--no-headers"]).ok().starts_with(&node.name));

    let summary: Value = serde_json::from_str(&node.kubelet("stats/summary")).expect("the summary is JSON");
    let pods = summary["pods"].as_array().expect("it has pods");
    let busy = pods.iter().find(|pod| pod["podRef"]["name"] == "busy").expect("the pod is there");
    let container = &busy["containers"][0];
    for field in ["cpu", "memory", "rootfs", "logs"] {
        assert!(container[field].is_object(), "{field}: {container}");
    }
    assert!(container["cpu"]["usageCoreNanoSeconds"].as_u64() > Some(0));
    assert!(summary["node"]["memory"]["workingSetBytes"].as_u64() > Some(0));
    let cadvisor = node.kubelet("metrics/cadvisor");
    let line = |text: &str| cadvisor.lines().any(|line| line.contains(text) && line.contains("pod=\"busy\""));
    assert!(line("container_cpu_usage_seconds_total{container=\"main\""), "{cadvisor}");
    assert!(line("container_cpu_cfs_throttled_periods_total{container=\"main\""));
    assert!(node.kubelet("metrics").contains("kubelet_running_pods 2"));
}

#[test]
fn pods_that_exceed_disk_limits_are_evicted() {
    let node = Node::start("fills", &[]);
    let sized = json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]});
    node.run("volume", "Never", "dd if=/dev/zero of=/v/file bs=1024 count=3000; sleep 1000", &sized);
    let limited = json!({"resources": {"limits": {"ephemeral-storage": "1Mi"}}});
    node.run("layer", "Never", "dd if=/dev/zero of=/file bs=1024 count=3000; sleep 1000", &limited);
    // CVE-2020-8557: files that the kubelet creates for containers to write to.
    node.run("hosts", "Never", "dd if=/dev/zero of=/etc/hosts bs=1024 count=3000; sleep 1000", &limited);
    let words = "dd if=/dev/zero of=/dev/termination-log bs=1024 count=3000; sleep 1000";
    node.run("words", "Never", words, &limited);
    for (pod, why) in [
        ("volume", "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". "),
        ("layer", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
        ("hosts", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
        ("words", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
    ] {
        eventually("the pod has failed", || node.pod(pod)["status"]["phase"] == "Failed");
        let status = node.pod(pod)["status"].clone();
        assert_eq!((&status["reason"], &status["message"]), (&json!("Evicted"), &json!(why)));
    }
    assert!(node.kubelet("metrics").contains("kubelet_evictions{eviction_signal=\"emptydirfs.limit\"} 1"));
}

#[test]
fn the_files_of_logs_are_looked_through() {
    let node = Node::start("files", &[]);
    node.run("says", "Never", "echo something", &json!({}));
    let place = node.logs("says");
    let within = place.strip_prefix("/var/log").expect("logs are there").display().to_string();
    eventually("it has said it", || place.join("0.log").exists());
    assert!(node.kubelet("logs/").contains("<a href=\"pods/\">pods/</a>"));
    assert!(node.kubelet(&format!("logs/{within}/")).contains("<a href=\"0.log\">0.log</a>"));
    eventually("it is read", || {
        node.kubelet(&format!("logs/{within}/0.log")).ends_with("stdout F something\n")
    });
    for (path, status) in
        [("logs/pods", 301), ("logs/no-such-file", 404), ("logs/%2e%2e/%2e%2e/etc/hostname", 404)]
    {
        let answer = node.client().get(format!("/api/v1/nodes/{}/proxy/{path}", node.name));
        assert_eq!(answer.status, status, "{path}");
    }
}

#[test]
fn large_logs_are_rotated() {
    let flags = ["container-log-max-size=64Ki", "container-log-max-files=3"];
    let node = Node::start("logs", &flags);
    node.run("talks", "Always", "while true; do seq 1 500; sleep 1; done", &json!({}));
    eventually("the pod runs", || node.pod("talks")["status"]["phase"] == "Running");
    let logs = node.logs("talks");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&logs).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    eventually("an old log is compressed", || names().iter().any(|name| name.ends_with(".gz")));
    assert!(names().len() <= 4, "{:?}", names());
    // Between the old log and the new one there is a moment without one.
    eventually("a new log is there", || names().contains(&"0.log".to_owned()));
    eventually("it is read", || node.client().get(format!("{PODS}/talks/log?tailLines=1")).status == 200);
}

#[test]
fn a_full_disk_removes_unused_images_first() {
    let flags = ["eviction-hard=imagefs.available<99.9%", "minimum-image-ttl-duration=1s"];
    let node = Node::start("full", &flags);
    eventually("the node says so", || node.condition("DiskPressure") == "True");
    let images = || {
        let listed = Command::new(corten_binary())
            .args(["image", "ls", "--data-dir"])
            .arg(node.directory.path())
            .output()
            .expect("images can be listed");
        String::from_utf8_lossy(&listed.stdout).into_owned()
    };
    eventually("the unused image is removed", || !images().contains("busybox"));
    let taints =
        node.client().get(format!("/api/v1/nodes/{}", node.name)).expect(200)["spec"]["taints"].clone();
    assert!(taints.to_string().contains("node.kubernetes.io/disk-pressure"), "{taints}");
}
