//! Encryption of Secrets in the datastore: KMS plugins, changed configurations, and rotations of keys.

mod kms;
mod polling;
mod rotation;

#[expect(dead_code, reason = "shared with tests that restart etcd")]
#[path = "../../../crates/store/tests/common/etcd_process.rs"]
mod etcd_process;

use std::fs;
use std::path::{Path, PathBuf};

use corten_testkit::{DataDirectory, KmsPlugin, Server};
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CANARY: &str = "Y29ydGVuLWNhbmFyeS12YWx1ZQ==";

/// Writes a configuration that encrypts Secrets with a plugin; `comment` makes it another text.
fn configure(directory: &Path, plugin: &KmsPlugin, comment: &str) -> PathBuf {
    let kms = json!({"apiVersion": "v2", "name": "test", "endpoint": plugin.endpoint(), "timeout": "500ms"});
    let text = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"kms": kms}, {"identity": {}}]}],
    });
    let (file, temporary) = (directory.join("encryption.yaml"), directory.join("encryption.new"));
    fs::write(&temporary, format!("# {comment}\n{text}\n")).expect("the file can be written");
    fs::rename(&temporary, &file).expect("the file can be replaced");
    file
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[track_caller]
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

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"password": CANARY}})
}
