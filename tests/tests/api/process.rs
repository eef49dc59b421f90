//! The process: starting, stopping, crashing, and the files on disk.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use corten_e2e::pod;
use corten_testkit::{Client, DEADLINE, DataDirectory, Request, Server, WatchEnd};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Concurrent writers when the server is killed.
const WRITERS: usize = 8;

/// The acknowledged state of an object: its metadata, or `None` once it is deleted.
type Acknowledged = BTreeMap<String, Option<Value>>;

#[test]
fn nothing_acknowledged_is_lost_when_it_is_killed() {
    let mut server = Server::start();
    let mut known = Acknowledged::new();
    for round in 0..3 {
        known.extend(write_until_killed(&mut server, round, 150 + 100 * round));
        server.restart();
        let list = server.client().get(PODS).expect(200);
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let found: BTreeMap<&str, &Value> = items
            .iter()
            .map(|item| (item["metadata"]["name"].as_str().unwrap_or_default(), &item["metadata"]))
            .collect();
        for (name, acknowledged) in &known {
            check_kept(name, acknowledged.as_ref(), found.get(name.as_str()).copied());
        }
        let newest = known.values().flatten().filter_map(revision).max().unwrap();
        let next = server.client().post(PODS, &pod(&format!("after-{round}"))).expect(201);
        assert!(revision(&next["metadata"]).unwrap() > newest, "revisions are never used twice");
    }
}

/// An object is as it was acknowledged, or newer if the server was killed before its response.
#[track_caller]
fn check_kept(name: &str, acknowledged: Option<&Value>, found: Option<&Value>) {
    match (acknowledged, found) {
        (None, None) => {}
        (None, Some(found)) => panic!("{name} was deleted and is back: {found}"),
        (Some(acknowledged), None) => panic!("{name} was acknowledged and is lost: {acknowledged}"),
        (Some(acknowledged), Some(found)) => {
            assert_eq!(found["uid"], acknowledged["uid"], "{name}");
            assert!(revision(found) >= revision(acknowledged), "{name}: {found}, not {acknowledged}");
            if revision(found) == revision(acknowledged) {
                assert_eq!(found, acknowledged, "{name}");
            }
        }
    }
}

/// Creates, updates and deletes pods from several connections; kills the server once `enough` writes are
/// acknowledged.
fn write_until_killed(server: &mut Server, round: usize, enough: usize) -> Acknowledged {
    let acknowledged = Mutex::new(Acknowledged::new());
    let count = AtomicUsize::new(0);
    let (reached, kill) = channel();
    let credentials = server.credentials().clone();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (acknowledged, count, reached, credentials) =
                (&acknowledged, &count, reached.clone(), &credentials);
            scope.spawn(move || {
                let client = Client::new(credentials).expect("the kubeconfig is good");
                let acknowledge = |name: &str, metadata: Option<Value>| {
                    acknowledged.lock().expect("no writer panics").insert(name.to_owned(), metadata);
                    if count.fetch_add(1, Ordering::Relaxed) + 1 == enough {
                        let _ = reached.send(());
                    }
                };
                let unknown = |name: &str| {
                    acknowledged.lock().expect("no writer panics").remove(name);
                };
                // Returns when the server is gone.
                let write = |index: usize| -> std::io::Result<()> {
                    let name = format!("p-{round}-{writer}-{index}");
                    let path = format!("{PODS}/{name}");
                    let create = client.try_send(&Request::new("POST", PODS).json(&pod(&name)))?;
                    acknowledge(&name, Some(create.expect(201)["metadata"].take()));
                    let label = json!({"metadata": {"labels": {"changed": "yes"}}}).to_string();
                    let label = Request::new("PATCH", &path).body("application/merge-patch+json", label);
                    acknowledge(&name, Some(client.try_send(&label)?.expect(200)["metadata"].take()));
                    if index.is_multiple_of(2) {
                        unknown(&name);
                        client.try_send(&Request::new("DELETE", &path))?.expect_status(200);
                        acknowledge(&name, None);
                    }
                    Ok(())
                };
                (0..).try_for_each(write)
            });
        }
        kill.recv_timeout(DEADLINE).expect("writes are acknowledged");
        server.kill_9();
    });
    acknowledged.into_inner().expect("no writer panics")
}

fn revision(metadata: &Value) -> Option<u64> {
    metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok())
}

#[test]
fn watches_resume_across_a_kill() {
    let mut server = Server::start();
    let begin = server.client().get(PODS).expect(200);
    let names: Vec<String> = (0..10).map(|index| format!("p{index}")).collect();
    for name in &names {
        server.client().post(PODS, &pod(name)).expect(201);
    }
    server.restart();
    let from = begin["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = server.client().watch(format!("{PODS}?watch=true&resourceVersion={from}"));
    for name in &names {
        assert_eq!(watch.expect("ADDED")["metadata"]["name"], name.as_str());
    }
    server.client().post(PODS, &pod("later")).expect(201);
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "later");
}

#[test]
fn sigterm_drains() {
    let mut server = Server::start();
    server.client().post(PODS, &pod("kept")).expect(201);
    let mut watch = server.client().watch(format!("{PODS}?watch=true"));
    watch.expect("ADDED");
    server.signal_terminate();
    assert!(matches!(watch.try_next(), Err(WatchEnd::Closed)), "watches end properly");
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{}", server.messages());
    assert!(server.messages().contains("stopped"), "{}", server.messages());
    server.restart();
    server.client().get(format!("{PODS}/kept")).expect(200);
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let server = Server::start();
    let failure = match Server::try_start(server.directory(), &[]) {
        Err(failure) => failure,
        Ok(_) => panic!("a second server started"),
    };
    assert!(failure.status.is_some_and(|status| !status.success()));
    assert!(failure.messages.contains("another"), "{failure}");
    server.client().get("/readyz").expect_status(200);
}

#[test]
fn a_restart_keeps_certificates_and_kubeconfig() {
    let mut server = Server::start();
    let before = server.credentials().clone();
    server.client().get("/readyz").expect_status(200);
    assert_eq!(server.terminate().code(), Some(0));
    server.restart();
    assert_eq!(server.credentials().ca_pem, before.ca_pem);
    assert_eq!(server.credentials().cert_pem, before.cert_pem);
}

#[test]
fn wrong_arguments_are_explained() {
    for (arguments, expected) in [
        (&["--disable", "everything"][..], "there is no component everything"),
        (&["--runtime-config", "nonsense"], "invalid value 'nonsense' for '--runtime-config"),
        (&["--no-such-flag"], "unexpected argument '--no-such-flag'"),
    ] {
        let failure = match Server::try_start(&DataDirectory::new(), arguments) {
            Err(failure) => failure,
            Ok(_) => panic!("it started with {arguments:?}"),
        };
        assert!(failure.messages.contains(expected), "{arguments:?}: {failure}");
    }
}

#[test]
fn the_kubeconfig_is_written_where_configured() {
    let directory = DataDirectory::new();
    let file = directory.path().join("elsewhere.kubeconfig");
    let server = match Server::try_start_with_kubeconfig(&directory, &file) {
        Ok(server) => server,
        Err(failure) => panic!("{failure}"),
    };
    assert_eq!(server.kubeconfig(), file);
    server.client().get("/readyz").expect_status(200);
    assert!(!directory.path().join("admin.kubeconfig").exists());
}
