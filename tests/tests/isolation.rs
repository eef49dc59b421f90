//! Attacks on the node by pods in real containers: fields whose promise the node cannot keep, and links in files that
//! the
//! kubelet reads.

use corten_e2e::pods::{Node, PODS, Runtime, condition, container, events, pod, reasons};
use corten_e2e::{eventually, on_every_runtime};
use serde_json::{Value, json};

const REFUSED: &str = "Warning FailedCreatePodSandBox Failed to create pod sandbox: can't set `spec.hostUsers: false`, \
                       runtime does not support user namespaces";

/// A pod that would write to the node if it had the node's users.
fn unmasked(name: &str) -> Value {
    let mut container =
        container("main", "echo ran; echo '|/x' > /proc/sys/kernel/core_pattern; sleep 100000");
    container["securityContext"] = json!({"procMount": "Unmasked", "runAsUser": 0});
    let mut pod = pod(name, "Always", &[container]);
    pod["spec"]["hostUsers"] = json!(false);
    pod
}

fn users_of_their_own_are_refused(runtime: Runtime) {
    let node = Node::start("users", runtime);
    let core_pattern = || std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("it can be read");
    let before = core_pattern();
    for level in ["baseline", "restricted"] {
        let labels = json!({"pod-security.kubernetes.io/enforce": level});
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level, "labels": labels}});
        node.client().post("/api/v1/namespaces", &namespace).expect_status(201);
        let account = format!("/api/v1/namespaces/{level}/serviceaccounts/default");
        eventually("the namespace has its account", || node.client().get(&account).status == 200);
        let refused =
            node.client().post(format!("/api/v1/namespaces/{level}/pods"), &unmasked("evil")).expect(403);
        let why = "must not set securityContext.procMount to \"Unmasked\"";
        assert!(refused["message"].as_str().is_some_and(|told| told.contains(why)), "{refused}");
    }
    node.create(&unmasked("evil"));
    let manifests = node.directory.path().join("manifests");
    std::fs::create_dir_all(&manifests).expect("a folder is made");
    std::fs::write(manifests.join("evil.json"), unmasked("static").to_string())
        .expect("a manifest is written");
    let mirror = format!("static-{}", node.name);
    for name in ["evil", mirror.as_str()] {
        eventually("the pod is refused", || reasons(node.client(), name).iter().any(|told| told == REFUSED));
        assert_eq!(node.pod(name)["status"]["phase"], "Pending");
        assert_eq!(node.log(name, "main"), "");
    }
    assert_eq!(core_pattern(), before);
    std::fs::remove_file(manifests.join("evil.json")).expect("the manifest is removed");
    let path = format!("{PODS}/{mirror}");
    eventually("the mirror is gone", || node.client().get(&path).status == 404);
    node.end();
}

fn links_in_the_folder_of_logs_lead_nowhere(runtime: Runtime) {
    let node = Node::start("links", runtime);
    node.create(&pod("victim", "Always", &[container("main", "echo said; sleep 100000")]));
    eventually("the victim has said it", || node.log("victim", "main") == "said\n");
    let uid = node.pod("victim")["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
    let secret = node.directory.path().join("secret");
    let lines = "2026-01-01T00:00:00Z stdout F the node's secret\n";
    std::fs::write(&secret, lines).expect("a file is written");

    let own = format!("/logs/default_victim_{uid}");
    let attack = format!(
        "rm {own}/main/0.log; ln -s {} {own}/main/0.log; ln -s / {own}/root; mkfifo {own}/pipe; echo linked; sleep 100000",
        secret.display()
    );
    let mut attacker = container("main", &attack);
    attacker["volumeMounts"] = json!([{"name": "logs", "mountPath": "/logs"}]);
    let mut asked = pod("attacker", "Always", &[attacker]);
    asked["spec"]["volumes"] = json!([{"name": "logs", "hostPath": {"path": "/var/log/pods"}}]);
    node.create(&asked);
    eventually("the links are made", || node.log("attacker", "main") == "linked\n");

    for options in ["", "?tailLines=5"] {
        let answer = node.client().get(format!("{PODS}/victim/log{options}"));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status >= 400 && !text.contains("the node's secret"), "{}: {text}", answer.status);
    }
    let files = format!("/api/v1/nodes/{}/proxy/logs/pods/default_victim_{uid}", node.name);
    for path in ["main/0.log", "root/etc/hostname", "root/proc/1/environ", "pipe"] {
        assert_eq!(node.client().get(format!("{files}/{path}")).status, 404, "{path}");
    }
    assert_eq!(condition(&node.pod("victim"), "Ready"), "True", "{}", events(node.client(), "victim"));
    node.end();
    let left = std::fs::read_to_string(&secret).expect("it is there still");
    assert_eq!(left, lines);
}

on_every_runtime! {
    users_of_their_own_are_refused
    links_in_the_folder_of_logs_lead_nowhere
}
