//! Several servers on one etcd: the `kubernetes` service lists the living ones, and one of them runs the controllers.

use std::collections::BTreeSet;

use corten_e2e::eventually;
use corten_testkit::{Client, Server};
use serde_json::{Value, json};

use crate::etcd_process::EtcdServer;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Starts a server that advertises an address. A test address: nothing connects to it.
fn advertising(etcd: &EtcdServer, address: &str) -> Server {
    Server::start_with(&["--etcd-servers", &etcd.url(), "--advertise-address", address])
}

/// The addresses in the endpoints of the `kubernetes` service, with their ports.
fn listed(client: &Client) -> BTreeSet<String> {
    let subsets = client.get(ENDPOINTS).expect(200)["subsets"].take();
    let mut found = BTreeSet::new();
    for subset in subsets.as_array().into_iter().flatten() {
        for address in subset["addresses"].as_array().into_iter().flatten() {
            found.insert(format!(
                "{}:{}",
                address["ip"].as_str().unwrap_or_default(),
                subset["ports"][0]["port"]
            ));
        }
    }
    found
}

/// The same of the EndpointSlices.
fn sliced(client: &Client) -> BTreeSet<String> {
    let slices =
        client.get(format!("{SLICES}?labelSelector=kubernetes.io/service-name%3Dkubernetes")).expect(200);
    let mut found = BTreeSet::new();
    for slice in slices["items"].as_array().into_iter().flatten() {
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            let address = endpoint["addresses"][0].as_str().unwrap_or_default();
            found.insert(format!("{address}:{}", slice["ports"][0]["port"]));
        }
    }
    found
}

fn port(server: &Server) -> &str {
    server.url().rsplit(':').next().unwrap_or_default()
}

#[test]
fn the_kubernetes_service_lists_the_living_servers() {
    let etcd = EtcdServer::start(&[]);
    let mut servers: Vec<Server> =
        ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|address| advertising(&etcd, address)).into();
    let at = |server: &Server, address: &str| format!("{address}:{}", port(server));
    let all: BTreeSet<String> = servers
        .iter()
        .zip(["192.0.2.1", "192.0.2.2", "192.0.2.3"])
        .map(|(server, address)| at(server, address))
        .collect();
    for server in &servers {
        eventually("all servers are listed", || listed(server.client()) == all);
        eventually("all servers are in slices", || sliced(server.client()) == all);
    }
    // A server that stops removes its address before it ends.
    let mut third = servers.pop().expect("three servers");
    third.terminate();
    let two: BTreeSet<String> =
        all.iter().filter(|address| !address.starts_with("192.0.2.3")).cloned().collect();
    assert_eq!(listed(servers[0].client()), two);
    assert_eq!(sliced(servers[0].client()), two);
    // One that is killed is removed by the others when its lease ends.
    servers[1].kill_9();
    let one = BTreeSet::from([at(&servers[0], "192.0.2.1")]);
    eventually("the killed server is not listed", || listed(servers[0].client()) == one);
    eventually("the killed server is in no slice", || sliced(servers[0].client()) == one);
    // Nothing is written while nothing changes: a server's lease is renewed without a write.
    let version = |client: &Client| client.get(ENDPOINTS).expect(200)["metadata"]["resourceVersion"].take();
    let before = version(servers[0].client());
    // An edited object is corrected.
    let broken = json!({"subsets": [{"addresses": [{"ip": "192.0.2.77"}], "ports": [{"port": 1}]}]});
    servers[0].client().patch(ENDPOINTS, "merge", &broken).expect(200);
    eventually("the endpoints are corrected", || listed(servers[0].client()) == one);
    assert_ne!(version(servers[0].client()), before);
}

