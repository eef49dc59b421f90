//! Backups of running servers, restored on new machines, from directories and from buckets.

mod buckets;
mod machines;
mod on_etcd;
mod schedules;

#[expect(dead_code, reason = "this suite restarts no etcd")]
#[path = "../../../crates/store/tests/common/etcd_process.rs"]
mod etcd_process;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corten_e2e::{eventually, widgets};
use corten_testkit::{Client, DataDirectory, Server, corten_binary};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const EVENTS: &str = "/api/v1/namespaces/default/events";
/// A value of a Secret, and its form in the API.
const CANARY: &str = "corten-canary-value";
const CANARY_BASE64: &str = "Y29ydGVuLWNhbmFyeS12YWx1ZQ==";

/// `corten backup` with arguments.
fn backup(arguments: &[&str]) -> Command {
    let mut command = Command::new(corten_binary());
    command.arg("backup").args(arguments).stdin(Stdio::null());
    command
}

#[track_caller]
fn succeed(mut command: Command) -> String {
    let output = command.output().expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refuse(mut command: Command, why: &str) {
    let output = command.output().expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(why), "{command:?}: {errors}");
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

/// A file with a passphrase.
fn passphrase(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, content).expect("the file can be written");
    path
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").permissions().mode() & 0o7777
}

/// The archives in a directory, oldest first.
fn archives(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "backup"));
    paths.sort();
    paths
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

/// One object of each kind of record.
fn fill(client: &Client) {
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).expect(201);
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1.5});
    eventually("the custom resource is served", || client.post(WIDGETS, &widget).status == 201);
    client.post(MAPS, &map("m", "1")).expect(201);
    let secret = json!({"metadata": {"name": "s"}, "data": {"key": CANARY_BASE64}});
    client.post(SECRETS, &secret).expect(201);
    let event = json!({
        "metadata": {"name": "e"}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "m"},
    });
    client.post(EVENTS, &event).expect(201);
}

/// The objects that `fill` made, without their revisions.
fn state(client: &Client) -> Vec<Value> {
    let paths = [format!("{MAPS}/m"), format!("{SECRETS}/s"), format!("{WIDGETS}/w"), format!("{EVENTS}/e")];
    let mut objects: Vec<Value> = paths.iter().map(|path| client.get(path).expect(200)).collect();
    for object in &mut objects {
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    }
    objects
}
