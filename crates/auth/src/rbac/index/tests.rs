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
fn missing_roles_are_reported() {
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
fn changes_take_effect_at_once() {
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
fn rules_of_a_binding_are_not_repeated() {
    let rbac = rbac();
    assert_eq!(rbac.rules_for(&user("jane", &["staff"]), "").rules.len(), 1);
    assert_eq!(rbac.rules_for(&user("jane", &["staff"]), "ns").rules.len(), 2);
}

/// An attack: one group very many times in a binding to a role of very many rules, in a namespace that all users use.
#[test]
fn a_subject_counts_once_however_often_it_is_named() {
    let mut rbac = Rbac::default();
    let rules: Vec<Value> = (0..2_000)
        .map(|i| value!({"verbs": ["get"], "apiGroups": [""], "resources": [(format!("r{i}"))]}))
        .collect();
    rbac.set_role("ns", "many", Some(&value!({"rules": (rules)})));
    let subjects = vec![("Group", "", "system:authenticated"); 30_000];
    rbac.set_binding("ns", "b", Some(&binding("Role", "many", &subjects)));
    let jane = user("jane", &["system:authenticated"]);
    assert_eq!(rbac.bindings(&jane, "ns").count(), 1);
    assert_eq!(rbac.rules_for(&jane, "ns").rules.len(), 2_000);
    rbac.set_binding("ns", "b", None);
    assert_eq!(rbac.bindings(&jane, "ns").count(), 0);
}

#[test]
fn the_first_of_many_subjects_is_the_reason() {
    let mut rbac = rbac();
    let names: Vec<String> = (0..1_000).map(|i| format!("u{i}")).collect();
    let mut subjects: Vec<(&str, &str, &str)> =
        names.iter().map(|name| ("User", "", name.as_str())).collect();
    subjects.extend([("Group", "", "last"), ("User", "", "joe")]);
    rbac.set_binding("ns", "m", Some(&binding("Role", "writer", &subjects)));
    let joe = user("joe", &["last"]);
    let decision =
        rbac.authorize(&Attributes { namespace: "ns", ..Attributes::resource(&joe, "update", "", "pods") });
    let Decision::Allow(why) = decision else { panic!("{decision:?}") };
    assert!(why.ends_with("to Group \"last\""), "{why}");
}
