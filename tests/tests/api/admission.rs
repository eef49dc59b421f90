//! Admission plugins, each with requests of a user.

use corten_e2e::pod;
use corten_testkit::{Client, DataDirectory, Request, Response, Server};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A certificate request of eve's, who would be in `system:masters`, in PEM, in base64.
const EVES_REQUEST: &str = concat!(
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIak1JR0pBZ0VBTUNjeEZ6QVZCZ05WQkFvTURuTjVjM1JsYlRw",
    "dFlYTjBaWEp6TVF3d0NnWURWUVFEREFObApkbVV3V1RBVEJnY3Foa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVNOVFFUMEJXbFNM",
    "NkVnVXdPenVQWnVKdDJjCmN3Vnhmcjdya2E3b2pveGR3VHhxN0VHWTJSaW0vdGtrZFEzR3NWYUJLQ09zaUJtWTE2WFBNaFZVWERz",
    "N29BQXcKQ2dZSUtvWkl6ajBFQXdJRFNRQXdSZ0loQUsyUjhwV0hwVDRLUU42UnhJMlZaMDljL3NwOXZtam42Y0JDL20wOQpTNkoy",
    "QWlFQXY0Mkp5NVBUbmh1UldWc2JPZ3QrbFZRVEdSOVU1RWhVQldEaGFqU1M4SVk9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVF",
    "U1QtLS0tLQo="
);
/// One of jane's, who is in `dev`.
const JANES_REQUEST: &str = concat!(
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIV01IOENBUUF3SFRFTU1Bb0dBMVVFQ2d3RFpHVjJNUTB3Q3dZ",
    "RFZRUUREQVJxWVc1bE1Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUVIN0Q5R29Qbk9mYm5uK092dGdISllhajFr",
    "b3JCcGdoOGdlWFpWcFhVClErTGp3a1dKNU8yV202b05DT2l2cnpCcFN3VUJyYmFyQjdHWGpPZ29pV1pPWUtBQU1Bb0dDQ3FHU000",
    "OUJBTUMKQTBjQU1FUUNJRlVveUxSakRkbWNBMEEybG1kdHhBSm0xR1pLWEQwRlQwWlBRNmc5MWhwMkFpQVZzbExHdFlvZApsU0lj",
    "Q1d3R2JEU05GY3JnOXcrVVl2bGo4bVJ6U2o2NnpnPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="
);

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
fn admission_plugins_are_enabled_by_name() {
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

/// Patches as another user.
fn patch_as(client: &Client, user: &str, group: &str, path: &str, patch: &Value) -> Response {
    let request =
        Request::new("PATCH", path).header("impersonate-user", user).header("impersonate-group", group);
    client.send(&request.body("application/merge-patch+json", patch.to_string()))
}

#[test]
fn nodes_modify_only_their_own_objects() {
    let server = Server::start();
    let client = server.client();
    client.post("/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).expect(201);
    client.post(PODS, &pod("p")).expect(201);
    let node = |path: &str, patch: &Value| patch_as(client, "system:node:n1", "system:nodes", path, patch);
    let own = "/api/v1/nodes/n1";
    let table = [
        (
            json!({"metadata": {"labels": {"foo.kubernetes.io/x": "y"}}}),
            "is not allowed to modify labels: foo.kubernetes.io/x",
        ),
        (json!({"spec": {"taints": []}}), "node \"n1\" is not allowed to modify taints"),
    ];
    for (patch, why) in table {
        let message = node(own, &patch).expect_failure(403, "Forbidden");
        assert_eq!(message, format!("nodes \"n1\" is forbidden: {why}"));
    }
    node(own, &json!({"metadata": {"labels": {"example.com/x": "y", "kubernetes.io/os": "linux"}}}))
        .expect(200);
    let message = node(&format!("{PODS}/p/status"), &json!({"status": {"phase": "Running"}}))
        .expect_failure(403, "Forbidden");
    let why = "node \"n1\" can only update pod status for pods with spec.nodeName set to itself";
    assert_eq!(message, format!("pods \"p\" is forbidden: {why}"));
    let create = |path: &str, object: &Value| {
        let request = Request::new("POST", path)
            .header("impersonate-user", "system:node:n1")
            .header("impersonate-group", "system:nodes");
        client.send(&request.json(object)).expect_failure(403, "Forbidden")
    };
    assert_eq!(
        create("/api/v1/nodes", &json!({"metadata": {"name": "n2"}})),
        "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\""
    );
    assert_eq!(
        create(PODS, &pod("q")),
        "pods \"q\" is forbidden: pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods"
    );
}

#[test]
fn certificates_need_permission() {
    let server = Server::start();
    let client = server.client();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let signer = "kubernetes.io/kube-apiserver-client";
    let ask = |name: &str, request: &str| {
        let spec = json!({"request": request, "signerName": signer, "usages": ["client auth"]});
        client.post(requests, &json!({"metadata": {"name": name}, "spec": spec}))
    };
    assert_eq!(
        ask("eve", EVES_REQUEST).expect_failure(403, "Forbidden"),
        "certificatesigningrequests.certificates.k8s.io \"eve\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    ask("jane", JANES_REQUEST).expect(201);
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["*"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    client
        .post(format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "approver"}, "rules": rules}))
        .expect(201);
    let binding = json!({
        "metadata": {"name": "approver"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    client.post(format!("{rbac}/clusterrolebindings"), &binding).expect(201);
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]}});
    let approve = || patch_as(client, "bob", "dev", &format!("{requests}/jane/approval"), &approved);
    assert_eq!(
        approve().expect_failure(403, "Forbidden"),
        "certificatesigningrequests.certificates.k8s.io \"jane\" is forbidden: user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    let mut role = client.get(format!("{rbac}/clusterroles/approver")).expect(200);
    let signers = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]});
    role["rules"].as_array_mut().unwrap().push(signers);
    client.put(format!("{rbac}/clusterroles/approver"), &role).expect(200);
    approve().expect(200);
}
