//! Encryption at rest in etcd, and objects that cannot be read.

use corten_e2e::eventually;
use corten_testkit::{DataDirectory, Request};
use serde_json::json;

use crate::etcd_process::EtcdServer;
use crate::{MAPS, SECRETS, configuration, configuration_for, is_in_files, map, secret, start, text};

const UNSAFE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential=true";

#[test]
fn secrets_are_sealed_in_etcd_and_keys_are_replaced() {
    let etcd = EtcdServer::start(&[]);
    let directory = DataDirectory::new();
    let url = etcd.url();
    let config = configuration(directory.path(), "config.json", &["identity"]);
    let reload = "--encryption-provider-config-automatic-reload";
    let arguments = ["--etcd-servers", &url, "--encryption-provider-config", text(&config), reload];
    let server = start(&directory, &arguments);
    let client = server.client();
    let plain = client.post(SECRETS, &secret("first")).expect(201);
    let provide = |providers: &[&str]| {
        let before = server.messages().matches("reloaded encryption configuration").count();
        configuration(directory.path(), "config.json", providers);
        eventually("the configuration is reloaded", || {
            server.messages().matches("reloaded encryption configuration").count() > before
        });
    };
    provide(&["aesgcm/one", "identity"]);
    // An update that changes nothing writes the object with the new key, and only once.
    let path = format!("{SECRETS}/first");
    let sealed = client.put(&path, &plain).expect(200);
    assert_ne!(sealed["metadata"]["resourceVersion"], plain["metadata"]["resourceVersion"]);
    assert_eq!(client.put(&path, &sealed).expect(200), sealed);
    assert!(is_in_files(etcd.directory(), "k8s:enc:aesgcm:v1:one:"));
    client.post(MAPS, &map("plain", "a readable value")).expect(201);
    assert!(is_in_files(etcd.directory(), "a readable value"), "other resources are not sealed");
    provide(&["aescbc/two", "aesgcm/one"]);
    assert_eq!(client.get(&path).expect(200)["data"], plain["data"]);
    let again = client.put(&path, &sealed).expect(200);
    assert_ne!(again["metadata"]["resourceVersion"], sealed["metadata"]["resourceVersion"]);
    provide(&["aescbc/two"]);
    assert_eq!(client.get(&path).expect(200), again);
    client.post(SECRETS, &secret("second")).expect(201);
    let mut server = server;
    server.restart();
    assert_eq!(server.client().get(&path).expect(200), again);
}

#[test]
fn objects_that_cannot_be_read_fail_reads_and_can_be_deleted() {
    let etcd = EtcdServer::start(&[]);
    let directory = DataDirectory::new();
    let url = etcd.url();
    let config = configuration(directory.path(), "config.json", &["aesgcm/one"]);
    let reload = "--encryption-provider-config-automatic-reload";
    let arguments = ["--etcd-servers", &url, "--encryption-provider-config", text(&config), reload];
    let mut server = start(&directory, &arguments);
    for name in ["s1", "s2"] {
        server.client().post(SECRETS, &secret(name)).expect(201);
    }
    server.terminate();
    configuration(directory.path(), "config.json", &["identity"]);
    let server = start(&directory, &arguments);
    let client = server.client();
    let why = "data from the storage is not transformable revision=0: no matching prefix found";
    let of = |key: &str| {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
        )
    };
    let (first, second) = (of("/registry/secrets/default/s1"), of("/registry/secrets/default/s2"));
    let summary = format!("failed to read one or more secrets from the storage: {first} (and 1 more)");
    let list = client.get(SECRETS).expect(500);
    assert_eq!((&list["reason"], &list["message"]), (&json!("StorageReadError"), &json!(summary)));
    let cause = |key: &str, message: &str| json!({"reason": "UnexpectedServerResponse", "message": message, "field": key});
    let causes =
        [cause("/registry/secrets/default/s1", &first), cause("/registry/secrets/default/s2", &second)];
    assert_eq!(list["details"], json!({"name": "list", "kind": "secrets", "causes": causes}));
    client.get("/api/v1/namespaces/kube-system/secrets").expect(200);
    let from_cache =
        client.get(format!("{SECRETS}?resourceVersion=0")).expect_failure(429, "TooManyRequests");
    assert_eq!(from_cache, format!("storage is (re)initializing: failed to list <unspecified>: {summary}"));
    client.get(format!("{SECRETS}?watch=true")).expect_failure(429, "TooManyRequests");
    let one = client.get(format!("{SECRETS}/s1")).expect_failure(500, "InternalError");
    assert_eq!(one, format!("Internal error occurred: {}", of("/secrets/default/s1")));
    let change = client.put(format!("{SECRETS}/s1"), &secret("s1")).expect_failure(500, "InternalError");
    assert_eq!(change, format!("Internal error occurred: {why}"));
    client.post(SECRETS, &secret("s1")).expect_failure(409, "AlreadyExists");
    client.delete(format!("{SECRETS}/s1")).expect_failure(500, "InternalError");
    client.delete(format!("{SECRETS}?{UNSAFE}")).expect_failure(422, "Invalid");
    client.delete(format!("{SECRETS}/s1?{UNSAFE}&gracePeriodSeconds=0")).expect_failure(422, "Invalid");
    client.delete(format!("{SECRETS}/none?{UNSAFE}")).expect_failure(404, "NotFound");
    client.post(MAPS, &map("readable", "")).expect(201);
    client.delete(format!("{MAPS}/readable?{UNSAFE}")).expect_failure(409, "Conflict");
    let user = Request::new("DELETE", format!("{SECRETS}/s1?{UNSAFE}")).header("Impersonate-User", "user");
    client.send(&user).expect_failure(403, "Forbidden");
    let deleted = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "s1", "kind": "Secret"}, "code": 200,
    });
    assert_eq!(client.delete(format!("{SECRETS}/s1?{UNSAFE}&dryRun=All")).expect(200), deleted);
    client.get(format!("{SECRETS}/s1")).expect_failure(500, "InternalError");
    assert_eq!(client.delete(format!("{SECRETS}/s1?{UNSAFE}")).expect(200), deleted);
    client.get(format!("{SECRETS}/s1")).expect_failure(404, "NotFound");
    // The other one can be read once its key is back.
    configuration(directory.path(), "config.json", &["identity", "aesgcm/one"]);
    eventually("the key is used", || client.get(format!("{SECRETS}/s2")).status == 200);
    assert_eq!(client.get(SECRETS).expect(200)["items"].as_array().map(Vec::len), Some(1));
}

