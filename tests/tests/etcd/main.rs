//! Servers on etcd, and clusters that move to it and back.

mod cluster_init;
mod encryption;
mod living_servers;
mod migration;
mod server_join;
mod servers;
mod shared_limits;

#[path = "../../../crates/store/tests/common/etcd_process.rs"]
mod etcd_process;

use std::fs;
use std::path::{Path, PathBuf};

use corten_testkit::{DataDirectory, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const CANARY: &str = "Y29ydGVuLWNhbmFyeS12YWx1ZQ==";

/// Writes an encryption configuration for Secrets.
fn configuration(directory: &Path, name: &str, providers: &[&str]) -> PathBuf {
    configuration_for(&["secrets"], directory, name, providers)
}

/// Writes an encryption configuration; a provider is `identity`, or a kind and the name of its key.
fn configuration_for(resources: &[&str], directory: &Path, name: &str, providers: &[&str]) -> PathBuf {
    let entry = |provider: &&str| match provider.split_once('/') {
        None => json!({"identity": {}}),
        Some((kind, name)) => {
            let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
            json!({kind: {"keys": [{"name": name, "secret": secret}]}})
        }
    };
    let providers: Vec<Value> = providers.iter().map(entry).collect();
    let text = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": resources, "providers": providers}],
    });
    let (file, temporary) = (directory.join(name), directory.join(format!("{name}.new")));
    fs::write(&temporary, text.to_string()).expect("the file can be written");
    fs::rename(&temporary, &file).expect("the file can be replaced");
    file
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn start(directory: &DataDirectory, arguments: &[&str]) -> Server {
    match Server::try_start(directory, arguments) {
        Ok(server) => server,
        Err(failure) => panic!("{failure}"),
    }
}

/// True if a file below a directory has a text.
fn is_in_files(directory: &Path, text: &str) -> bool {
    fs::read_dir(directory).expect("a directory").flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return is_in_files(&path, text);
        }
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"key": value}})
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"password": CANARY}})
}
