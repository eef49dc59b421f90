//! Encryption at rest: nothing of an encrypted object is plain on disk, and keys can be changed.

use std::fs;
use std::path::Path;

use corten_e2e::eventually;
use corten_testkit::{DataDirectory, Server};
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CANARY: &str = "Y29ydGVuLWNhbmFyeS12YWx1ZQ==";

/// A configuration that encrypts Secrets with the first of the keys.
fn configure(file: &Path, providers: &[&str]) {
    let entry = |provider: &&str| match *provider {
        "identity" => json!({"identity": {}}),
        key => {
            let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
            let (kind, name) = key.split_once('/').expect("a kind and a name");
            json!({kind: {"keys": [{"name": name, "secret": secret}]}})
        }
    };
    let providers: Vec<Value> = providers.iter().map(entry).collect();
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets", "widgets.example.com"], "providers": providers}],
    });
    let temporary = file.with_extension("new");
    fs::write(&temporary, configuration.to_string()).expect("the file can be written");
    fs::rename(&temporary, file).expect("the file can be replaced");
}

fn is_in_store(directory: &DataDirectory, text: &str) -> bool {
    fs::read_dir(directory.path().join("store")).expect("a store").flatten().any(|file| {
        let bytes = fs::read(file.path()).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"password": CANARY}})
}

fn start(directory: &DataDirectory, file: &Path) -> Server {
    let reload = "--encryption-provider-config-automatic-reload";
    let arguments = ["--encryption-provider-config", file.to_str().expect("a path in UTF-8"), reload];
    match Server::try_start(directory, &arguments) {
        Ok(server) => server,
        Err(failure) => panic!("{failure}"),
    }
}

fn await_message(server: &Server, text: &str) {
    eventually(text, || server.messages().contains(text));
}

#[test]
fn secrets_are_encrypted_in_the_store_and_keys_are_replaced_by_restarts() {
    let directory = DataDirectory::new();
    let file = directory.path().join("encryption.json");
    let mut server = match Server::try_start(&directory, &[]) {
        Ok(server) => server,
        Err(failure) => panic!("{failure}"),
    };
    let plain = server.client().post(SECRETS, &secret("before")).expect(201);
    assert!(is_in_store(&directory, CANARY));
    server.kill_9();
    configure(&file, &["aesgcm/one"]);
    let refused =
        match Server::try_start(&directory, &["--encryption-provider-config", file.to_str().unwrap()]) {
            Ok(_) => panic!("a plain secret needs the identity provider"),
            Err(failure) => failure.to_string(),
        };
    assert!(refused.contains("cannot decrypt value of /registry/secrets/default/before"), "{refused}");
    configure(&file, &["aesgcm/one", "identity"]);
    let mut server = start(&directory, &file);
    assert!(!is_in_store(&directory, CANARY), "the start encrypts what was plain");
    server.client().post(SECRETS, &secret("after")).expect(201);
    assert!(!is_in_store(&directory, CANARY));
    assert!(is_in_store(&directory, "k8s:enc:aesgcm:v1:one:"));
    assert_eq!(server.client().get(format!("{SECRETS}/before")).expect(200), plain);
    server.kill_9();
    configure(&file, &["secretbox/two", "aesgcm/one"]);
    let mut server = start(&directory, &file);
    assert!(!is_in_store(&directory, "k8s:enc:aesgcm:"));
    server.kill_9();
    configure(&file, &["secretbox/two"]);
    let server = start(&directory, &file);
    for name in ["before", "after"] {
        let found = server.client().get(format!("{SECRETS}/{name}")).expect(200);
        assert_eq!(found["data"]["password"], CANARY);
    }
    drop(server);
    let without = match Server::try_start(&directory, &[]) {
        Ok(_) => panic!("started without the key"),
        Err(failure) => failure.to_string(),
    };
    assert!(without.contains("identity transformer tried to read encrypted data"), "{without}");
}

#[test]
fn a_changed_configuration_applies_to_new_writes_at_once_and_a_broken_one_never() {
    let directory = DataDirectory::new();
    let file = directory.path().join("encryption.json");
    configure(&file, &["aescbc/one", "identity"]);
    let server = start(&directory, &file);
    server.client().post(SECRETS, &secret("first")).expect(201);
    assert!(is_in_store(&directory, "k8s:enc:aescbc:v1:one:"));
    fs::write(&file, "kind: EncryptionConfiguration").unwrap();
    await_message(&server, "cannot reload encryption configuration");
    assert!(!server.messages().contains("MDEyMzQ1"), "keys are never logged");
    server.client().post(SECRETS, &secret("second")).expect(201);
    assert!(!is_in_store(&directory, CANARY));
    configure(&file, &["aescbc/two", "aescbc/one", "identity"]);
    await_message(&server, "reloaded encryption configuration");
    server.client().post(SECRETS, &secret("third")).expect(201);
    assert!(is_in_store(&directory, "k8s:enc:aescbc:v1:two:"));
    assert_eq!(server.client().get(SECRETS).expect(200)["items"].as_array().unwrap().len(), 3);
}
