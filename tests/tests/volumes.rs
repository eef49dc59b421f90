//! Volumes in real containers: ownership, size limits, and paths that must not leave a volume.

use corten_e2e::pods::{Node, Runtime, condition, container, events, pod};
use corten_e2e::{eventually, on_every_runtime};
use serde_json::{Value, json};

fn mounted(name: &str, script: &str, mounts: Value) -> Value {
    let mut container = container(name, script);
    container["volumeMounts"] = mounts;
    container
}

fn waiting(node: &Node, pod: &str, container: &str) -> Value {
    let pod = node.pod(pod);
    let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
    let status = statuses.into_iter().find(|status| status["name"] == container).unwrap_or_default();
    status["state"]["waiting"]["message"].clone()
}

fn no_path_leads_out(runtime: Runtime) {
    let node = Node::start("paths", runtime);
    let outside = tempfile::tempdir().expect("a folder is made");
    std::fs::write(outside.path().join("secret"), "secret").expect("a file is written");
    let hostile = format!(
        "ln -s {0} /d/absolute; ln -s ../../../../../../../../../../../../{0} /d/relative; mkdir /d/good; \
         echo inside > /d/good/file; ln -s good /d/link",
        outside.path().display()
    );
    let at = |path: &str| json!([{"name": "d", "mountPath": "/m", "subPath": path}]);
    let containers = [
        mounted("good", "cat /m/file; sleep 100000", at("link")),
        mounted("absolute", "cat /m/secret; sleep 100000", at("absolute")),
        mounted("relative", "cat /m/secret; sleep 100000", at("relative")),
        mounted("beyond", "cat /m/secret; sleep 100000", at("relative/new")),
    ];
    let mut asked = pod("evil", "Always", &containers);
    asked["spec"]["volumes"] = json!([{"name": "d", "emptyDir": {}}]);
    asked["spec"]["initContainers"] =
        json!([mounted("links", &hostile, json!([{"name": "d", "mountPath": "/d"}]))]);
    node.create(&asked);
    for name in ["absolute", "relative", "beyond"] {
        let expected = format!("failed to prepare subPath for volumeMount \"d\" of container {name:?}");
        eventually("what leads out is refused", || waiting(&node, "evil", name) == expected.as_str());
    }
    eventually("what leads in is found", || node.log("evil", "good") == "inside\n");
    let left: Vec<_> = std::fs::read_dir(outside.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "nothing was made outside");
    node.end();
}

fn volumes_are_their_groups(runtime: Runtime) {
    let node = Node::start("groups", runtime);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    node.client().post("/api/v1/namespaces/default/configmaps", &config).expect_status(201);
    let script =
        "stat -L -c '%a %g' /d /m /d/sub /c/a; dd if=/dev/zero of=/m/x bs=1024 count=2000; sleep 100000";
    let mounts = json!([
        {"name": "d", "mountPath": "/d"}, {"name": "d", "mountPath": "/s", "subPath": "sub"},
        {"name": "m", "mountPath": "/m"}, {"name": "c", "mountPath": "/c"},
    ]);
    let mut asked = pod("owned", "Always", &[mounted("main", script, mounts)]);
    asked["spec"]["securityContext"] = json!({"fsGroup": 4711, "runAsUser": 1000});
    asked["spec"]["volumes"] = json!([
        {"name": "d", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "c", "configMap": {"name": "c", "defaultMode": 0o400}},
    ]);
    let mut wrong = pod("wrong", "Always", &[container("main", "sleep 100000")]);
    wrong["spec"]["volumes"] =
        json!([{"name": "h", "hostPath": {"path": "/etc/passwd", "type": "Directory"}}]);
    node.create(&asked);
    node.create(&wrong);
    eventually("the pod runs", || condition(&node.pod("owned"), "Ready") == "True");
    eventually("memory is full", || node.log("owned", "main").contains("No space left on device"));
    // The two outputs may be logged in another order.
    let log = node.log("owned", "main");
    let owners: Vec<&str> = log.lines().filter(|line| line.ends_with(" 4711")).collect();
    assert_eq!(owners, ["2777 4711", "3777 4711", "2777 4711", "440 4711"], "{log}");
    let why = "hostPath type check failed: /etc/passwd is not a directory, it's a File";
    eventually("a file is no directory", || events(node.client(), "wrong").contains(why));
    node.end();
}

fn files_say_what_a_pod_may_use(runtime: Runtime) {
    let node = Node::start("allotted", runtime);
    let limit = |name: &str| json!({"path": name, "resourceFieldRef": {"containerName": "main", "resource": format!("limits.{name}")}});
    let mount = json!([{"name": "d", "mountPath": "/d"}]);
    let mut asked = pod("modest", "Never", &[mounted("main", "echo $(cat /d/cpu) $(cat /d/memory)", mount)]);
    asked["spec"]["volumes"] =
        json!([{"name": "d", "downwardAPI": {"items": [limit("cpu"), limit("memory")]}}]);
    node.create(&asked);
    eventually("it has looked", || node.pod("modest")["status"]["phase"] == "Succeeded");
    let allocatable = node.object()["status"]["allocatable"].clone();
    let kibibytes = allocatable["memory"].as_str().and_then(|text| text.strip_suffix("Ki"));
    let memory = kibibytes.and_then(|text| text.parse::<u64>().ok()).expect("memory is in Ki") * 1024;
    let cpu = allocatable["cpu"].as_str().expect("there are processors");
    assert_eq!(node.log("modest", "main"), format!("{cpu} {memory}\n"));
    // The volumes of a pod that has ended are removed while its object stays.
    let uid = node.pod("modest")["metadata"]["uid"].as_str().expect("it has a uid").to_owned();
    let volumes = node.directory.path().join("kubelet/pods").join(uid).join("volumes");
    eventually("the volumes are gone", || !volumes.exists());
    node.end();
}

on_every_runtime! {
    files_say_what_a_pod_may_use
    no_path_leads_out
    volumes_are_their_groups
}
