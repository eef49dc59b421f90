//! The bootstrap roles and bindings, from a table.

use corten_api::{Map, Value, value};

use super::GROUP;
use super::rule::{Rule, rules_of};

const TABLE: &str = include_str!("../../policy/bootstrap.policy");
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// The annotation that allows or forbids reconciliation of an object.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The bootstrap roles and bindings, each list in the order of creation.
#[derive(Debug, Default)]
pub struct BootstrapPolicy {
    pub cluster_roles: Vec<Value>,
    pub cluster_role_bindings: Vec<Value>,
    pub roles: Vec<Value>,
    pub role_bindings: Vec<Value>,
}

/// Parses the table; an error names its line.
pub fn bootstrap_policy() -> Result<BootstrapPolicy, String> {
    let mut policy = BootstrapPolicy::default();
    // The role whose rules are being parsed.
    let mut role: Option<Value> = None;
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let unfit = || format!("the bootstrap policy has a line that says nothing: {line}");
        if let Some(text) = line.strip_prefix("  ") {
            let rule = read_rule(text).ok_or_else(unfit)?;
            role.as_mut().ok_or_else(unfit)?.make_object().entry("rules").make_array().push(rule.to_value());
            continue;
        }
        policy.extend(role.take());
        let mut words = line.split(' ');
        let (kind, name) = (words.next().unwrap_or_default(), words.next().ok_or_else(unfit)?);
        match kind {
            "ClusterRole" | "Role" => role = Some(read_role(kind, name, words).ok_or_else(unfit)?),
            "ClusterRoleBinding" | "RoleBinding" => {
                policy.extend(Some(read_binding(kind, name, words).ok_or_else(unfit)?));
            }
            _ => return Err(unfit()),
        }
    }
    policy.extend(role);
    Ok(policy)
}

/// The rules that all nodes share: those of `system:node`.
pub fn node_rules() -> Vec<Rule> {
    let policy = bootstrap_policy().unwrap_or_default();
    let role = policy.cluster_roles.iter().find(|role| corten_api::meta::name(role) == "system:node");
    role.map(rules_of).unwrap_or_default()
}

impl BootstrapPolicy {
    fn extend(&mut self, object: Option<Value>) {
        let Some(object) = object else { return };
        match corten_api::meta::kind(&object) {
            "ClusterRole" => self.cluster_roles.push(object),
            "ClusterRoleBinding" => self.cluster_role_bindings.push(object),
            "Role" => self.roles.push(object),
            _ => self.role_bindings.push(object),
        }
    }
}

fn read_rule(text: &str) -> Option<Rule> {
    let list = |word: &str| word.split(',').map(|w| if w == "core" { "" } else { w }.into()).collect();
    let words: Vec<&str> = text.split(' ').collect();
    let resource = |verbs, groups, resources| Rule {
        verbs: list(verbs),
        api_groups: list(groups),
        resources: list(resources),
        ..Rule::default()
    };
    Some(match words.as_slice() {
        [verbs, paths] => Rule { verbs: list(verbs), non_resource_urls: list(paths), ..Rule::default() },
        [verbs, groups, resources] => resource(verbs, groups, resources),
        [verbs, groups, resources, names] => {
            Rule { resource_names: list(names), ..resource(verbs, groups, resources) }
        }
        _ => return None,
    })
}

fn object(kind: &str, name: &str) -> Value {
    let mut object = value!({
        "kind": kind,
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
    });
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    object.set(&["metadata", "name"], name);
    object.set(&["metadata", "annotations", AUTO_UPDATE], "true");
    if !namespace.is_empty() {
        object.set(&["metadata", "namespace"], namespace);
    }
    object
}

fn read_role<'a>(kind: &str, name: &str, words: impl Iterator<Item = &'a str>) -> Option<Value> {
    let mut role = object(kind, name);
    for word in words {
        if let Some(target) = word.strip_prefix("to:") {
            role.set(&["metadata", "labels", &format!("{AGGREGATE}{target}")], "true");
        } else {
            let source = word.strip_prefix("from:")?;
            let mut selector = Value::object();
            selector.set(&["matchLabels", &format!("{AGGREGATE}{source}")], "true");
            role.set(&["aggregationRule", "clusterRoleSelectors"], vec![selector]);
        }
    }
    Some(role)
}

fn read_binding<'a>(kind: &str, name: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Value> {
    let mut binding = object(kind, name);
    let role_kind = kind.strip_suffix("Binding")?;
    let role = words.next()?;
    binding.set(&["roleRef"], value!({"apiGroup": GROUP, "kind": role_kind, "name": role}));
    let subjects: Vec<Value> = words.map(read_subject).collect::<Option<_>>()?;
    if !subjects.is_empty() {
        binding.set(&["subjects"], subjects);
    }
    Some(binding)
}

fn read_subject(word: &str) -> Option<Value> {
    let (kind, name) = word.split_once('=')?;
    let mut subject = Map::new();
    subject.insert("kind", kind);
    match kind {
        "ServiceAccount" => {
            let (namespace, name) = name.split_once('/')?;
            subject.insert("namespace", namespace);
            subject.insert("name", name);
        }
        _ => {
            subject.insert("apiGroup", GROUP);
            subject.insert("name", name);
        }
    }
    Some(Value::Object(subject))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete() {
        let policy = bootstrap_policy().unwrap();
        let counts =
            [&policy.cluster_roles, &policy.cluster_role_bindings, &policy.roles, &policy.role_bindings];
        assert_eq!(counts.map(Vec::len), [73, 54, 7, 7]);
        let roles = policy.cluster_roles.iter().map(corten_api::meta::name).collect::<Vec<_>>();
        for binding in &policy.cluster_role_bindings {
            let role = binding.str_at(&["roleRef", "name"]).unwrap();
            assert!(roles.contains(&role), "{role} is bound and does not exist");
        }
        let empty = policy.cluster_roles.iter().filter(|role| rules_of(role).is_empty());
        assert_eq!(empty.map(corten_api::meta::name).collect::<Vec<_>>(), ["admin", "edit", "view"]);
        assert!(node_rules().len() > 20);
    }

    #[test]
    fn rules_and_subjects_are_parsed() {
        let rule = read_rule("get,list core,apps pods a").unwrap();
        assert_eq!(
            rule.to_value(),
            value!({"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a"]})
        );
        assert_eq!(
            read_rule("get /a,/b/*").unwrap().to_value(),
            value!({"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]})
        );
        assert_eq!(
            read_subject("ServiceAccount=kube-system/x").unwrap(),
            value!({"kind": "ServiceAccount", "namespace": "kube-system", "name": "x"})
        );
        assert_eq!(read_rule("get"), None);
    }
}
