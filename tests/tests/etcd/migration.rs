//! `corten datastore migrate`: between a data directory and etcd, from a live cluster, and after an interruption.

use std::process::{Child, Command, Output, Stdio};

use corten_e2e::{eventually, widgets};
use corten_testkit::{Client, DataDirectory, Server, corten_binary};
use serde_json::{Value, json};

use crate::etcd_process::EtcdServer;
use crate::{MAPS, SECRETS, SERVICES, WIDGETS, configuration, is_in_files, map, secret, start, text};

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(corten_binary());
    command.args(["datastore", "migrate"]).args(arguments).stdin(Stdio::null());
    command
}

fn migrate(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command starts")
}

#[track_caller]
fn expect_migrated(arguments: &[&str]) -> String {
    let output = migrate(arguments);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    assert!(message.contains(" objects are equal; "), "{message}");
    message
}

#[track_caller]
fn expect_refused(arguments: &[&str], why: &str) {
    let output = migrate(arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains(why), "{message}");
}

/// One object of each form in which datastores keep them.
fn fill(client: &Client) {
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).expect(201);
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1.5});
    eventually("the custom resource is served", || client.post(WIDGETS, &widget).status == 201);
    client.post(MAPS, &map("m", "1")).expect(201);
    client.post(SECRETS, &secret("s")).expect(201);
    let service = json!({"metadata": {"name": "n"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    client.post(SERVICES, &service).expect(201);
    let event = json!({
        "metadata": {"name": "e"}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "m"},
    });
    client.post(EVENTS, &event).expect(201);
}

/// The objects that `fill` made, without their revisions.
fn state(client: &Client) -> Vec<Value> {
    let objects =
        [format!("{MAPS}/m"), format!("{SECRETS}/s"), format!("{SERVICES}/n"), format!("{WIDGETS}/w")];
    let paths = objects.into_iter().chain([format!("{EVENTS}/e")]);
    let mut objects: Vec<Value> = paths.map(|path| client.get(path).expect(200)).collect();
    for object in &mut objects {
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    }
    objects
}

/// No client may take an object for the version that it read under the same revision of the datastore before.
#[track_caller]
fn expect_later(client: &Client, known: &str) {
    let known: u64 = known.parse().expect("a revision");
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::parse::<u64>);
    let maps = client.get(MAPS).expect(200);
    let all = maps["items"].as_array().expect("items");
    assert!(all.iter().all(|map| revision(map).is_some_and(|found| found.unwrap_or(0) > known)), "{maps}");
}

fn revision(client: &Client) -> String {
    client.get(MAPS).expect(200)["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
}

/// A client that knows a revision of another datastore lists again.
fn expect_expired(client: &Client, revision: &str) {
    let path = format!("{MAPS}?watch=true&resourceVersion={revision}");
    assert_eq!(client.watch(path).expect("ERROR")["code"], 410);
    let path = format!("{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    client.get(path).expect_failure(410, "Expired");
    let now = client.get(MAPS).expect(200)["metadata"]["resourceVersion"].as_str().map(str::parse::<u64>);
    assert!(now.is_some_and(|now| now.unwrap_or(0) > revision.parse().unwrap_or(u64::MAX)));
}

#[test]
fn a_cluster_moves_to_etcd_and_back() {
    let (first, last) = (DataDirectory::new(), DataDirectory::new());
    let etcd = EtcdServer::start(&[]);
    let config = configuration(first.path(), "embedded.json", &["aesgcm/one"]);
    let embedded = ["--encryption-provider-config", text(&config)];
    let mut server = start(&first, &embedded);
    fill(server.client());
    for value in 0..40 {
        server
            .client()
            .patch(format!("{MAPS}/m"), "merge", &json!({"data": {"n": value.to_string()}}))
            .expect(200);
    }
    let (before, known) = (state(server.client()), revision(server.client()));
    let url = etcd.url();
    let config_of_etcd = configuration(first.path(), "etcd.json", &["secretbox/two", "identity"]);
    let from = text(first.path());
    let there = [
        "--from",
        from,
        "--from-encryption-provider-config",
        text(&config),
        "--to",
        &url,
        "--to-encryption-provider-config",
        text(&config_of_etcd),
    ];
    expect_refused(&there, "is in use by another process");
    server.terminate();
    let message = expect_migrated(&there);
    assert!(!message.contains("\r"), "lines without a terminal: {message}");
    assert!(is_in_files(etcd.directory(), "k8s:enc:secretbox:v1:two:"));
    assert!(!is_in_files(etcd.directory(), "corten-canary-value"), "secrets are sealed in the target");
    expect_refused(&there, "use --overwrite to replace them");
    expect_refused(&["--from", &url, "--to", &url], "are the same datastore");

    let on_etcd = ["--etcd-servers", &url, "--encryption-provider-config", text(&config_of_etcd)];
    let mut server = start(&first, &on_etcd);
    assert_eq!(state(server.client()), before);
    expect_expired(server.client(), &known);
    expect_later(server.client(), &known);
    server.client().delete(format!("{MAPS}/m")).expect(200);
    server.client().post(MAPS, &map("m", "made on etcd")).expect(201);
    let (before, known) = (state(server.client()), revision(server.client()));
    server.terminate();

    let to = text(last.path());
    let back = ["--from", &url, "--from-encryption-provider-config", text(&config_of_etcd), "--to", to];
    expect_migrated(&back);
    let server = start(&last, &[]);
    assert_eq!(state(server.client()), before);
    expect_expired(server.client(), &known);
    expect_later(server.client(), &known);
    server.client().post(MAPS, &map("after", "")).expect(201);
    drop(server);

    // The source still has what it had.
    let server = start(&first, &embedded);
    let old = server.client().get(format!("{MAPS}/m")).expect(200);
    assert_eq!((&old["data"]["key"], &old["data"]["n"]), (&json!("1"), &json!("39")));
}

/// A copy with another configuration of encryption than the one before does not leave plain values behind.
#[test]
fn a_repeated_migration_seals_what_is_equal() {
    let (directory, etcd) = (DataDirectory::new(), EtcdServer::start(&[]));
    let mut server = start(&directory, &[]);
    server.client().post(SECRETS, &secret("s")).expect(201);
    server.terminate();
    let url = etcd.url();
    expect_migrated(&["--from", text(directory.path()), "--to", &url]);
    let sealing = configuration(directory.path(), "sealing.json", &["secretbox/two", "identity"]);
    let arguments = ["--from", text(directory.path()), "--to", &url, "--overwrite"];
    expect_migrated(&[&arguments[..], &["--to-encryption-provider-config", text(&sealing)]].concat());
    // Plain values are not accepted.
    let sealed = configuration(directory.path(), "sealed.json", &["secretbox/two"]);
    let server = start(&directory, &["--etcd-servers", &url, "--encryption-provider-config", text(&sealed)]);
    assert_eq!(server.client().get(format!("{SECRETS}/s")).expect(200)["data"], secret("s")["data"]);
}

/// A source whose components still renew their leases is not given up as complete, however short the copy took.
#[test]
fn a_source_with_running_components_is_refused() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let etcd = EtcdServer::start(&[]);
    let (directory, to) = (DataDirectory::new(), DataDirectory::new());
    let from = etcd.url();
    let server = start(&directory, &["--etcd-servers", &from]);
    let lease = json!({"metadata": {"name": "node"}, "spec": {"holderIdentity": "node"}});
    server.client().post(LEASES, &lease).expect(201);
    let mut child = command(&["--from", &from, "--to", text(to.path())])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    wait_for_line(&mut child, "settling");
    let renewed = json!({"spec": {"leaseDurationSeconds": 40}});
    server.client().patch(format!("{LEASES}/node"), "merge", &renewed).expect(200);
    assert!(!child.wait().expect("a child").success());
}

fn wait_for_line(child: &mut Child, line: &str) {
    use std::io::{BufRead, BufReader};
    let stderr = child.stderr.take().expect("stderr is piped");
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    assert!(lines.any(|found| found.contains(line)), "the command ended before: {line}");
    // Read on, so that the command never blocks.
    std::thread::spawn(move || lines.for_each(drop));
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()));
}

