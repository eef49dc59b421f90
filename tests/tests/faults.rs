//! Faults on a node: the pod reports them, and continues when it can. Nothing may be left in the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use corten_e2e::eventually;
use corten_e2e::pods::{Node, PODS, Runtime, condition, container, events, items, pod, reasons};
use serde_json::{Value, json};

#[test]
fn pods_start_once_missing_objects_exist() {
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
    eventually("the missing secret is reported", || reason("lacking") == "CreateContainerConfigError");
    eventually("the missing volume is reported", || {
        events(client, "unmounted").contains("configmap \"c\" not found")
    });
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
    eventually("the hook does not block termination", || client.get(format!("{PODS}/hung")).status == 404);
    node.end();
}

#[test]
fn a_pod_whose_supervisor_dies_gets_a_new_sandbox() {
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
    let killed = Command::new("sh").args(["-c", &format!("kill -9 {}", record["pid"])]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    eventually("another container runs", || {
        let pod = node.pod("web");
        condition(&pod, "Ready") == "True" && id(&pod) != before
    });
    assert!(events(node.client(), "web").contains("Pod sandbox changed, it will be killed and re-created."));
    node.end();
}

#[test]
fn a_full_disk_is_reported_and_recovered_from() {
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

#[test]
fn image_pull_failures_are_reported_and_the_image_can_be_changed() {
    let node = Node::start("images", Runtime::Native);
    let with = |name: &str, image: &str, policy: &str| {
        let mut asked = pod(name, "Always", &[container("main", "sleep 100000")]);
        asked["spec"]["containers"][0]["image"] = json!(image);
        asked["spec"]["containers"][0]["imagePullPolicy"] = json!(policy);
        node.create(&asked);
    };
    // Nothing listens there.
    with("unreachable", "127.0.0.1:1/none:1", "IfNotPresent");
    with("misnamed", "Web:1", "IfNotPresent");
    with("absent", "absent:1", "Never");
    let waiting = |name: &str| node.pod(name)["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    let told = |name: &str, line: &str| {
        eventually("it is told", || reasons(node.client(), name).iter().any(|told| told.starts_with(line)));
    };
    eventually("the pull waits", || waiting("unreachable")["reason"] == "ImagePullBackOff");
    let message = waiting("unreachable")["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.starts_with("Back-off pulling image \"127.0.0.1:1/none:1\": ErrImagePull: "),
        "{message}"
    );
    told("unreachable", "Normal Pulling Pulling image \"127.0.0.1:1/none:1\"");
    told("unreachable", "Warning Failed Failed to pull image \"127.0.0.1:1/none:1\": ");
    told("unreachable", "Warning Failed Error: ErrImagePull");
    told("unreachable", "Warning Failed Error: ImagePullBackOff");
    told("unreachable", "Normal BackOff Back-off pulling image \"127.0.0.1:1/none:1\"");
    let why = "Failed to apply default image tag \"Web:1\": couldn't parse image name \"Web:1\": invalid reference \
               format: repository name (library/Web) must be lowercase";
    eventually("the name is wrong", || {
        waiting("misnamed") == json!({"reason": "InvalidImageName", "message": why})
    });
    told("misnamed", &format!("Warning InspectFailed {why}"));
    let why = "Container image \"absent:1\" is not present with pull policy of Never";
    eventually("the missing image is reported", || {
        waiting("absent") == json!({"reason": "ErrImageNeverPull", "message": why})
    });
    let present = json!({"spec": {"containers": [{"name": "main", "image": "busybox"}]}});
    for name in ["unreachable", "misnamed", "absent"] {
        node.client().patch(format!("{PODS}/{name}"), "strategic-merge", &present).expect_status(200);
    }
    for name in ["unreachable", "misnamed", "absent"] {
        eventually("the pod runs", || condition(&node.pod(name), "Ready") == "True");
    }
    node.end();
}

#[test]
fn mount_failures_are_reported_and_retried() {
    let node = Node::start("mounts", Runtime::Native);
    let place = node.directory.path().join("place");
    std::fs::write(&place, "").expect("a file is written");
    let mut asked = pod("web", "Always", &[container("main", "sleep 100000")]);
    asked["spec"]["volumes"] = json!([{"name": "h", "hostPath": {"path": place, "type": "Directory"}}]);
    asked["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "h", "mountPath": "/h"}]);
    node.create(&asked);
    let path = place.display();
    let line = format!(
        "Warning FailedMount MountVolume.SetUp failed for volume \"h\" : hostPath type check failed: {path} is not a directory, it's a File"
    );
    eventually("the mount fails", || reasons(node.client(), "web").contains(&line));
    assert_eq!(node.pod("web")["status"]["phase"], "Pending");
    let state = node.pod("web")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    assert_eq!(state, "ContainerCreating");
    std::fs::remove_file(&place)
        .and_then(|()| std::fs::create_dir(&place))
        .expect("a folder takes its place");
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    node.end();
}

#[test]
fn failing_and_hanging_hooks_do_not_block_termination() {
    let node = Node::start("hooks", Runtime::Native);
    let with = |name: &str, hook: &str| {
        let mut asked = pod(name, "Always", &[container("main", "sleep 100000")]);
        asked["spec"]["containers"][0]["lifecycle"] =
            json!({"postStart": {"exec": {"command": ["sh", "-c", hook]}}});
        node.create(&asked);
    };
    with("fails", "echo no; exit 3");
    with("hangs", "sleep 100000");
    let told = |name: &str, line: &str| {
        eventually("it is told", || reasons(node.client(), name).iter().any(|told| told.starts_with(line)));
    };
    told("fails", "Warning FailedPostStartHook PostStartHook failed");
    told("fails", "Normal Killing FailedPostStartHook");
    eventually("the container is tried again", || {
        node.pod("fails")["status"]["containerStatuses"][0]["restartCount"].as_i64() > Some(0)
    });
    told("hangs", "Normal Started Container started");
    assert_eq!(condition(&node.pod("hangs"), "Ready"), "False", "a container whose hook runs is not ready");
    node.client().delete(format!("{PODS}/hangs"));
    eventually("the hook does not block termination", || {
        node.client().get(format!("{PODS}/hangs")).status == 404
    });
    node.end();
}

#[test]
fn a_full_container_disk_is_reported_and_recovered_from() {
    let node = Node::start("storage", Runtime::Native);
    let disk = SmallDisk::mount(&node.directory.path().join("runtime/containers"));
    disk.fill();
    node.create(&pod("web", "Always", &[container("main", "sleep 100000")]));
    let waiting = || node.pod("web")["status"]["containerStatuses"][0]["state"]["waiting"].clone();
    eventually("the disk is full", || waiting()["reason"] == "CreateContainerError");
    let message = waiting()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.to_lowercase().contains("no space left on device"), "{message}");
    disk.empty();
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    node.client().delete(format!("{PODS}/web?gracePeriodSeconds=1"));
    eventually("all pods are gone", || items(node.client()).is_empty());
    drop(disk);
    node.end();
}

/// A disk of one megabyte; unmounted when it is dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> SmallDisk {
        std::fs::create_dir_all(at).expect("a folder is made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).status();
        assert!(mounted.is_ok_and(|status| status.success()), "a disk is mounted");
        SmallDisk(at.to_owned())
    }

    fn fill(&self) {
        // Written until the disk is full.
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
