use super::*;
use corten_api::value;

fn role(verb: &str, resource: &str) -> Value {
    value!({"rules": [{"verbs": [verb], "apiGroups": [""], "resources": [resource]}]})
}

fn binding(kind: &str, role: &str, subjects: &[(&str, &str, &str)]) -> Value {
    let subject = |(kind, namespace, name): &(&str, &str, &str)| {
        let mut subject = value!({"kind": (*kind), "name": (*name)});
        if !namespace.is_empty() {
            subject.set(&["namespace"], *namespace);
        }
        subject
    };
    let subjects: Vec<Value> = subjects.iter().map(subject).collect();
    value!({"roleRef": {"kind": kind, "name": role}, "subjects": subjects})
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect(), ..User::default() }
}

fn rbac() -> Rbac {
    let mut rbac = Rbac::default();
    rbac.set_role("", "reader", Some(&role("get", "pods")));
    rbac.set_role("ns", "writer", Some(&role("update", "pods")));
    rbac.set_binding(
        "",
        "all",
        Some(&binding("ClusterRole", "reader", &[("Group", "", "staff"), ("User", "", "jane")])),
    );
    rbac.set_binding(
        "ns",
        "some",
        Some(&binding("Role", "writer", &[("User", "", "jane"), ("ServiceAccount", "", "bot")])),
    );
    rbac.set_binding(
        "ns",
        "cluster",
        Some(&binding("ClusterRole", "reader", &[("ServiceAccount", "other", "bot")])),
    );
    rbac
}

#[track_caller]
fn check(rbac: &Rbac, user: &User, verb: &str, namespace: &str, reason: &str) {
    let attributes = Attributes { namespace, ..Attributes::resource(user, verb, "", "pods") };
    let decision = rbac.authorize(&attributes);
    let expected = match reason.starts_with("RBAC: allowed") {
        true => Decision::Allow(reason.to_owned()),
        false => Decision::NoOpinion(reason.to_owned()),
    };
    assert_eq!(decision, expected, "{} {verb} in {namespace:?}", user.name);
}

#[test]
fn decisions_name_the_binding_that_allows() {
    let rbac = rbac();
    let jane = user("jane", &["staff"]);
    let group = "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"reader\" to Group \"staff\"";
    check(&rbac, &jane, "get", "", group);
    check(&rbac, &jane, "get", "anywhere", group);
    check(
        &rbac,
        &user("jane", &[]),
        "get",
        "",
        "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"reader\" to User \"jane\"",
    );
    check(
        &rbac,
        &jane,
        "update",
        "ns",
        "RBAC: allowed by RoleBinding \"some/ns\" of Role \"writer\" to User \"jane\"",
    );
    check(&rbac, &jane, "update", "", "");
    check(&rbac, &jane, "update", "other", "");
    check(&rbac, &user("joe", &[]), "get", "ns", "");
    let local = user("system:serviceaccount:ns:bot", &[]);
    check(
        &rbac,
        &local,
        "update",
        "ns",
        "RBAC: allowed by RoleBinding \"some/ns\" of Role \"writer\" to ServiceAccount \"bot/ns\"",
    );
    let foreign = user("system:serviceaccount:other:bot", &[]);
    check(
        &rbac,
        &foreign,
        "get",
        "ns",
        "RBAC: allowed by RoleBinding \"cluster/ns\" of ClusterRole \"reader\" to ServiceAccount \"bot/other\"",
    );
    check(&rbac, &foreign, "get", "", "");
    check(&rbac, &foreign, "update", "ns", "");
}

#[test]
fn missing_roles_are_told() {
    let mut rbac = rbac();
    let jane = user("jane", &[]);
    rbac.set_role("", "reader", None);
    check(&rbac, &jane, "get", "", "RBAC: clusterrole.rbac.authorization.k8s.io \"reader\" not found");
    rbac.set_role("ns", "writer", None);
    check(
        &rbac,
        &jane,
        "get",
        "ns",
        "RBAC: [clusterrole.rbac.authorization.k8s.io \"reader\" not found, role.rbac.authorization.k8s.io \"writer\" not found]",
    );
    let resolved = rbac.rules_for(&jane, "ns");
    assert!(resolved.rules.is_empty());
    assert_eq!(
        summary(resolved.missing.iter().map(|role| role.not_found_as("roles"))).unwrap(),
        "[roles.rbac.authorization.k8s.io \"reader\" not found, roles.rbac.authorization.k8s.io \"writer\" not found]"
    );
}

#[test]
fn changes_show_at_once() {
    let mut rbac = rbac();
    let jane = user("jane", &["staff"]);
    rbac.set_role("", "reader", Some(&role("list", "pods")));
    check(&rbac, &jane, "get", "", "");
    rbac.set_binding("", "all", Some(&binding("ClusterRole", "reader", &[("User", "", "joe")])));
    check(&rbac, &jane, "list", "", "");
    check(
        &rbac,
        &user("joe", &[]),
        "list",
        "",
        "RBAC: allowed by ClusterRoleBinding \"all\" of ClusterRole \"reader\" to User \"joe\"",
    );
    rbac.set_binding("", "all", None);
    check(&rbac, &user("joe", &[]), "list", "", "");
    rbac.set_binding("ns", "some", None);
    rbac.set_binding("ns", "cluster", None);
    rbac.set_role("ns", "writer", None);
    assert!(rbac.scopes.is_empty() && rbac.roles.is_empty(), "nothing is left behind");
}

#[test]
fn rules_of_a_binding_come_once() {
    let rbac = rbac();
    assert_eq!(rbac.rules_for(&user("jane", &["staff"]), "").rules.len(), 1);
    assert_eq!(rbac.rules_for(&user("jane", &["staff"]), "ns").rules.len(), 2);
}
