//! The requests that a webhook or a policy applies to: rules, selectors, and equivalent versions of a resource.
//!
//! Criteria are parsed once. Matching reads nothing but the request, the object and the labels of its namespace.

use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Status, Str, Value, meta};

use super::{Attributes, Operation, lookup};
use crate::catalog::Served;

const ANY: &str = "*";

/// Group, version and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupVersionKind {
    pub group: Str,
    pub version: Str,
    pub kind: Str,
}

/// The resource and kind in which a webhook or a policy sees a request: those of the request itself, or equivalent ones.
#[derive(Clone)]
pub(super) struct Target {
    pub served: Arc<Served>,
    pub kind: GroupVersionKind,
}

/// The resource in which a request matches.
pub(super) enum Matched {
    /// That of the request.
    Own,
    Equivalent(Arc<Served>),
}

impl Matched {
    /// The resource itself.
    pub(super) fn served<'m>(&'m self, attributes: &'m Attributes<'_>) -> &'m Arc<Served> {
        match self {
            Matched::Own => &attributes.call.served,
            Matched::Equivalent(served) => served,
        }
    }

    pub(super) fn target(&self, attributes: &Attributes<'_>) -> Target {
        let served = self.served(attributes);
        Target { served: served.clone(), kind: attributes.kind_in(served) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

/// A rule: operations, and the resources they are done on.
#[derive(Debug)]
struct Rule {
    operations: Vec<Str>,
    groups: Vec<Str>,
    versions: Vec<Str>,
    /// Resources and their subresources.
    resources: Vec<(Str, Str)>,
    scope: Scope,
    /// The names of objects; empty for all. Only policies have them.
    names: Vec<Str>,
}

/// The facts about a request that rules are compared with.
struct Requested<'a> {
    operation: Operation,
    subresource: &'a str,
    is_namespaced: bool,
    name: &'a str,
}

impl Rule {
    fn parse(rule: &Value) -> Rule {
        let texts = |key: &str| -> Vec<Str> {
            rule.items_at(&[key]).iter().filter_map(Value::as_str).map(Str::from).collect()
        };
        let split = |resource: &Str| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.into(), subresource.into()),
            None => (resource.clone(), Str::default()),
        };
        Rule {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources").iter().map(split).collect(),
            scope: match rule.str_at(&["scope"]) {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
            names: texts("resourceNames"),
        }
    }

    fn matches(&self, served: &Served, requested: &Requested<'_>) -> bool {
        let has = |list: &[Str], text: &str| list.iter().any(|item| item == ANY || item == text);
        let named = |wanted: &Str, found: &str| wanted == ANY || wanted == found;
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Namespaced => !served.is_namespaces() && requested.is_namespaced,
            Scope::Cluster => served.is_namespaces() || !requested.is_namespaced,
        };
        in_scope
            && has(&self.operations, requested.operation.name())
            && has(&self.groups, served.group())
            && has(&self.versions, &served.resource.version)
            && self.resources.iter().any(|(resource, subresource)| {
                named(resource, served.name()) && named(subresource, requested.subresource)
            })
            && (self.names.is_empty() || self.names.iter().any(|name| name == requested.name))
    }
}

/// The criteria of a webhook or a policy.
#[derive(Debug)]
pub(super) struct Criteria {
    rules: Vec<Rule>,
    /// True for criteria without rules that only select namespaces and objects, as those of a binding may.
    any_resource: bool,
    excluded: Vec<Rule>,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    /// True if requests for equivalent resources match, too.
    equivalent: bool,
}

impl Criteria {
    /// The criteria of a webhook.
    pub(super) fn of_webhook(webhook: &Value) -> Criteria {
        Criteria::parse(webhook, webhook.items_at(&["rules"]), &[])
    }

    /// The `matchConstraints` of a policy or the `matchResources` of a binding.
    pub(super) fn of_match_resources(resources: &Value) -> Criteria {
        let rules = resources.items_at(&["resourceRules"]);
        let excluded = resources.items_at(&["excludeResourceRules"]);
        Criteria { any_resource: rules.is_empty(), ..Criteria::parse(resources, rules, excluded) }
    }

    fn parse(of: &Value, rules: &[Value], excluded: &[Value]) -> Criteria {
        let selector = |key: &str| LabelSelector::from_object(of.get(key)).map_err(|error| error.to_string());
        Criteria {
            rules: rules.iter().map(Rule::parse).collect(),
            any_resource: false,
            excluded: excluded.iter().map(Rule::parse).collect(),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            equivalent: of.str_at(&["matchPolicy"]) != Some("Exact"),
        }
    }

    /// The resources that the rules name, each with the operations on it as bits (`Operation::bit`). `None` instead of a
    /// resource stands for any.
    pub(super) fn interests(&self) -> Vec<(Option<(Str, Str)>, u8)> {
        let mut found = Vec::new();
        if self.any_resource {
            found.push((None, u8::MAX));
        }
        for rule in &self.rules {
            let operations = rule.operations.iter().fold(0, |bits, name| {
                bits | match name.as_str() {
                    "CREATE" => Operation::Create.bit(),
                    "UPDATE" => Operation::Update.bit(),
                    "DELETE" => Operation::Delete.bit(),
                    "CONNECT" => Operation::Connect.bit(),
                    _ => u8::MAX,
                }
            });
            for group in &rule.groups {
                for (resource, _) in &rule.resources {
                    let is_any = group == ANY || resource == ANY;
                    let named = (!is_any).then(|| (group.clone(), resource.clone()));
                    found.push((named, operations));
                }
            }
        }
        found
    }

