//! Models of policies, as text.

use std::sync::Arc;

use corten_api::{Value, value};
use corten_client::{Change, Object};

use super::*;

fn change(object: &Value) -> Change {
    Change { old: None, new: Some(Arc::new(Object::of(object))) }
}

/// Namespaces `n` (team=a) and `m` (team=b); pods web, db and far in `n`, other in `m`; far is on another node.
fn inputs(policies: &[(&str, Value)]) -> Inputs {
    let mut inputs = Inputs::default();
    for (name, team) in [("n", "a"), ("m", "b")] {
        inputs.namespace(&change(&value!({"metadata": {"name": (name), "labels": {"team": (team)}}})));
    }
    for (namespace, name, node, ip) in [
        ("n", "web", "here", "10.0.0.1"),
        ("n", "db", "here", "10.0.0.2"),
        ("n", "far", "there", "10.0.1.1"),
        ("m", "other", "here", "10.0.0.3"),
    ] {
        inputs.pod(&change(&value!({
            "metadata": {"namespace": (namespace), "name": (name), "labels": {"app": (name)}},
            "spec": {"nodeName": (node), "containers": [
                {"ports": [{"name": "http", "containerPort": (if name == "web" { 8080 } else { 80 })}]},
            ]},
            "status": {"phase": "Running", "podIPs": [{"ip": (ip)}, {"ip": (format!("fd00::{ip}"))}]},
        })));
    }
    for (name, spec) in policies {
        let object = value!({"metadata": {"namespace": "n", "name": (*name)}, "spec": (spec.clone())});
        inputs.policy(&change(&object));
    }
    inputs
}

fn shown(model: &Model) -> String {
    let mut out = String::new();
    for (map, isolated) in [("egress", &model.egress), ("ingress", &model.ingress)] {
        isolated.iter().for_each(|(address, chain)| out += &format!("{map} {address}: {chain}\n"));
    }
    for (name, chain) in &model.chains {
        out += &format!("{name}:\n");
        chain.clauses.iter().for_each(|clause| out += &format!("  {clause}\n"));
    }
    for (name, addresses) in &model.addresses {
        let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        out += &format!("@{name}: {}\n", addresses.join(" "));
    }
    for (name, endpoints) in &model.endpoints {
        let endpoint =
            |endpoint: &Endpoint| format!("{} {} {}", endpoint.address, endpoint.protocol, endpoint.port);
        let endpoints: Vec<String> = endpoints.iter().map(endpoint).collect();
        out += &format!("@{name}: {}\n", endpoints.join(", "));
    }
    out
}

#[track_caller]
fn check(policies: &[(&str, Value)], expected: &[&str]) {
    let model = model(&inputs(policies), "here", true);
    assert_eq!(shown(&model).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn without_policies_no_pod_is_isolated() {
    check(&[], &[]);
}

#[test]
fn a_policy_without_rules_drops_everything() {
    check(
        &[(
            "deny",
            value!({"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress", "Egress"]}),
        )],
        &[
            "egress 10.0.0.1: isolated-egress-n/deny",
            "ingress 10.0.0.1: isolated-ingress-n/deny",
            "egress-n/deny:",
            "ingress-n/deny:",
            "isolated-egress-n/deny:",
            "  ask egress-n/deny",
            "  drop",
            "isolated-ingress-n/deny:",
            "  ask ingress-n/deny",
            "  drop",
        ],
    );
}

#[test]
fn peers_are_pods_of_the_namespace_or_of_selected_namespaces_and_blocks() {
    let web = value!({"matchLabels": {"app": "web"}});
    check(
        &[(
            "p",
            value!({"podSelector": (web), "ingress": [{"from": [
                {"podSelector": {}},
                {"namespaceSelector": {"matchLabels": {"team": "b"}}},
                {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.7/32"]}},
                {"ipBlock": {"cidr": "2001:db8::/32"}},
            ]}]}),
        )],
        &[
            "ingress 10.0.0.1: isolated-ingress-n/p",
            "ingress-n/p:",
            "  @peers-0-ingress-n/p allow",
            "  192.0.2.0/24 but 192.0.2.7/32 allow",
            "isolated-ingress-n/p:",
            "  ask ingress-n/p",
            "  drop",
            "@peers-0-ingress-n/p: 10.0.0.1 10.0.0.2 10.0.0.3 10.0.1.1",
        ],
    );
}

#[test]
fn both_selectors_of_a_peer_have_to_match() {
    let peer = value!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "other"}}});
    check(
        &[("p", value!({"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": [(peer)]}]}))],
        &[
            "ingress 10.0.0.2: isolated-ingress-n/p",
            "ingress-n/p:",
            "  @peers-0-ingress-n/p allow",
            "isolated-ingress-n/p:",
            "  ask ingress-n/p",
            "  drop",
            "@peers-0-ingress-n/p: 10.0.0.3",
        ],
    );
}

