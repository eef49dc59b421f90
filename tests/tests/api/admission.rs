//! What admission plugins make of writes, each as its user would meet it.

use corten_e2e::pod;
use corten_testkit::{Client, DataDirectory, Server};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NAMESPACES: &str = "/api/v1/namespaces";

fn namespace(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

fn with_accounts() -> Server {
    Server::start_with(&["--enable-admission-plugins=ServiceAccount"])
}

fn create_account(client: &Client, name: &str, account: &Value) {
    let mut account = account.clone();
    account["metadata"] = json!({"name": name});
    client.post("/api/v1/namespaces/default/serviceaccounts", &account).expect(201);
}

#[test]
fn namespaces_begin_and_end_everything_in_them() {
    let server = Server::start();
    let client = server.client();
    let message = client.post("/api/v1/namespaces/nowhere/pods", &pod("p")).expect_failure(404, "NotFound");
    assert_eq!(message, "namespaces \"nowhere\" not found");
    for name in ["default", "kube-system", "kube-public"] {
        let message = client.delete(format!("{NAMESPACES}/{name}")).expect_failure(403, "Forbidden");
        assert_eq!(message, format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"));
    }
    client.delete(format!("{NAMESPACES}/kube-node-lease")).expect(200);
    let going = "/api/v1/namespaces/kube-node-lease/configmaps";
    let map = json!({"metadata": {"generateName": "m-"}});
    let message = client.post(going, &map).expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "configmaps \"m-\" is forbidden: unable to create new content in namespace kube-node-lease because it is being terminated"
    );
}

#[test]
fn pods_run_as_service_accounts() {
    let server = with_accounts();
    let client = server.client();
    let mut other = pod("p");
    other["spec"]["serviceAccountName"] = "other".into();
    let message = client.post(PODS, &other).expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "pods \"p\" is forbidden: error looking up service account default/other: serviceaccount \"other\" not found"
    );
    create_account(client, "default", &json!({"imagePullSecrets": [{"name": "pull"}]}));
    let created = client.post(PODS, &pod("p")).expect(201);
    let spec = &created["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["serviceAccount"], "default");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "pull"}]));
    let volume = &spec["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5, "{name}");
    assert_eq!(
        volume["projected"],
        json!({"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]})
    );
    let mount =
        json!({"name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"});
    assert_eq!(spec["containers"][0]["volumeMounts"], json!([mount]));
    create_account(client, "bare", &json!({"automountServiceAccountToken": false}));
    let mut bare = pod("bare");
    bare["spec"]["serviceAccountName"] = "bare".into();
    assert!(client.post(PODS, &bare).expect(201)["spec"]["volumes"].is_null());
}

#[test]
fn pods_wait_for_the_default_account_of_their_namespace() {
    let server = with_accounts();
    let client = server.client();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.post(PODS, &pod("p")).expect(201));
        create_account(client, "default", &json!({}));
        assert_eq!(waiting.join().unwrap()["spec"]["serviceAccountName"], "default");
    });
}

#[test]
fn limit_ranges_fill_in_and_refuse() {
    let server = Server::start();
    let client = server.client();
    let range = json!({"metadata": {"name": "limits"}, "spec": {"limits": [{
        "type": "Container",
        "default": {"cpu": "500m", "memory": "256Mi"}, "defaultRequest": {"cpu": "100m"},
        "max": {"cpu": "1"},
    }]}});
    client.post("/api/v1/namespaces/default/limitranges", &range).expect(201);
    let created = client.post(PODS, &pod("p")).expect(201);
    assert_eq!(
        created["spec"]["containers"][0]["resources"],
        json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}})
    );
    let note = created["metadata"]["annotations"]["kubernetes.io/limit-ranger"].as_str().unwrap();
    assert!(note.starts_with("LimitRanger plugin set: cpu"), "{note}");
    assert_eq!(created["status"]["qosClass"], "Burstable");
    let mut large = pod("large");
    large["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    let message = client.post(PODS, &large).expect_failure(403, "Forbidden");
    assert_eq!(message, "pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 2");
}