    /// The resource in which a request matches, or `None` if it does not. An error of a selector counts only if the rules
    /// match.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<Option<Matched>, Status> {
        // Rules are cheaper than selectors, and most requests match none.
        let Some(matched) = self.match_rules(attributes, object) else { return Ok(None) };
        if !self.selects_namespace(attributes, object)? || !self.selects_object(attributes, object)? {
            return Ok(None);
        }
        Ok(Some(matched))
    }

    /// The resource in which the rules match.
    fn match_rules(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Option<Matched> {
        let requested = Requested {
            operation: attributes.operation,
            subresource: attributes.subresource,
            is_namespaced: !attributes.request_namespace(object).is_empty(),
            name: attributes.request_name(object),
        };
        let own = &attributes.call.served;
        let found = |rules: &[Rule]| -> Option<Matched> {
            if rules.iter().any(|rule| rule.matches(own, &requested)) {
                return Some(Matched::Own);
            }
            if !self.equivalent {
                return None;
            }
            let mut others = attributes.backend().catalog.equivalents(own);
            // A version is equivalent only if it has the subresource, too.
            let subresource = attributes.subresource;
            others
                .retain(|other| subresource.is_empty() || other.resource.subresource(subresource).is_some());
            let fits = |rule: &Rule| others.iter().find(|other| rule.matches(other, &requested)).cloned();
            rules.iter().find_map(fits).map(Matched::Equivalent)
        };
        if !self.excluded.is_empty() && found(&self.excluded).is_some() {
            return None;
        }
        if self.any_resource { Some(Matched::Own) } else { found(&self.rules) }
    }

    fn selects_namespace(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<bool, Status> {
        let namespace = attributes.request_namespace(object);
        if namespace.is_empty() && !attributes.call.served.is_namespaces() {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        // The object is the newest state of a namespace that is written.
        let is_written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if attributes.call.served.is_namespaces() && attributes.subresource.is_empty() && is_written {
            return Ok(object.is_some_and(|object| selects(attributes, selector, object)));
        }
        match lookup::namespace(attributes.backend(), namespace) {
            Some(found) => Ok(has_labels(selector, found.parsed())),
            None => Err(Status::not_found("", "namespaces", namespace)),
        }
    }

    fn selects_object(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        Ok(selector.is_everything()
            || object.is_some_and(|object| selects(attributes, selector, object))
            || attributes.old.is_some_and(|old| selects(attributes, selector, old)))
    }
}

fn has_labels(selector: &LabelSelector, object: &Value) -> bool {
    match meta::labels(object) {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&Map::new()),
    }
}

/// True if a selector matches an object's labels. The options of a connection have no metadata and match no selector;
/// other objects that are sent without have no labels.
fn selects(attributes: &Attributes<'_>, selector: &LabelSelector, object: &Value) -> bool {
    attributes.operation != Operation::Connect && has_labels(selector, object)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::catalog::Catalog;

    /// True if a rule matches a request for `pods` or another resource, written `resource/subresource`.
    fn matches(rule: &Value, operation: Operation, resource: &str, namespaced: bool, name: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (group, resource) =
            resource.split_once('.').map_or(("", resource), |(name, group)| (group, name));
        let requested = Requested { operation, subresource, is_namespaced: namespaced, name };
        Rule::parse(rule).matches(&Catalog::served_for_test(group, resource), &requested)
    }

    #[test]
    fn rules_match_operations_resources_subresources_scopes_and_names() {
        use Operation::{Connect, Create, Delete, Update};
        let pods = value!({
            "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]
        });
        assert!(matches(&pods, Create, "pods", true, "a"));
        assert!(matches(&pods, Update, "pods", true, "a"));
        assert!(!matches(&pods, Delete, "pods", true, "a"), "another operation");
        assert!(!matches(&pods, Create, "pods/status", true, "a"), "a subresource");
        assert!(!matches(&pods, Create, "secrets", true, "a"), "another resource");
        assert!(!matches(&pods, Create, "deployments.apps", true, "a"), "another group");
        let rule = |scope: &str, resource: &str, names: Value| {
            value!({
                "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [(resource)],
                "scope": (scope), "resourceNames": (names)
            })
        };
        let all = rule("*", "*", value!([]));
        assert!(matches(&all, Delete, "deployments.apps", true, ""));
        assert!(!matches(&all, Connect, "pods/exec", true, ""), "* is every resource, no subresource");
        assert!(matches(&rule("*", "*/*", value!([])), Connect, "pods/exec", true, ""));
        assert!(matches(&rule("*", "*/*", value!([])), Create, "pods", true, ""));
        assert!(matches(&rule("*", "*/exec", value!([])), Connect, "pods/exec", true, ""));
        assert!(matches(&rule("*", "pods/*", value!([])), Connect, "pods/exec", true, ""));
        let (cluster, inside) = (rule("Cluster", "*", value!([])), rule("Namespaced", "*", value!([])));
        assert!(
            matches(&cluster, Create, "nodes", false, "") && !matches(&inside, Create, "nodes", false, "")
        );
        assert!(matches(&inside, Create, "pods", true, "") && !matches(&cluster, Create, "pods", true, ""));
        assert!(matches(&cluster, Update, "namespaces", true, "n"), "namespaces are cluster-scoped");
        assert!(!matches(&inside, Update, "namespaces", true, "n"));
        let named = rule("*", "*", value!(["a", "b"]));
        assert!(matches(&named, Create, "pods", true, "b") && !matches(&named, Create, "pods", true, "c"));
    }
}