#[test]
fn servers_that_start_together_create_the_bootstrap_objects_once() {
    let etcd = EtcdServer::start(&[]);
    let servers: Vec<Server> = std::thread::scope(|scope| {
        let start = |address: &'static str| scope.spawn(|| advertising(&etcd, address));
        let starting = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(start);
        starting.into_iter().map(|server| server.join().expect("a server starts")).collect()
    });
    let client = servers[0].client();
    eventually("all servers are listed", || listed(client).len() == 3);
    let version = || client.get("/api/v1/namespaces/default").expect(200)["metadata"]["uid"].take();
    let uid = version();
    for server in &servers {
        let same = server.client().get("/api/v1/namespaces/default").expect(200)["metadata"]["uid"].take();
        assert_eq!(same, uid);
        assert!(!server.messages().contains("cannot create bootstrap objects"), "{}", server.messages());
    }
}

/// The name of the holder of a lease, and the number of its transitions.
fn holder(client: &Client, lease: &str) -> (String, i64) {
    let lease = client.get(format!("{LEASES}/{lease}"));
    if lease.status != 200 {
        return (String::new(), -1);
    }
    let spec = lease.expect(200)["spec"].take();
    let holder = spec["holderIdentity"].as_str().unwrap_or_default().to_owned();
    (holder, spec["leaseTransitions"].as_i64().unwrap_or_default())
}

fn is_of(identity: &str, server: &Server) -> bool {
    identity.contains(&format!("_{}-", server.process_id()))
}

/// Creates a Deployment and waits until its pods are bound, for which both components are needed.
fn deploy(client: &Client, name: &str) {
    let labels = json!({"app": name});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "example.com/c"}]},
            },
        },
    });
    client.post("/apis/apps/v1/namespaces/default/deployments", &deployment).expect(201);
    let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app%3D{name}");
    eventually("the pods are bound", || {
        let items = client.get(&pods).expect(200)["items"].take();
        let bound = |pod: &&Value| pod["spec"]["nodeName"].is_string();
        items.as_array().is_some_and(|pods| pods.iter().filter(bound).count() == 2)
    });
}

fn electing(etcd: &EtcdServer, more: &[&str]) -> Server {
    let url = etcd.url();
    let common = ["--etcd-servers", &url, "--disable=agent,dns", "--simulated-nodes=1"];
    Server::start_with(&[&common, more].concat())
}

#[test]
fn a_stopped_server_hands_controllers_and_scheduler_over_at_once() {
    let etcd = EtcdServer::start(&[]);
    // Nothing but a release hands these leases over during the test.
    let long = ["--leader-elect-lease-duration=10h", "--leader-elect-renew-deadline=9h"];
    let mut first = electing(&etcd, &long);
    deploy(first.client(), "before");
    let second = electing(&etcd, &long);
    deploy(second.client(), "beside");
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        let (identity, transitions) = holder(second.client(), lease);
        assert!(is_of(&identity, &first) && transitions == 0, "{lease}: {identity}");
        assert!(!second.messages().contains("acquired leader lease"));
    }
    first.terminate();
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        eventually("the second server leads", || is_of(&holder(second.client(), lease).0, &second));
    }
    deploy(second.client(), "after");
}

#[test]
fn another_server_leads_after_the_lease_of_a_killed_one() {
    let etcd = EtcdServer::start(&[]);
    let short = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    ];
    let mut first = electing(&etcd, &short);
    deploy(first.client(), "before");
    let mut second = electing(&etcd, &short);
    first.kill_9();
    for lease in ["kube-controller-manager", "kube-scheduler"] {
        eventually("the second server leads", || is_of(&holder(second.client(), lease).0, &second));
    }
    deploy(second.client(), "after");
    // A leader that cannot renew its lease stops its components, and leads again when it can.
    let led = || second.messages().matches("acquired leader lease").count();
    let before = led();
    etcd.signal("STOP");
    eventually("the leases are lost", || second.messages().matches("leader election lost").count() >= 2);
    etcd.signal("CONT");
    eventually("the server leads again", || led() >= before + 2);
    deploy(second.client(), "again");
    second.terminate();
}