/// An attack: plain values in etcd, and a server that lacks the key of what protects it.
#[test]
fn configurations_that_cannot_be_read_grant_and_allow_nothing() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    const POLICY_BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let etcd = EtcdServer::start(&[]);
    let directory = DataDirectory::new();
    let url = etcd.url();
    let resources = [
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    ];
    let provide =
        |providers: &[&str]| configuration_for(&resources, directory.path(), "config.json", providers);
    let config = provide(&["identity"]);
    let reload = "--encryption-provider-config-automatic-reload";
    let arguments = ["--etcd-servers", &url, "--encryption-provider-config", text(&config), reload];
    let as_user = |path: &str| Request::new("GET", path).header("Impersonate-User", "user");
    let mut server = start(&directory, &arguments);
    let client = server.client();
    let subject = json!({"kind": "User", "name": "user", "apiGroup": "rbac.authorization.k8s.io"});
    let role =
        json!({"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": "user"}, "subjects": [subject], "roleRef": role});
    client.post(ROLE_BINDINGS, &binding).expect(201);
    client.send(&as_user(SECRETS)).expect(200);
    let policy = json!({
        "metadata": {"name": "no-maps"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "validations": [{"expression": "object.metadata.name != 'bad'"}],
        },
    });
    client.post(POLICIES, &policy).expect(201);
    let binding = json!({
        "metadata": {"name": "no-maps"}, "spec": {"policyName": "no-maps", "validationActions": ["Deny"]},
    });
    client.post(POLICY_BINDINGS, &binding).expect(201);
    client.post(MAPS, &map("bad", "")).expect_failure(422, "Invalid");
    server.terminate();
    // Plain values are not accepted any more, whatever they grant.
    provide(&["secretbox/one"]);
    let server = start(&directory, &arguments);
    let client = server.client();
    client.send(&as_user(SECRETS)).expect_failure(403, "Forbidden");
    let refused = client.post(MAPS, &map("bad", "")).expect_failure(500, "InternalError");
    assert!(refused.contains("validatingadmissionpolicies/no-maps"), "{refused}");
    client.delete(format!("{POLICY_BINDINGS}/no-maps")).expect(200);
    client.post(POLICY_BINDINGS, &binding).expect(201);
    // The policy is in force again as soon as it can be read.
    provide(&["secretbox/one", "identity"]);
    eventually("the policy is read", || client.post(MAPS, &map("good", "")).status == 201);
    client.post(MAPS, &map("bad", "")).expect_failure(422, "Invalid");
}
