//! Traffic during faults.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use corten_e2e::{ECHO, PORT, eventually};
use serde_json::{Value, json};

use crate::cluster::{Cluster, DNS, PODS, SERVICES, node_name};

/// Time without a server: longer than the timeouts of caches and leases.
const AWAY: Duration = Duration::from_secs(8);

/// In front of the pods of group 1: `p9` on the first node, `p1` on the second, `p5` on the third.
fn service(cluster: &Cluster<'_>) -> (SocketAddr, SocketAddr) {
    let ports = json!([
        {"name": "ask", "port": 80, "targetPort": PORT}, {"name": "echo", "port": 81, "targetPort": ECHO},
    ]);
    let made = cluster.service("lasting", &json!({"selector": {"group": "g1"}, "ports": ports}));
    let address = made["spec"]["clusterIP"].as_str().and_then(|ip| ip.parse().ok()).expect("an address");
    (SocketAddr::new(address, 80), SocketAddr::new(address, 81))
}

const ALL: [&str; 3] = ["p1", "p5", "p9"];

/// An agent is killed under traffic and replaced: connections survive, and new ones succeed all the time.
pub(crate) fn agent_is_killed(cluster: &mut Cluster<'_>) {
    let (ask, echo) = service(cluster);
    for node in cluster.nodes {
        cluster.answer(node, ask, &ALL);
    }
    // `p2` and `p5` are on the third node: its own pods connect out, and others connect to them.
    let mut lasting: Vec<_> =
        [2, 2, 2, 0, 0, 0, 1, 1, 1].iter().map(|n| cluster.pods[*n].inside.connect(echo)).collect();
    let before = containers(cluster);
    cluster.replace_agent(2, "nftables");
    let started = Instant::now();
    let mut works = |cluster: &Cluster<'_>| {
        lasting.iter_mut().for_each(corten_e2e::LongConnection::works);
        for n in [0, 1, 2] {
            cluster.pods[n].inside.ask(ask).expect("services go on");
        }
    };
    while started.elapsed() < Duration::from_secs(3) {
        works(cluster);
    }
    eventually("the node is ready", || cluster.ready(2) == "True");
    works(cluster);
    assert_eq!(containers(cluster), before, "pods are the same as before");
    cluster.client().delete(format!("{SERVICES}/lasting")).expect_status(200);
}

fn containers(cluster: &Cluster<'_>) -> Vec<Value> {
    let pods = cluster.client().get(PODS).expect(200)["items"].as_array().cloned().unwrap_or_default();
    pods.iter().map(|pod| pod["status"]["containerStatuses"][0]["containerID"].clone()).collect()
}

/// The server is killed and stays away: traffic and DNS are not affected. When it is back, so is everything else.
pub(crate) fn server_is_away(cluster: &mut Cluster<'_>) {
    let (ask, echo) = service(cluster);
    let name = "lasting.default.svc.cluster.local";
    for n in [0, 1, 2] {
        cluster.answer(&cluster.pods[n].inside, ask, &ALL);
        eventually("the name is known", || {
            cluster.pods[n].inside.resolve(DNS, name, false).is_ok_and(|found| found == [ask.ip()])
        });
    }
    let mut lasting: Vec<_> = [1, 2].iter().map(|n| cluster.pods[*n].inside.connect(echo)).collect();
    cluster.kill_server();
    let started = Instant::now();
    while started.elapsed() < AWAY {
        lasting.iter_mut().for_each(corten_e2e::LongConnection::works);
        for n in [1, 2] {
            let pod = &cluster.pods[n];
            pod.inside.ask(ask).expect("services go on");
            assert_eq!(pod.inside.resolve(DNS, name, false).expect("names go on"), [ask.ip()]);
            assert!(!pod.inside.is_blocked_from(SocketAddr::new(cluster.pods[3 - n].inside.address, PORT)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    cluster.replace_server("iptables");
    for node in 0..3 {
        let before = cluster.last_heard(node);
        eventually(&format!("node {node} is heard of"), || cluster.last_heard(node) != before);
        eventually(&format!("node {node} is ready"), || {
            cluster.ready(node) == "True" && !cluster.is_tainted(node)
        });
    }
    cluster.answer(&cluster.pods[0].inside, ask, &ALL);
    cluster.client().delete(format!("{SERVICES}/lasting")).expect_status(200);
}

/// A node is disconnected: it is tainted, pods that tolerate that for a while are evicted after it, services use the
/// other
/// endpoints; and when it is back, the evicted pods terminate and the others have kept running.
pub(crate) fn node_is_cut_off(cluster: &mut Cluster<'_>) {
    let (ask, _) = service(cluster);
    cluster.answer(&cluster.nodes[0], ask, &ALL);
    let get = |name: &str| cluster.client().get(format!("{PODS}/{name}"));
    let mut brief = crate::cluster::pod(14, "exec sleep 3600");
    brief["spec"]["tolerations"] = json!([{
        "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2,
    }]);
    cluster.client().post(PODS, &brief).expect_status(201);
    cluster.running(14);
    cluster.switch.set_connected(&cluster.nodes[2], false);
    eventually("the node is tainted", || cluster.ready(2) == "Unknown");
    eventually("it is tainted", || {
        let node = cluster.client().get(format!("/api/v1/nodes/{}", node_name(2))).expect(200);
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let of = |effect: &str| {
            let unreachable = |taint: &&Value| taint["key"] == "node.kubernetes.io/unreachable";
            taints.iter().filter(unreachable).any(|taint| taint["effect"] == effect)
        };
        of("NoSchedule") && of("NoExecute")
    });
    eventually("services use the remaining endpoints", || {
        (0..20).all(|_| cluster.nodes[0].ask(ask).is_ok_and(|answer| answer.who != "p5"))
    });
    eventually("pods without a toleration are evicted", || {
        get("p14").expect(200)["metadata"]["deletionTimestamp"].is_string()
    });
    assert!(
        get("p5").expect(200)["metadata"]["deletionTimestamp"].is_null(),
        "what tolerates it for good is not"
    );
    cluster.switch.set_connected(&cluster.nodes[2], true);
    eventually("the taint is removed", || cluster.ready(2) == "True");
    eventually("what was evicted ends", || get("p14").status == 404);
    cluster.answer(&cluster.nodes[0], ask, &ALL);
    assert_eq!(get("p5").expect(200)["status"]["phase"], "Running");
    cluster.client().delete(format!("{SERVICES}/lasting")).expect_status(200);
}
