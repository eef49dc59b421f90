//! Policies from manifests on disk, with `--admission-control-config-file`.

use std::fs;
use std::path::Path;

use corten_e2e::eventually;
use corten_testkit::{DataDirectory, Reply, Server, Webhook};
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, GROUP, binding, config_map, create, policy, validations};

const NAME: &str = "short.static.k8s.io";

/// A configuration file that names a directory of manifests.
fn configuration(directory: &Path) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ValidatingAdmissionPolicy", "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "ValidatingAdmissionPolicyConfiguration",
            "staticManifestsDir": directory,
        }}],
    })
}

fn write(directory: &Path, expression: &str) {
    // The server's own objects are validated, too.
    let mut spec = validations(expression);
    spec["matchConditions"] = json!([{"name": "own", "expression": "request.namespace == 'default'"}]);
    let policy = policy(NAME, &spec);
    let manifests = format!("{policy}\n---\n{}\n", binding(NAME, NAME, &json!({})));
    let written = directory.join(".new");
    fs::write(&written, manifests).expect("manifests can be written");
    fs::rename(written, directory.join("policy.yaml")).expect("manifests can be replaced");
}

#[test]
fn manifests_are_in_force_and_follow_their_files() {
    let data = DataDirectory::new();
    let directory = data.path().join("manifests");
    fs::create_dir(&directory).expect("a directory can be created");
    write(&directory, "object.metadata.name.size() < 4");
    let file = data.path().join("admission.yaml");
    fs::write(&file, configuration(&directory).to_string()).expect("the file can be written");
    let flag = format!("--admission-control-config-file={}", file.display());
    let server = Server::try_start(&data, &[&flag]).unwrap_or_else(|failure| panic!("{failure:?}"));
    let client = server.client();
    create(client, "abc", &json!({})).expect(201);
    create(client, "abcd", &json!({})).expect_failure(422, "Invalid");
    // Names of manifests are reserved.
    client
        .post(
            format!("{GROUP}/validatingadmissionpolicies"),
            &policy("x.static.k8s.io", &validations("true")),
        )
        .expect_failure(422, "Invalid");
    write(&directory, "object.metadata.name.size() < 6");
    eventually("the manifest is reloaded", || {
        client.post(format!("{CONFIG_MAPS}?dryRun=All"), &config_map("abcde", &json!({}))).json()["kind"]
            == "ConfigMap"
    });
    // A manifest that cannot be used changes nothing.
    write(&directory, "nonsense(");
    eventually("the failure is logged", || server.messages().contains("cannot reload manifests"));
    create(client, "abcdef", &json!({})).expect_failure(422, "Invalid");
}

#[test]
fn webhooks_of_manifests_are_in_force() {
    let data = DataDirectory::new();
    let directory = data.path().join("manifests");
    fs::create_dir(&directory).expect("a directory can be created");
    let webhook = Webhook::start(|review| {
        let response =
            json!({"uid": review["request"]["uid"], "allowed": false, "status": {"message": "by a file"}});
        Reply::Json(
            json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}),
        )
    });
    let manifest = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks.static.k8s.io"},
        "webhooks": [{
            "name": "hook.example.com", "clientConfig": webhook.client_config("/"),
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "matchConditions": [{"name": "own", "expression": "request.namespace == 'default'"}],
        }],
    });
    fs::write(directory.join("hooks.json"), manifest.to_string()).expect("a manifest can be written");
    // The older version of the file is the same.
    let file = json!({
        "apiVersion": "apiserver.k8s.io/v1alpha1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ValidatingAdmissionWebhook", "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "staticManifestsDir": directory,
        }}],
    });
    let path = data.path().join("admission.yaml");
    fs::write(&path, file.to_string()).expect("the file can be written");
    let flag = format!("--admission-control-config-file={}", path.display());
    let server = Server::try_start(&data, &[&flag]).unwrap_or_else(|failure| panic!("{failure:?}"));
    let refused = create(server.client(), "c", &json!({})).expect_failure(400, "");
    assert!(refused.ends_with("denied the request: by a file"), "{refused}");
}

#[test]
fn a_server_does_not_start_with_manifests_that_it_cannot_use() {
    let data = DataDirectory::new();
    let directory = data.path().join("manifests");
    fs::create_dir(&directory).expect("a directory can be created");
    write(&directory, "1");
    let file = data.path().join("admission.yaml");
    fs::write(&file, configuration(&directory).to_string()).expect("the file can be written");
    let flag = format!("--admission-control-config-file={}", file.display());
    assert!(Server::try_start(&data, &[&flag]).is_err());
    let mut wrong = configuration(&directory);
    wrong["plugins"][0]["name"] = json!("PodSecurity");
    fs::write(&file, wrong.to_string()).expect("the file can be written");
    assert!(Server::try_start(&data, &[&flag]).is_err());
}
