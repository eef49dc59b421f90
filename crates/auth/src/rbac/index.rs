//! The index of roles and bindings, by subject.
//!
//! Updated one object at a time. A decision only reads the bindings of the user and the user's groups, those of the cluster
//! and of the one namespace of the request.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use corten_api::status::quoted;
use corten_api::{Str, Value};

use super::rule::{Rule, rules_of};
use crate::service_account;
use crate::{Attributes, Decision, User};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleKind {
    Role,
    ClusterRole,
}

/// The role that a binding grants: one of its namespace, or of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    /// As in the binding; only `Role` and `ClusterRole` have an effect.
    pub kind: Str,
    pub name: Str,
}

/// A role that a binding references and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingRole {
    NotFound(RoleKind, Str),
    Unsupported(Str),
}

/// The rules of a user in a namespace, and the errors of finding them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    pub rules: Vec<Rule>,
    pub missing: Vec<MissingRole>,
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub struct Rbac {
    cluster_roles: HashMap<Str, Arc<[Rule]>>,
    /// By namespace and name.
    roles: HashMap<Str, HashMap<Str, Arc<[Rule]>>>,
    /// By namespace; cluster role bindings are under the empty one.
    scopes: HashMap<Str, Scope>,
}

/// The bindings of one namespace, or of the cluster.
#[derive(Debug, Default)]
struct Scope {
    by_name: HashMap<Str, Arc<Binding>>,
    users: HashMap<Str, Vec<Arc<Binding>>>,
    groups: HashMap<Str, Vec<Arc<Binding>>>,
}

#[derive(Debug)]
struct Binding {
    /// Empty for cluster role bindings.
    namespace: Str,
    name: Str,
    role: RoleRef,
    /// Each once, however often the binding names it.
    subjects: Vec<Subject>,
    places: HashMap<Matches, usize>,
}

#[derive(Debug)]
struct Subject {
    matches: Matches,
    /// The name in the reasons of decisions.
    shown: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Matches {
    /// Service accounts too, by their user names.
    User(Str),
    Group(Str),
    None,
}

impl Rbac {
    /// Sets a role's newest state; `None` after its deletion. Cluster roles have an empty namespace.
    pub fn set_role(&mut self, namespace: &str, name: &str, role: Option<&Value>) {
        let rules: Option<Arc<[Rule]>> = role.map(|role| rules_of(role).into());
        match (namespace, rules) {
            ("", Some(rules)) => {
                self.cluster_roles.insert(name.into(), rules);
            }
            ("", None) => {
                self.cluster_roles.remove(name);
            }
            (namespace, Some(rules)) => {
                self.roles.entry(namespace.into()).or_default().insert(name.into(), rules);
            }
            (namespace, None) => {
                let left = self.roles.get_mut(namespace).map(|roles| {
                    roles.remove(name);
                    roles.len()
                });
                if left == Some(0) {
                    self.roles.remove(namespace);
                }
            }
        }
    }

    /// Sets a binding's newest state; `None` after its deletion. Cluster role bindings have an empty namespace.
    pub fn set_binding(&mut self, namespace: &str, name: &str, binding: Option<&Value>) {
        let scope = self.scopes.entry(namespace.into()).or_default();
        scope.remove(name);
        if let Some(binding) = binding {
            scope.insert(Arc::new(Binding::read(namespace, name, binding)));
        } else if scope.by_name.is_empty() {
            self.scopes.remove(namespace);
        }
    }

    /// Allows a request if some rule of the user does.
    pub fn authorize(&self, asked: &Attributes<'_>) -> Decision {
        let mut missing = Vec::new();
        for binding in self.bindings(asked.user, asked.namespace) {
            match self.role_rules(&binding.role, &binding.namespace) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(asked)) => {
                    return Decision::Allow(format!("RBAC: allowed by {}", binding.describe(asked.user)));
                }
                Ok(_) => {}
                Err(error) => missing.push(error),
            }
        }
        match summary(missing.iter().map(ToString::to_string)) {
            None => Decision::NoOpinion(String::new()),
            Some(missing) => Decision::NoOpinion(format!("RBAC: {missing}")),
        }
    }

    /// All rules of a user in a namespace, or, if it is empty, in the cluster; sorted by the names of the bindings.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Resolved {
        let mut bindings: Vec<_> = self.bindings(user, namespace).collect();
        bindings.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        bindings.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let mut resolved = Resolved::default();
        for binding in bindings {
            match self.role_rules(&binding.role, &binding.namespace) {
                Ok(rules) => resolved.rules.extend_from_slice(rules),
                Err(missing) => resolved.missing.push(missing),
            }
        }
        resolved
    }

    /// The rules that a binding in a namespace would grant.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], MissingRole> {
        let (found, kind) = match role.kind.as_str() {
            "ClusterRole" => (self.cluster_roles.get(&role.name), RoleKind::ClusterRole),
            "Role" => (self.roles.get(namespace).and_then(|roles| roles.get(&role.name)), RoleKind::Role),
            _ => return Err(MissingRole::Unsupported(role.kind.clone())),
        };
        found.map(|rules| &**rules).ok_or_else(|| MissingRole::NotFound(kind, role.name.clone()))
    }

    /// The bindings of a user; one that names both the user and the user's groups is repeated.
    fn bindings<'a>(&'a self, user: &'a User, namespace: &str) -> impl Iterator<Item = &'a Arc<Binding>> {
        let local = (!namespace.is_empty()).then(|| self.scopes.get(namespace)).flatten();
        let scopes = self.scopes.get("").into_iter().chain(local);
        scopes.flat_map(|scope| {
            let own = scope.users.get(user.name.as_str());
            let groups = user.groups.iter().filter_map(|group| scope.groups.get(group.as_str()));
            own.into_iter().chain(groups).flatten()
        })
    }
}