#[test]
fn pods_of_several_policies_jump_to_each() {
    let web = value!({"matchLabels": {"app": "web"}});
    check(
        &[
            ("a", value!({"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]})),
            (
                "b",
                value!({"podSelector": (web), "ingress": [{"ports": [{"port": 90, "endPort": 99, "protocol": "UDP"}]}]}),
            ),
        ],
        &[
            "ingress 10.0.0.1: isolated-ingress-n/a,n/b",
            "ingress 10.0.0.2: isolated-ingress-n/a",
            "ingress-n/a:",
            "  TCP 80 allow",
            "ingress-n/b:",
            "  UDP 90-99 allow",
            "isolated-ingress-n/a:",
            "  ask ingress-n/a",
            "  drop",
            "isolated-ingress-n/a,n/b:",
            "  ask ingress-n/a",
            "  ask ingress-n/b",
            "  drop",
        ],
    );
}

#[test]
fn a_named_port_is_that_of_the_destination_pod() {
    let all = value!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": "http"}]}],
        "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "far"}}}], "ports": [{"port": "http"}]}]});
    check(
        &[("p", all)],
        &[
            "egress 10.0.0.1: isolated-egress-n/p",
            "egress 10.0.0.2: isolated-egress-n/p",
            "ingress 10.0.0.1: isolated-ingress-n/p",
            "ingress 10.0.0.2: isolated-ingress-n/p",
            "egress-n/p:",
            "  at @ports-0-egress-n/p allow",
            "ingress-n/p:",
            "  0.0.0.0/0 at @ports-0-ingress-n/p allow",
            "isolated-egress-n/p:",
            "  ask egress-n/p",
            "  drop",
            "isolated-ingress-n/p:",
            "  ask ingress-n/p",
            "  drop",
            "@ports-0-egress-n/p: 10.0.1.1 TCP 80",
            "@ports-0-ingress-n/p: 10.0.0.1 TCP 8080, 10.0.0.2 TCP 80",
        ],
    );
}

#[test]
fn each_family_has_its_own_addresses() {
    let inputs = inputs(&[(
        "p",
        value!({"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [
            {"podSelector": {"matchLabels": {"app": "db"}}}, {"ipBlock": {"cidr": "10.0.0.0/8"}},
        ]}]}),
    )]);
    let model = model(&inputs, "here", false);
    assert_eq!(
        shown(&model).lines().collect::<Vec<_>>(),
        [
            "ingress fd00::a00:1: isolated-ingress-n/p",
            "ingress-n/p:",
            "  @peers-0-ingress-n/p allow",
            "isolated-ingress-n/p:",
            "  ask ingress-n/p",
            "  drop",
            "@peers-0-ingress-n/p: fd00::a00:2",
        ]
    );
}

#[test]
fn pods_of_other_nodes_are_not_isolated_here() {
    let policies = [("p", value!({"podSelector": {"matchLabels": {"app": "far"}}}))];
    assert_eq!(model(&inputs(&policies), "here", true), Model::default());
    assert_eq!(model(&inputs(&policies), "there", true).ingress.len(), 1);
}

#[test]
fn long_policies_have_few_clauses() {
    const MANY: usize = 3000;
    let blocks: Vec<Value> = (0..MANY)
        .map(|i| value!({"ipBlock": {"cidr": (format!("10.{}.{}.0/24", i / 250, i % 250))}}))
        .collect();
    let ports: Vec<Value> = (1..=MANY).map(|port| value!({"port": (port as i64)})).collect();
    let except: Vec<Value> = (0..200).map(|i| Value::from(format!("10.0.{i}.0/24"))).collect();
    let spec = value!({"podSelector": {}, "ingress": [
        {"from": (blocks), "ports": (ports)},
        {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": (except)}}]},
    ]});
    let model = model(&inputs(&[("p", spec)]), "here", true);
    let clauses = model.chains.values().flat_map(|chain| &chain.clauses);
    assert!(clauses.clone().count() < 3 * MANY);
    for clause in clauses {
        if let Who::Within { except, .. } = &clause.who {
            assert!(except.len() <= MAX_EXCEPTIONS, "{clause}");
        }
    }
    let chain =
        |name: &str| -> Vec<String> { model.chains[name].clauses.iter().map(Clause::to_string).collect() };
    let policy = chain("ingress-n/p");
    assert_eq!((policy.len(), &*policy[0]), (MANY + 1, "TCP 1 ask sides-0-ingress-n/p"));
    assert_eq!(policy[MANY], "10.0.0.0/8 ask except-1-0-ingress-n/p");
    assert_eq!(chain("sides-0-ingress-n/p")[..2], ["10.0.0.0/24 allow", "10.0.1.0/24 allow"]);
    let excepted = chain("except-1-0-ingress-n/p");
    assert_eq!((&*excepted[0], &*excepted[200]), ("10.0.0.0/24 leave", "allow"));
}