#[test]
fn pods_keep_to_the_level_of_their_namespace() {
    let server = Server::start();
    let client = server.client();
    let bad = namespace("bad", &json!({"pod-security.kubernetes.io/enforce": "strict"}));
    let message = client.post(NAMESPACES, &bad).expect_failure(422, "Invalid");
    assert_eq!(
        message,
        "Namespace \"bad\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"});
    client.post(NAMESPACES, &namespace("careful", &labels)).expect(201);
    let pods = "/api/v1/namespaces/careful/pods";
    let mut host = pod("host");
    host["spec"]["hostNetwork"] = true.into();
    host["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let message = client.post(pods, &host).expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "pods \"host\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true), privileged (container \"main\" must not set securityContext.privileged=true)"
    );
    let warned = client.post(pods, &pod("plain"));
    warned.expect(201);
    let warning = warned.header("warning");
    assert!(
        warning.starts_with(
            r#"299 - "would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false"#
        ),
        "{warning}"
    );
    let relaxed = client.patch(
        format!("{NAMESPACES}/careful"),
        "merge",
        &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}),
    );
    relaxed.expect(200);
    assert_eq!(relaxed.header("warning"), "");
    client.post(pods, &host).expect(201);
    let tightened = client.patch(
        format!("{NAMESPACES}/careful"),
        "merge",
        &json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
    );
    tightened.expect(200);
    let warnings: Vec<&str> = tightened
        .headers
        .iter()
        .filter(|(name, _)| name == "warning")
        .map(|(_, text)| text.as_str())
        .collect();
    assert_eq!(
        warnings.join(" | "),
        r#"299 - "existing pods in namespace \"careful\" violate the new PodSecurity enforce level \"baseline:latest\"" | 299 - "host: host namespaces, privileged""#
    );
}

#[test]
fn priorities_come_from_classes() {
    let server = Server::start();
    let client = server.client();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str, value: i64, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"});
    let plain = client.post(PODS, &pod("plain")).expect(201);
    assert_eq!(
        (&plain["spec"]["priority"], &plain["spec"]["preemptionPolicy"]),
        (&json!(0), &json!("PreemptLowerPriority"))
    );
    client.post(classes, &class("usual", 10, true)).expect(201);
    let message = client.post(classes, &class("second", 20, true)).expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"
    );
    let usual = client.post(PODS, &pod("usual")).expect(201);
    assert_eq!(
        (&usual["spec"]["priority"], &usual["spec"]["priorityClassName"]),
        (&json!(10), &json!("usual"))
    );
    let mut missing = pod("missing");
    missing["spec"]["priorityClassName"] = "nonsense".into();
    let message = client.post(PODS, &missing).expect_failure(403, "Forbidden");
    assert_eq!(message, "pods \"missing\" is forbidden: no PriorityClass with name nonsense was found");
}

#[test]
fn new_objects_are_completed() {
    let server = Server::start();
    let client = server.client();
    let created = client.post(PODS, &pod("p")).expect(201);
    let tolerated: Vec<&Value> =
        created["spec"]["tolerations"].as_array().unwrap().iter().map(|t| &t["key"]).collect();
    assert_eq!(tolerated, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    let node = json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z1"}}});
    let node = client.post("/api/v1/nodes", &node).expect(201);
    assert_eq!(
        node["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    client.post(format!("{PODS}/p/binding"), &binding).expect(201);
    let bound = client.get(format!("{PODS}/p")).expect(200);
    assert_eq!(bound["metadata"]["labels"]["topology.kubernetes.io/zone"], "z1");
    for (name, annotation) in [("slow", "false"), ("fast", "true")] {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": annotation});
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/disk"});
        client.post("/apis/storage.k8s.io/v1/storageclasses", &class).expect(201);
    }
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = client.post("/api/v1/namespaces/default/persistentvolumeclaims", &claim).expect(201);
    assert_eq!(claim["spec"]["storageClassName"], "fast");
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
}

#[test]
fn plugins_are_chosen_by_name() {
    let refused = |flag: &str| match Server::try_start(&DataDirectory::new(), &[flag]) {
        Ok(_) => panic!("{flag} was accepted"),
        Err(failure) => failure.messages,
    };
    let messages = refused("--enable-admission-plugins=Nonsense");
    assert!(messages.contains("there is no plugin called Nonsense"), "{messages}");
    let messages = refused("--enable-admission-plugins=AlwaysPullImages");
    assert!(
        messages.contains("AlwaysPullImages, which is off by default, is not available yet"),
        "{messages}"
    );
    let server = Server::start_with(&[
        "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds,ValidatingAdmissionWebhook",
    ]);
    assert!(server.client().post(PODS, &pod("p")).expect(201)["spec"]["tolerations"].is_null());
}
