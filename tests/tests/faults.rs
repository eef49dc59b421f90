//! What goes wrong on a node: the pod says what, and goes on when it can. Nothing may be left in the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use corten_e2e::eventually;
use corten_e2e::pods::{Node, PODS, Runtime, condition, container, events, items, pod};
use serde_json::{Value, json};

#[test]
fn what_was_missing_comes() {
    let node = Node::start("comes", Runtime::Native);
    let client = node.client();
    let mut lacking = pod("lacking", "Always", &[container("main", "cat /c/a; sleep 100000")]);
    lacking["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    node.create(&lacking);
    let mut unmounted = pod("unmounted", "Always", &[container("main", "cat /c/a; sleep 100000")]);
    unmounted["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "c"}}]);
    unmounted["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "c", "mountPath": "/c"}]);
    node.create(&unmounted);
    let mut hung = pod("hung", "Always", &[container("main", "sleep 100000")]);
    hung["spec"]["terminationGracePeriodSeconds"] = json!(2);
    hung["spec"]["containers"][0]["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["sleep", "100000"]}}});
    node.create(&hung);
    let reason =
        |name: &str| node.pod(name)["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    eventually("the secret is missed", || reason("lacking") == "CreateContainerConfigError");
    eventually("the volume is missed", || events(client, "unmounted").contains("configmap \"c\" not found"));
    eventually("the pod with a hook runs", || condition(&node.pod("hung"), "Ready") == "True");
    client.delete(format!("{PODS}/hung"));
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}});
    client.post("/api/v1/namespaces/default/secrets", &secret).expect_status(201);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    client.post("/api/v1/namespaces/default/configmaps", &config).expect_status(201);
    eventually("the secret came", || condition(&node.pod("lacking"), "Ready") == "True");
    eventually("the volume came", || condition(&node.pod("unmounted"), "Ready") == "True");
    eventually("the hook holds nobody up", || client.get(format!("{PODS}/hung")).status == 404);
    node.end();
}

#[test]
fn a_pod_whose_supervisor_dies_gets_another() {
    let node = Node::start("supervisor", Runtime::Native);
    node.create(&pod("web", "Always", &[container("main", "sleep 100000")]));
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    let id = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    let before = id(&node.pod("web"));
    let sandboxes = node.directory.path().join("runtime/sandboxes");
    let folder = std::fs::read_dir(sandboxes).expect("sandboxes are written down").next();
    let record = folder.expect("there is one").expect("it can be read").path().join("record.json");
    let record: Value =
        serde_json::from_slice(&std::fs::read(record).expect("it can be read")).expect("it is JSON");
    let killed = Command::new("kill").args(["-9", &record["pid"].to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    eventually("another container runs", || {
        let pod = node.pod("web");
        condition(&pod, "Ready") == "True" && id(&pod) != before
    });
    assert!(events(node.client(), "web").contains("Pod sandbox changed, it will be killed and re-created."));
    node.end();
}

#[test]
fn a_full_disk_is_told_and_got_over() {
    let node = Node::start("full", Runtime::Native);
    let disk = SmallDisk::mount(&node.directory.path().join("kubelet/pods"));
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x".repeat(200_000)}});
    node.client().post("/api/v1/namespaces/default/configmaps", &config).expect_status(201);
    let mut asked = pod("web", "Always", &[container("main", "sleep 100000")]);
    asked["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "c"}}]);
    asked["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "c", "mountPath": "/c"}]);
    disk.fill();
    node.create(&asked);
    eventually("the disk is full", || events(node.client(), "web").contains("No space left on device"));
    disk.empty();
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    for pod in items(node.client()) {
        let name = pod["metadata"]["name"].as_str().expect("pods have names");
        node.client().delete(format!("{PODS}/{name}?gracePeriodSeconds=1"));
    }
    eventually("all pods are gone", || items(node.client()).is_empty());
    drop(disk);
    node.end();
}

/// A disk of one megabyte; gone when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> SmallDisk {
        std::fs::create_dir_all(at).expect("a folder is made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).status();
        assert!(mounted.is_ok_and(|status| status.success()), "a disk is mounted");
        SmallDisk(at.to_owned())
    }

    fn fill(&self) {
        // It is written until nothing fits any more.
        let _ = std::fs::write(self.0.join("ballast"), vec![0; 2 << 20]);
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("ballast")).expect("what fills it is removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}
