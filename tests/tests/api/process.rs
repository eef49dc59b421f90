//! The process: starting, stopping, dying, and what is left on disk.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use corten_e2e::pod;
use corten_testkit::{DEADLINE, DataDirectory, Server, WatchEnd};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Writers at work when the server is killed.
const WRITERS: usize = 8;

#[test]
fn nothing_acknowledged_is_lost_when_it_is_killed() {
    let mut server = Server::start();
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for round in 0..3 {
        let acknowledged = write_until_killed(&mut server, round, 60 + 70 * round);
        known.extend(acknowledged);
        server.restart();
        let list = server.client().get(PODS).expect(200);
        let found: BTreeMap<&str, &Value> = list["items"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .map(|item| (item["metadata"]["name"].as_str().unwrap_or_default(), &item["metadata"]))
            .collect();
        for (name, metadata) in &known {
            let metadata_now = found.get(name.as_str());
            assert_eq!(metadata_now.map(|m| &m["uid"]), Some(&metadata["uid"]), "{name} was acknowledged");
            let acknowledged = &metadata["annotations"]["round"];
            assert_eq!(metadata_now.map(|m| &m["annotations"]["round"]), Some(acknowledged), "{name}");
        }
        let newest = known.values().filter_map(revision).max().unwrap();
        let next = server.client().post(PODS, &pod(&format!("after-{round}"))).expect(201);
        assert!(revision(&next["metadata"]).unwrap() > newest, "revisions are never used twice");
    }
}

/// Creates and updates pods from several connections; kills the server once `enough` are acknowledged.
fn write_until_killed(server: &mut Server, round: usize, enough: usize) -> BTreeMap<String, Value> {
    let acknowledged = Mutex::new(BTreeMap::new());
    let count = AtomicUsize::new(0);
    let (reached, kill) = channel();
    let credentials = server.credentials().clone();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (acknowledged, count, reached, credentials) =
                (&acknowledged, &count, reached.clone(), &credentials);
            scope.spawn(move || {
                let client = corten_testkit::Client::new(credentials).expect("the kubeconfig is good");
                for index in 0.. {
                    let name = format!("p-{round}-{writer}-{index}");
                    let mut object = pod(&name);
                    object["metadata"]["annotations"] = json!({"round": "0"});
                    let create = corten_testkit::Request::new("POST", PODS).json(&object);
                    let Ok(response) = client.try_send(&create) else { return };
                    let created = response.expect(201);
                    acknowledged
                        .lock()
                        .expect("no writer panics")
                        .insert(name.clone(), created["metadata"].clone());
                    if count.fetch_add(1, Ordering::Relaxed) + 1 == enough {
                        let _ = reached.send(());
                    }
                }
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
        (&["--disable", "everything"][..], "there is no part called everything"),
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
fn the_kubeconfig_goes_where_it_is_wanted() {
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
