//! Who has which rules: roles and bindings, by subject.
//!
//! Kept up to date one object at a time. Nothing here is ever scanned for a decision but the bindings of the
//! user and of the user's groups, across the cluster and in the one namespace that is asked about.

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

/// What a binding gives: a role of its namespace, or of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleRef {
    /// As it is written; only `Role` and `ClusterRole` mean something.
    pub kind: Str,
    pub name: Str,
}

/// A role that a binding names and nobody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingRole {
    NotFound(RoleKind, Str),
    Unsupported(Str),
}

/// What a user may do in a namespace, and what could not be found out.
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
    /// By namespace; those of the whole cluster are under the empty one.
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
    /// Empty for the cluster's.
    namespace: Str,
    name: Str,
    role: RoleRef,
    subjects: Vec<Subject>,
}

#[derive(Debug)]
struct Subject {
    matches: Matches,
    /// How reasons name it.
    shown: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Matches {
    /// Service accounts too, by their user names.
    User(Str),
    Group(Str),
    Nobody,
}

impl Rbac {
    /// Takes over a role's newest state; `None` once it is gone. Cluster roles have an empty namespace.
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

    /// Takes over a binding's newest state; `None` once it is gone. Cluster role bindings have an empty
    /// namespace.
    pub fn set_binding(&mut self, namespace: &str, name: &str, binding: Option<&Value>) {
        let scope = self.scopes.entry(namespace.into()).or_default();
        scope.remove(name);
        if let Some(binding) = binding {
            scope.insert(Arc::new(Binding::read(namespace, name, binding)));
        } else if scope.by_name.is_empty() {
            self.scopes.remove(namespace);
        }
    }

    /// Whether some rule of the user allows what is asked.
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

    /// Every rule of a user in a namespace, or, if it is empty, across the cluster; by the names of the
    /// bindings.
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

    /// The rules a binding in a namespace would give.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<&[Rule], MissingRole> {
        let (found, kind) = match role.kind.as_str() {
            "ClusterRole" => (self.cluster_roles.get(&role.name), RoleKind::ClusterRole),
            "Role" => (self.roles.get(namespace).and_then(|roles| roles.get(&role.name)), RoleKind::Role),
            _ => return Err(MissingRole::Unsupported(role.kind.clone())),
        };
        found.map(|rules| &**rules).ok_or_else(|| MissingRole::NotFound(kind, role.name.clone()))
    }

    /// The bindings of a user; one that names the user more than once comes more than once.
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
                Matches::Nobody => continue,
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
                Matches::Nobody => continue,
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
    /// The role a binding gives.
    pub fn of(binding: &Value) -> RoleRef {
        let text = |key| Str::new(binding.str_at(&["roleRef", key]).unwrap_or_default());
        RoleRef { kind: text("kind"), name: text("name") }
    }
}

impl Binding {
    fn read(namespace: &str, name: &str, binding: &Value) -> Binding {
        Binding {
            namespace: namespace.into(),
            name: name.into(),
            role: RoleRef::of(binding),
            subjects: binding.items_at(&["subjects"]).iter().map(|s| Subject::read(s, namespace)).collect(),
        }
    }

    /// For reasons: which binding of which role to which of the user's names.
    fn describe(&self, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| subject.matches.is(user));
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
        // An account without a namespace is one of the binding's own.
        let home = if text("namespace").is_empty() { namespace } else { text("namespace") };
        let matches = match kind {
            "User" => Matches::User(name.into()),
            "Group" => Matches::Group(name.into()),
            "ServiceAccount" if !home.is_empty() => {
                Matches::User(service_account::user_name(home, name).into())
            }
            _ => Matches::Nobody,
        };
        let shown = match kind {
            "ServiceAccount" => format!("{kind} {}", quoted(&format!("{name}/{home}"))),
            _ => format!("{kind} {}", quoted(name)),
        };
        Subject { matches, shown }
    }
}

impl Matches {
    fn is(&self, user: &User) -> bool {
        match self {
            Matches::User(name) => *name == user.name,
            Matches::Group(name) => user.is_in(name),
            Matches::Nobody => false,
        }
    }
}

impl MissingRole {
    /// How a request on a resource says that it is not there.
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

/// Several problems in one text, each once.
pub fn summary(problems: impl Iterator<Item = String>) -> Option<String> {
    let mut seen = HashSet::new();
    let mut told: Vec<String> = problems.filter(|problem| seen.insert(problem.clone())).collect();
    match told.len() {
        0 => None,
        1 => told.pop(),
        _ => Some(format!("[{}]", told.join(", "))),
    }
}

#[cfg(test)]
mod tests;
