//! The decisions of a real API server with the bootstrap policy, for a matrix of users and requests.

use std::collections::BTreeMap;

use corten_api::{Value, meta, value};
use corten_auth::node::{self, Graph};
use corten_auth::rbac::{Rbac, Rule, aggregate_all, bootstrap_policy, node_rules};
use corten_auth::{AUTHENTICATED, Attributes, MASTERS, UNAUTHENTICATED, User, service_account};

/// The bootstrap policy and the bindings of the table.
fn cluster() -> Rbac {
    let policy = bootstrap_policy().expect("the bootstrap policy is good");
    let mut roles: BTreeMap<String, Value> =
        policy.cluster_roles.into_iter().map(|role| (meta::name(&role).to_owned(), role)).collect();
    aggregate_all(&mut roles);
    let mut rbac = Rbac::default();
    for (name, role) in &roles {
        rbac.set_role("", name, Some(role));
    }
    for role in &policy.roles {
        rbac.set_role(meta::namespace(role), meta::name(role), Some(role));
    }
    for binding in policy.cluster_role_bindings.iter().chain(&policy.role_bindings) {
        rbac.set_binding(meta::namespace(binding), meta::name(binding), Some(binding));
    }
    let bindings = [
        ("default", "ann", "admin"),
        ("default", "ed", "edit"),
        ("default", "vi", "view"),
        ("", "via", "view"),
        ("", "root", "cluster-admin"),
    ];
    for (namespace, user, role) in bindings {
        let binding = value!({
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        });
        rbac.set_binding(namespace, user, Some(&binding));
    }
    rbac
}

fn graph() -> Graph {
    let mut graph = Graph::default();
    let pod = value!({"spec": {
        "nodeName": "n1",
        "serviceAccountName": "sa1",
        "volumes": [
            {"name": "s", "secret": {"secretName": "s1"}},
            {"name": "m", "configMap": {"name": "m1"}},
        ],
    }});
    graph.set_pod("default", "matrix", Some(&pod));
    graph
}

fn user(name: &str) -> User {
    let mut groups = match name {
        "boss" => vec![MASTERS.to_owned()],
        name if name.starts_with("system:node:") => vec![node::NODES.to_owned()],
        name => {
            service_account::split_user_name(name).map_or(Vec::new(), |(ns, _)| service_account::groups(ns))
        }
    };
    groups.push(if name == "system:anonymous" { UNAUTHENTICATED } else { AUTHENTICATED }.to_owned());
    User { name: name.into(), groups, ..User::default() }
}

/// The server's decision with the modes Node and RBAC.
fn is_allowed(rbac: &Rbac, graph: &Graph, shared: &[Rule], asked: &Attributes<'_>) -> bool {
    asked.user.is_in(MASTERS)
        || node::authorize(asked, shared, || graph).is_allowed()
        || rbac.authorize(asked).is_allowed()
}

#[test]
fn decisions_equal_upstreams() {
    let table = include_str!("decisions.tsv");
    let (rbac, graph, shared) = (cluster(), graph(), node_rules());
    let mut lines = table.lines().filter(|line| !line.starts_with('#'));
    let users: Vec<&str> = lines.next().unwrap().split(['\t', ' ']).skip(1).collect();
    let (mut decisions, mut wrong) = (0, Vec::new());
    for line in lines {
        let columns: Vec<&str> = line.split('\t').map(|c| if c == "-" { "" } else { c }).collect();
        let [verb, group, resource, namespace, name, allowed] = columns[..] else { panic!("{line}") };
        let allowed: Vec<&str> = allowed.split(' ').collect();
        for user_name in &users {
            let user = user(user_name);
            let (kind, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let group = if group == "core" { "" } else { group };
            let asked = match resource.starts_with('/') {
                true => Attributes::path(&user, verb, resource),
                false => Attributes {
                    namespace,
                    subresource,
                    name,
                    ..Attributes::resource(&user, verb, group, kind)
                },
            };
            decisions += 1;
            if is_allowed(&rbac, &graph, &shared, &asked) != allowed.contains(user_name) {
                wrong.push(format!("{user_name}: {line}"));
            }
        }
    }
    assert!(decisions > 1000, "only {decisions} decisions");
    assert!(wrong.is_empty(), "{} of {decisions} decisions:\n{}", wrong.len(), wrong.join("\n"));
}