#[test]
fn a_live_cluster_is_followed_until_its_writers_stop() {
    let (source, target) = (EtcdServer::start(&[]), EtcdServer::start(&[]));
    let directory = DataDirectory::new();
    let (from, to) = (source.url(), target.url());
    let mut server = start(&directory, &["--etcd-servers", &from]);
    for index in 0..20 {
        server.client().post(MAPS, &map(&format!("early-{index}"), "")).expect(201);
    }
    let mut child = command(&["--from", &from, "--to", &to, "--follow"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    wait_for_line(&mut child, "following the source");
    for index in 0..20 {
        server.client().post(MAPS, &map(&format!("late-{index}"), "")).expect(201);
        server.client().delete(format!("{MAPS}/early-{index}")).expect(200);
    }
    let known = revision(server.client());
    let refused = match Server::try_start(&DataDirectory::new(), &["--etcd-servers", &to]) {
        Ok(_) => panic!("the target is not complete"),
        Err(failure) => failure.to_string(),
    };
    assert!(refused.contains("has not ended"), "{refused}");
    server.terminate();
    interrupt(&child);
    assert!(child.wait().expect("a child").success());
    let server = start(&directory, &["--etcd-servers", &to]);
    let list = server.client().get(MAPS).expect(200);
    let names =
        list["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str());
    let mut names: Vec<&str> = names.filter(|name| !name.starts_with("kube-")).collect();
    names.sort_unstable();
    let mut expected: Vec<String> = (0..20).map(|index| format!("late-{index}")).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    expect_expired(server.client(), &known);
}

#[test]
fn an_interrupted_migration_continues() {
    let etcd = EtcdServer::start(&[]);
    let directory = DataDirectory::new();
    let mut server = start(&directory, &[]);
    fill(server.client());
    let before = state(server.client());
    server.terminate();
    let (from, url) = (text(directory.path()), etcd.url());
    let arguments = ["--from", from, "--to", &url];
    // A target that stops answering in the middle, and a command that is killed.
    let mut child = command(&arguments).stderr(Stdio::piped()).spawn().expect("the command starts");
    eventually("the migration begins", || is_in_files(etcd.directory(), "corten.io/migration"));
    child.kill().expect("a child to kill");
    child.wait().expect("a dead child");
    let other = DataDirectory::new();
    let mut server = start(&other, &[]);
    server.terminate();
    let state_of_target = migrate(&["--from", text(other.path()), "--to", &url]);
    assert!(!state_of_target.status.success(), "another source does not replace what is there");
    let message = String::from_utf8_lossy(&migrate(&arguments).stderr).into_owned();
    // The first command may have ended before it was killed.
    let again = message.contains("continuing the copy of") || message.contains("use --overwrite");
    assert!(again, "{message}");
    let server = start(&directory, &["--etcd-servers", &url]);
    assert_eq!(state(server.client()), before);
}
