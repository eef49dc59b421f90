//! Every feature of services, from every node, from pods and from outside.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use corten_e2e::{Machine, PORT, eventually};
use serde_json::{Value, json};

use crate::cluster::{Cluster, DNS, PODS, SERVICES, pod};

/// An address that is routed to nodes, as by a load balancer.
const BALANCED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 10));
const EXTERNAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 20));

pub(crate) fn all(cluster: &Cluster<'_>) {
    const FEATURES: [fn(&Cluster<'_>) -> &'static str; 10] = [
        cluster_ips,
        node_ports,
        external_policy,
        internal_policy,
        affinity,
        load_balancers,
        external_ips,
        datagrams,
        same_node,
        ending_endpoints,
    ];
    // Most of each test is waiting.
    std::thread::scope(|scope| {
        for feature in FEATURES {
            scope.spawn(move || {
                let name = feature(cluster);
                cluster.client().delete(format!("{SERVICES}/{name}")).expect_status(200);
            });
        }
    });
}

fn at(service: &Value) -> SocketAddr {
    let address = service["spec"]["clusterIP"].as_str().and_then(|ip| ip.parse().ok()).expect("an address");
    SocketAddr::new(address, 80)
}

fn port(value: &Value) -> u16 {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port")
}

fn node_port(node: &Machine, service: &Value) -> SocketAddr {
    SocketAddr::new(node.address, port(&service["spec"]["ports"][0]["nodePort"]))
}

/// In front of the pods of group 0: `p0` on the first node, `p4` on the second, `p8` on the third.
fn spec(more: &Value) -> Value {
    let mut spec = json!({"selector": {"group": "g0"}, "ports": [{"port": 80, "targetPort": PORT}]});
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    spec
}

const ALL: [&str; 3] = ["p0", "p4", "p8"];

fn cluster_ips(cluster: &Cluster<'_>) -> &'static str {
    let to = at(&cluster.service("plain", &spec(&json!({}))));
    for node in cluster.nodes {
        cluster.answer(node, to, &ALL);
    }
    // Pods keep their source addresses, on any node, and reach themselves through their own service.
    for pod in &cluster.pods[..3] {
        cluster.answer(&pod.inside, to, &ALL);
        let answers = (0..30).map(|_| pod.inside.ask(to).expect("a pod answers"));
        for answer in answers.filter(|answer| answer.who != pod.name) {
            assert_eq!(answer.seen, pod.inside.address, "{} is seen by {}", pod.name, answer.who);
        }
        let name = "plain.default.svc.cluster.local";
        let found = pod.inside.resolve(DNS, name, false).expect("names are answered");
        assert_eq!(found, [to.ip()], "{} looks up {name}", pod.name);
    }
    "plain"
}

fn node_ports(cluster: &Cluster<'_>) -> &'static str {
    let made = cluster.service("ported", &spec(&json!({"type": "NodePort"})));
    for node in cluster.nodes {
        cluster.answer(&cluster.outside[0], node_port(node, &made), &ALL);
        cluster.answer(&cluster.pods[1].inside, node_port(node, &made), &ALL);
    }
    "ported"
}

/// External clients keep their addresses, and only nodes with pods answer.
fn external_policy(cluster: &Cluster<'_>) -> &'static str {
    let more = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": {"app": "p0"}});
    let made = cluster.service("near", &spec(&more));
    let outside = &cluster.outside[0];
    let [with, without, _] = cluster.nodes;
    cluster.answer(outside, node_port(with, &made), &["p0"]);
    assert_eq!(outside.ask(node_port(with, &made)).expect("an answer").seen, outside.address);
    eventually("nodes without pods do not answer", || outside.is_blocked_from(node_port(without, &made)));
    cluster.answer(&cluster.pods[1].inside, node_port(without, &made), &["p0"]);
    let health = port(&made["spec"]["healthCheckNodePort"]);
    for (node, said) in [(with, "HTTP/1.0 200 OK"), (without, "HTTP/1.0 503 Service Unavailable")] {
        let to = SocketAddr::new(node.address, health);
        eventually(&format!("{} says {said}", node.address), || {
            outside.http(to).is_ok_and(|line| line.replace("/1.1", "/1.0") == said)
        });
    }
    "near"
}

fn internal_policy(cluster: &Cluster<'_>) -> &'static str {
    let to = at(&cluster.service("within", &spec(&json!({"internalTrafficPolicy": "Local"}))));
    for (pod, name) in cluster.pods[..3].iter().zip(["p0", "p4", "p8"]) {
        cluster.answer(&pod.inside, to, &[name]);
    }
    let only_first = json!({"spec": {"selector": {"group": "g0", "app": "p0"}}});
    cluster.client().patch(format!("{SERVICES}/within"), "merge", &only_first).expect_status(200);
    eventually("no pod answers on another node", || cluster.pods[1].inside.is_blocked_from(to));
    cluster.answer(&cluster.pods[3].inside, to, &["p0"]);
    "within"
}

fn affinity(cluster: &Cluster<'_>) -> &'static str {
    let remembered = json!({"clientIP": {"timeoutSeconds": 1}});
    let more = json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": remembered});
    let to = at(&cluster.service("faithful", &spec(&more)));
    let client = &cluster.pods[1].inside;
    eventually("a pod answers", || client.ask(to).is_ok());
    let ask = || client.ask(to).expect("an answer").who;
    let mut seen = std::collections::BTreeSet::new();
    eventually("clients are forgotten in time", || {
        let first = ask();
        assert!((0..10).all(|_| ask() == first), "the same pod answers the same client");
        seen.insert(first);
        std::thread::sleep(Duration::from_millis(1500));
        seen.len() > 1
    });
    "faithful"
}

fn load_balancers(cluster: &Cluster<'_>) -> &'static str {
    let [friend, stranger] = &cluster.outside;
    let more =
        json!({"type": "LoadBalancer", "loadBalancerSourceRanges": [format!("{}/32", friend.address)]});
    cluster.service("balanced", &spec(&more));
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": BALANCED.to_string()}]}}});
    cluster.client().patch(format!("{SERVICES}/balanced/status"), "merge", &status).expect_status(200);
    let to = SocketAddr::new(BALANCED, 80);
    for machine in &cluster.outside {
        machine.route(BALANCED, cluster.nodes[1].address);
    }
    cluster.answer(friend, to, &ALL);
    assert!(stranger.is_blocked_from(to), "only some may come");
    "balanced"
}

fn external_ips(cluster: &Cluster<'_>) -> &'static str {
    cluster.service("external", &spec(&json!({"externalIPs": [EXTERNAL.to_string()]})));
    let outside = &cluster.outside[0];
    outside.route(EXTERNAL, cluster.nodes[2].address);
    cluster.answer(outside, SocketAddr::new(EXTERNAL, 80), &ALL);
    cluster.answer(&cluster.pods[1].inside, SocketAddr::new(EXTERNAL, 80), &ALL);
    "external"
}

fn datagrams(cluster: &Cluster<'_>) -> &'static str {
    let ports = json!([{"port": 80, "targetPort": PORT, "protocol": "UDP"}]);
    let made = cluster.service("datagrams", &spec(&json!({"ports": ports, "type": "NodePort"})));
    for (from, to) in [
        (&cluster.pods[2].inside, at(&made)),
        (&cluster.nodes[0], at(&made)),
        (&cluster.outside[0], node_port(&cluster.nodes[1], &made)),
    ] {
        let mut seen = std::collections::BTreeSet::new();
        eventually(&format!("all answer datagrams at {to}"), || {
            seen.extend(from.ask_udp(to).map(|answer| answer.who));
            seen.iter().eq(ALL.iter())
        });
    }
    "datagrams"
}

fn same_node(cluster: &Cluster<'_>) -> &'static str {
    let to = at(&cluster.service("neighbours", &spec(&json!({"trafficDistribution": "PreferSameNode"}))));
    for (pod, name) in cluster.pods[..3].iter().zip(["p0", "p4", "p8"]) {
        cluster.answer(&pod.inside, to, &[name]);
    }
    "neighbours"
}

/// The last pod of a service answers until it has terminated; while there is another, a terminating one gets no new
/// connections.
fn ending_endpoints(cluster: &Cluster<'_>) -> &'static str {
    let slow = "trap '' TERM; while :; do sleep 0.1; done";
    for n in [12, 13] {
        let mut manifest = pod(n, slow);
        manifest["metadata"]["labels"] = json!({"ending": "soon"});
        cluster.client().post(PODS, &manifest).expect_status(201);
    }
    let ending = [cluster.running(12), cluster.running(13)];
    let to = at(&cluster.service("ending", &spec(&json!({"selector": {"ending": "soon"}}))));
    let outside = &cluster.nodes[2];
    cluster.answer(outside, to, &["p12", "p13"]);
    let end = |pod: &str, seconds: u32| {
        let path = format!("{PODS}/{pod}?gracePeriodSeconds={seconds}");
        cluster.client().delete(path).expect_status(200);
    };
    end(&ending[0].name, 60);
    cluster.answer(outside, to, &["p13"]);
    end(&ending[1].name, 60);
    cluster.answer(outside, to, &["p12", "p13"]);
    ending.iter().for_each(|pod| end(&pod.name, 0));
    eventually("no pod answers any more", || outside.ask(to).is_err());
    "ending"
}
