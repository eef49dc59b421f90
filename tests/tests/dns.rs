//! DNS in pods: real containers query the DNS server of their node.

use corten_e2e::{Switch, eventually, pods};
use corten_testkit::{Client, DataDirectory, Server};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

fn start() -> Server {
    let directory = DataDirectory::new();
    pods::import(directory.path());
    let server = Server::try_start(
        &directory,
        &[
            "--node-name",
            "names",
            "--pod-network",
            "built-in",
            "--kubelet-port",
            "0",
            "--kubelet-arg",
            "eviction-hard=memory.available<1Mi",
        ],
    )
    .unwrap_or_else(|e| panic!("{e:?}"));
    let client = server.client();
    eventually("the default account", || {
        client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
    });
    server
}

fn pod(name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
        }]},
    })
}

fn get(client: &Client, name: &str) -> Value {
    client.get(format!("{PODS}/{name}")).expect(200)
}

fn address(client: &Client, name: &str) -> String {
    eventually(&format!("{name} has an address"), || get(client, name)["status"]["podIP"].is_string());
    get(client, name)["status"]["podIP"].as_str().expect("it is text").to_owned()
}

/// The log of a pod with this name and script until it terminated.
fn log_of(client: &Client, name: &str, script: &str) -> String {
    client.post(PODS, &pod(name, script)).expect_status(201);
    eventually(&format!("{name} has ended"), || {
        matches!(get(client, name)["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    });
    let pod = get(client, name);
    let uid = pod["metadata"]["uid"].as_str().expect("pods have uids");
    let path = format!("/var/log/pods/default_{name}_{uid}/main/0.log");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn pods_find_each_other_by_name() {
    let switch = Switch::new();
    switch.machine(1).run(|| {
        let server = start();
        let client = server.client();
        let mut member = pod("db-0", "sleep 600");
        member["metadata"]["labels"] = json!({"app": "db"});
        member["spec"]["hostname"] = json!("db-0");
        member["spec"]["subdomain"] = json!("db");
        client.post(PODS, &member).expect_status(201);
        let ports = json!([{"name": "sql", "port": 5432}]);
        for (name, spec) in [
            ("web", json!({"selector": {"app": "db"}, "ports": ports, "clusterIP": "10.96.3.7"})),
            ("db", json!({"selector": {"app": "db"}, "ports": ports, "clusterIP": "None"})),
            ("alias", json!({"type": "ExternalName", "externalName": "web.default.svc.cluster.local"})),
        ] {
            let service =
                json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
            client.post(SERVICES, &service).expect_status(201);
        }
        let db = address(client, "db-0");
        let script =
            "until busybox nslookup db-0.db.default.svc.cluster.local >/dev/null 2>&1; do sleep 0.1; done
            cat /etc/resolv.conf
            for name in web db db-0.db alias; do busybox nslookup $name.default.svc.cluster.local; done
            busybox nslookup -type=srv _sql._tcp.db.default.svc.cluster.local
            busybox nslookup missing.default.svc.cluster.local
            wget -q -O - http://web:1/ 2>&1
            wget -q -O - http://10.96.0.10:9153/metrics | tail -n 3";
        let log = log_of(client, "asker", script);
        for line in [
            "nameserver 10.96.0.10".to_owned(),
            "search default.svc.cluster.local svc.cluster.local cluster.local".to_owned(),
            "Address: 10.96.3.7".to_owned(),
            "db-0.db.default.svc.cluster.local".to_owned(),
            format!("Address: {db}"),
            "canonical name = web.default.svc.cluster.local".to_owned(),
            "service = 0 100 5432 db-0.db.default.svc.cluster.local".to_owned(),
            "can't find missing.default.svc.cluster.local: NXDOMAIN".to_owned(),
            "coredns_build_info".to_owned(),
        ] {
            assert!(log.contains(&line), "{line} in\n{log}");
        }
        assert!(!log.contains("bad address"), "names are found by their first part:\n{log}");
        pods::terminate_all(client);
    });
}
