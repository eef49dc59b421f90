//! Limits that several servers keep together: addresses, ports and quotas never exceed what there is.

use std::collections::BTreeSet;

use corten_e2e::eventually;
use corten_testkit::{Client, Server};
use serde_json::{Value, json};

use crate::etcd_process::EtcdServer;
use crate::{MAPS, SERVICES, map};

const SERVERS: usize = 3;
const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas";

fn start(etcd: &EtcdServer, more: &[&str]) -> Vec<Server> {
    let url = etcd.url();
    let arguments = [&["--etcd-servers", &url, "--service-cluster-ip-range", "10.96.0.0/24"], more].concat();
    (0..SERVERS).map(|_| Server::start_with(&arguments)).collect()
}

/// Runs writers on all servers at once, each with its number.
fn write_through_all(servers: &[Server], writers: usize, write: impl Fn(&Client, usize) + Sync) {
    std::thread::scope(|scope| {
        for (number, server) in servers.iter().enumerate() {
            for writer in 0..writers {
                let (credentials, write) = (server.credentials(), &write);
                scope.spawn(move || {
                    write(&Client::new(credentials).expect("a client"), number * writers + writer)
                });
            }
        }
    });
}

#[test]
fn servers_never_give_two_services_the_same_address_or_port() {
    const EACH: usize = 12;
    let etcd = EtcdServer::start(&[]);
    let servers = start(&etcd, &[]);
    write_through_all(&servers, 2, |client, writer| {
        for index in 0..EACH {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s-{writer}-{index}")},
                "spec": {"type": "NodePort", "ports": [{"port": 80}]},
            });
            client.post(SERVICES, &service).expect(201);
        }
    });
    let items = servers[0].client().get(SERVICES).expect(200)["items"].take();
    let items = items.as_array().cloned().unwrap_or_default();
    for field in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        let values: BTreeSet<String> =
            items.iter().filter_map(|item| Some(item.pointer(field)?.to_string())).collect();
        let kubernetes = usize::from(field == "/spec/clusterIP");
        assert_eq!(values.len(), 2 * SERVERS * EACH + kubernetes, "{field}");
    }
    let names = |path: &str, field: &str| -> BTreeSet<String> {
        let items = servers[0].client().get(path).expect(200)["items"].take();
        let items = items.as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|item| item.pointer(field)?.as_str().map(str::to_owned)).collect()
    };
    let addresses = names("/apis/networking.k8s.io/v1/ipaddresses", "/metadata/name");
    assert_eq!(addresses, names("/api/v1/services", "/spec/clusterIP"), "each address has its service");
}

#[test]
fn a_quota_is_never_exceeded_through_several_servers() {
    const EACH: usize = 12;
    let etcd = EtcdServer::start(&[]);
    let servers = start(&etcd, &["--disable=agent,scheduler,dns"]);
    let client = servers[0].client();
    let count = |client: &Client| client.get(MAPS).expect(200)["items"].as_array().map_or(0, Vec::len);
    eventually("the CA is published", || count(client) == 1);
    let limit = SERVERS * EACH;
    let quota = json!({"metadata": {"name": "maps"}, "spec": {"hard": {"configmaps": limit.to_string()}}});
    client.post(QUOTA, &quota).expect(201);
    let used = |client: &Client| {
        client.get(format!("{QUOTA}/maps")).expect(200)["status"]["used"]["configmaps"].take()
    };
    for server in &servers {
        eventually("the quota is counted", || used(server.client()) == "1");
    }
    write_through_all(&servers, 2, |client, writer| {
        for index in 0..EACH {
            let response = client.post(MAPS, &map(&format!("m-{writer}-{index}"), ""));
            assert!(matches!(response.status, 201 | 403), "{}", response.text());
        }
    });
    // Twice as many were tried; of those that were refused, some may have been charged for a moment.
    let full = count(client);
    assert!(full <= limit, "{full} of {limit}");
    for index in 0..2 * EACH {
        client.post(MAPS, &map(&format!("rest-{index}"), ""));
    }
    assert_eq!(count(client), limit);
    assert_eq!(used(servers[1].client()), Value::from(limit.to_string()));
}

#[test]
fn a_client_sees_its_own_writes_through_all_servers() {
    let etcd = EtcdServer::start(&[]);
    let servers = start(&etcd, &[]);
    for round in 0..20 {
        let (one, other) = (servers[round % SERVERS].client(), servers[(round + 1) % SERVERS].client());
        // A namespace is there for the objects that are created in it through another server.
        let namespace = json!({"metadata": {"name": format!("n-{round}")}});
        one.post("/api/v1/namespaces", &namespace).expect(201);
        other.post(format!("/api/v1/namespaces/n-{round}/configmaps"), &map("m", "1")).expect(201);
        one.get(format!("/api/v1/namespaces/n-{round}/configmaps/m")).expect(200);
        // So is the kind that another server serves.
        let (plural, group) = (format!("things{round}"), format!("g{round}.example.com"));
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Cluster", "names": {"plural": plural, "kind": format!("Thing{round}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        one.post(definitions, &definition).expect(201);
        let path = format!("/apis/{group}/v1/{plural}");
        eventually("the kind is served", || one.get(&path).status == 200);
        other.get(&path).expect(200);
    }
}
