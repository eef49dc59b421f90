//! Servers on etcd: they keep everything there, see each other's writes at once, and say when etcd does not answer.

use std::time::{Duration, Instant};

use corten_e2e::widgets;
use corten_testkit::Server;
use serde_json::{Value, json};

use crate::etcd_process::EtcdServer;
use crate::{MAPS, SERVICES, WIDGETS, map};

fn start(etcd: &EtcdServer) -> Server {
    let url = etcd.url();
    Server::start_with(&["--etcd-servers", &url, "--service-cluster-ip-range", "10.96.0.0/24"])
}

#[test]
fn objects_are_the_same_after_server_and_etcd_were_killed() {
    let mut etcd = EtcdServer::start(&[]);
    let mut server = start(&etcd);
    let client = server.client();
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).expect(201);
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1.5});
    while client.post(WIDGETS, &widget).status != 201 {}
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    });
    client.post(SERVICES, &service).expect(201);
    client.post(MAPS, &map("a", "1")).expect(201);
    client.patch(format!("{MAPS}/a"), "merge", &json!({"data": {"key": "2"}})).expect(200);
    let paths = [format!("{MAPS}/a"), format!("{SERVICES}/s"), format!("{WIDGETS}/w")];
    let before: Vec<Value> = paths.iter().map(|path| client.get(path).expect(200)).collect();
    server.kill_9();
    etcd.kill_9();
    etcd.restart();
    server.restart();
    let client = server.client();
    let after: Vec<Value> = paths.iter().map(|path| client.get(path).expect(200)).collect();
    assert_eq!(before, after);
    assert!(!server.directory().path().join("store").exists(), "nothing is kept here");
}

#[test]
fn two_servers_see_each_others_writes_at_once() {
    let etcd = EtcdServer::start(&[]);
    let (first, second) = (start(&etcd), start(&etcd));
    let servers = [first.client(), second.client()];
    servers[0].post(MAPS, &map("shared", "0")).expect(201);
    for round in 1..=30 {
        let (writer, reader) = (servers[round % 2], servers[(round + 1) % 2]);
        let path = format!("{MAPS}/shared");
        // The version that the other server wrote is the current one here.
        let mut object = writer.get(&path).expect(200);
        assert_eq!(object["data"]["key"], (round - 1).to_string());
        object["data"]["key"] = round.to_string().into();
        let written = writer.put(&path, &object).expect(200);
        assert_eq!(reader.get(&path).expect(200), written);
        reader.post(MAPS, &map("shared", "x")).expect_failure(409, "AlreadyExists");
        let name = format!("gone-{round}");
        writer.post(MAPS, &map(&name, "")).expect(201);
        reader.delete(format!("{MAPS}/{name}")).expect(200);
        writer.get(format!("{MAPS}/{name}")).expect_failure(404, "NotFound");
    }
    let begin = servers[0].get(MAPS).expect(200)["metadata"]["resourceVersion"].take();
    let path = format!("{MAPS}?watch=true&resourceVersion={}", begin.as_str().unwrap_or_default());
    let mut watch = servers[1].watch(path);
    let created = servers[0].post(MAPS, &map("watched", "1")).expect(201);
    assert_eq!(watch.expect("ADDED"), created);
}

#[test]
fn a_server_without_etcd_is_not_ready() {
    let etcd = EtcdServer::start(&[]);
    let server = start(&etcd);
    let client = server.client();
    client.get("/readyz").expect_status(200);
    etcd.signal("STOP");
    client.get("/readyz").expect_status(500);
    client.get("/livez/etcd").expect_status(500);
    // What any state answers is still answered.
    client.get(format!("{MAPS}?resourceVersion=0")).expect_status(200);
    etcd.signal("CONT");
    let deadline = Instant::now() + Duration::from_secs(60);
    while client.get("/readyz").status != 200 {
        assert!(Instant::now() < deadline, "etcd answers again");
    }
    client.post(MAPS, &map("after", "1")).expect(201);
}