impl Scope {
    fn insert(&mut self, binding: Arc<Binding>) {
        for subject in &binding.subjects {
            let list = match &subject.matches {
                Matches::User(name) => self.users.entry(name.clone()),
                Matches::Group(name) => self.groups.entry(name.clone()),
                Matches::None => continue,
            };
            list.or_default().push(binding.clone());
        }
        self.by_name.insert(binding.name.clone(), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(gone) = self.by_name.remove(name) else { return };
        for subject in &gone.subjects {
            let (map, key) = match &subject.matches {
                Matches::User(name) => (&mut self.users, name),
                Matches::Group(name) => (&mut self.groups, name),
                Matches::None => continue,
            };
            let Some(list) = map.get_mut(key) else { continue };
            list.retain(|binding| !Arc::ptr_eq(binding, &gone));
            if list.is_empty() {
                map.remove(key);
            }
        }
    }
}

impl RoleRef {
    /// The role that a binding grants.
    pub fn of(binding: &Value) -> RoleRef {
        let text = |key| Str::new(binding.str_at(&["roleRef", key]).unwrap_or_default());
        RoleRef { kind: text("kind"), name: text("name") }
    }
}

impl Binding {
    fn read(namespace: &str, name: &str, binding: &Value) -> Binding {
        let (mut subjects, mut places) = (Vec::new(), HashMap::new());
        for subject in binding.items_at(&["subjects"]).iter().map(|s| Subject::read(s, namespace)) {
            if let Entry::Vacant(place) = places.entry(subject.matches.clone()) {
                place.insert(subjects.len());
                subjects.push(subject);
            }
        }
        let role = RoleRef::of(binding);
        Binding { namespace: namespace.into(), name: name.into(), role, subjects, places }
    }

    /// The reason of a decision: the binding, its role and the subject.
    fn describe(&self, user: &User) -> String {
        let groups = user.groups.iter().map(|group| Matches::Group(Str::new(group)));
        let own = [Matches::User(Str::new(&user.name))].into_iter().chain(groups);
        let first = own.filter_map(|matches| self.places.get(&matches)).min();
        let subject = first.and_then(|first| self.subjects.get(*first));
        let (kind, name) = match self.namespace.as_str() {
            "" => ("ClusterRoleBinding", self.name.to_string()),
            namespace => ("RoleBinding", format!("{}/{namespace}", self.name)),
        };
        let (name, role) = (quoted(&name), quoted(&self.role.name));
        let subject = subject.map_or("", |subject| &subject.shown);
        format!("{kind} {name} of {} {role} to {subject}", self.role.kind)
    }
}

impl Subject {
    fn read(subject: &Value, namespace: &str) -> Subject {
        let text = |key| subject.str_at(&[key]).unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        // A service account without a namespace is one of the binding's namespace.
        let home = if text("namespace").is_empty() { namespace } else { text("namespace") };
        let matches = match kind {
            "User" => Matches::User(name.into()),
            "Group" => Matches::Group(name.into()),
            "ServiceAccount" if !home.is_empty() => {
                Matches::User(service_account::user_name(home, name).into())
            }
            _ => Matches::None,
        };
        let shown = match kind {
            "ServiceAccount" => format!("{kind} {}", quoted(&format!("{name}/{home}"))),
            _ => format!("{kind} {}", quoted(name)),
        };
        Subject { matches, shown }
    }
}

impl MissingRole {
    /// The message of a request on a resource that the role does not exist.
    pub fn not_found_as(&self, resource: &str) -> String {
        match self {
            MissingRole::NotFound(_, name) => {
                format!("{resource}.{} {} not found", super::GROUP, quoted(name))
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MissingRole::NotFound(RoleKind::Role, _) => f.write_str(&self.not_found_as("role")),
            MissingRole::NotFound(RoleKind::ClusterRole, _) => f.write_str(&self.not_found_as("clusterrole")),
            MissingRole::Unsupported(kind) => {
                write!(f, "unsupported role reference kind: {}", quoted(kind))
            }
        }
    }
}

/// Several errors in one message, without duplicates.
pub fn summary(problems: impl Iterator<Item = String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut messages: Vec<String> = problems.filter(|problem| seen.insert(problem.clone())).collect();
    match messages.len() {
        0 => None,
        1 => messages.pop(),
        _ => Some(format!("[{}]", messages.join(", "))),
    }
}

#[cfg(test)]
mod tests;
