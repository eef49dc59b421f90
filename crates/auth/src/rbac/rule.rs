//! One rule of a role, and the requests that it allows.

use corten_api::{Map, Str, Value};

use crate::Attributes;

const ALL: &str = "*";

/// A `PolicyRule`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<Str>,
    pub api_groups: Vec<Str>,
    pub resources: Vec<Str>,
    /// Empty for all names.
    pub resource_names: Vec<Str>,
    pub non_resource_urls: Vec<Str>,
}

/// The rules of a role.
pub fn rules_of(role: &Value) -> Vec<Rule> {
    role.items_at(&["rules"]).iter().map(Rule::from_value).collect()
}

impl Rule {
    pub fn from_value(value: &Value) -> Rule {
        let texts = |key| value.items_at(&[key]).iter().filter_map(Value::as_str).map(Str::new).collect();
        Rule {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        let lists = [
            ("apiGroups", &self.api_groups),
            ("nonResourceURLs", &self.non_resource_urls),
            ("resourceNames", &self.resource_names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ];
        for (key, list) in lists {
            if !list.is_empty() || key == "verbs" {
                map.insert(key, list.iter().cloned().map(Value::from).collect::<Vec<_>>());
            }
        }
        Value::Object(map)
    }

    /// True if this rule allows a request.
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has(&self.verbs, asked.verb) {
            return false;
        }
        match asked.path {
            Some(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
            None => {
                has(&self.api_groups, asked.group)
                    && self.resources.iter().any(|resource| is_resource(resource, asked))
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == asked.name))
            }
        }
    }
}

fn has(list: &[Str], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

/// True if a resource of a rule (`*`, `pods`, `pods/log`, `*/scale`) matches the requested one.
fn is_resource(rule: &str, asked: &Attributes<'_>) -> bool {
    if rule == ALL {
        return true;
    }
    if asked.subresource.is_empty() {
        return rule == asked.resource;
    }
    let parent = rule.strip_suffix(asked.subresource).and_then(|rest| rest.strip_suffix('/'));
    parent.is_some_and(|parent| parent == ALL || parent == asked.resource)
}

/// True if a path, or a pattern of paths, matches a pattern.
pub(super) fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let list = |items: &[&str]| items.iter().copied().map(Str::new).collect();
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: Vec::new(),
        }
    }

    /// `asked` is `verb group resource[/subresource] [name]`, with `-` for the core group.
    #[track_caller]
    fn check(rule: &Rule, asked: &str, allowed: bool) {
        let user = User::default();
        let mut words = asked.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (verb, group, resource, name) = (word(), word(), word(), word());
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let group = if group == "-" { "" } else { group };
        let attributes =
            Attributes { subresource, name, ..Attributes::resource(&user, verb, group, resource) };
        assert_eq!(rule.allows(&attributes), allowed, "{asked}");
    }

    #[test]
    fn resources() {
        let pods = rule(&["get", "list"], &[""], &["pods", "pods/log"], &[]);
        check(&pods, "get - pods", true);
        check(&pods, "get - pods x", true);
        check(&pods, "get - pods/log x", true);
        check(&pods, "get - pods/exec x", false);
        check(&pods, "get - services", false);
        check(&pods, "get apps pods", false);
        check(&pods, "delete - pods", false);
        check(&pods, "GET - pods", false);
        check(&pods, "get - pod", false);
        let everything = rule(&["*"], &["*"], &["*"], &[]);
        check(&everything, "impersonate authentication.k8s.io userextras/scopes x", true);
        let scales = rule(&["update"], &["*"], &["*/scale"], &[]);
        check(&scales, "update apps deployments/scale x", true);
        check(&scales, "update apps deployments x", false);
        check(&scales, "update apps deployments/status x", false);
        check(&scales, "update apps deployments/upscale x", false);
        let named = rule(&["get"], &[""], &["secrets"], &["a", "b"]);
        check(&named, "get - secrets a", true);
        check(&named, "get - secrets c", false);
        check(&named, "get - secrets", false);
        let no_wildcard_within = rule(&["get"], &[""], &["pods/*"], &[]);
        check(&no_wildcard_within, "get - pods/log x", false);
    }

    #[test]
    fn paths() {
        let user = User::default();
        let urls = |urls: &[&str]| Rule {
            verbs: vec!["get".into()],
            non_resource_urls: urls.iter().copied().map(Str::new).collect(),
            ..Rule::default()
        };
        for (patterns, path, allowed) in [
            (&["/healthz"][..], "/healthz", true),
            (&["/healthz"], "/healthz/", false),
            (&["/healthz"], "/HEALTHZ", false),
            (&["/healthz/*"], "/healthz/etcd", true),
            (&["/healthz/*"], "/healthz", false),
            (&["/api*"], "/apis/apps", true),
            (&["*"], "/anything", true),
            (&["/a", "/b"], "/b", true),
            (&[], "/b", false),
        ] {
            let allows = urls(patterns).allows(&Attributes::path(&user, "get", path));
            assert_eq!(allows, allowed, "{patterns:?} {path}");
        }
        let resource = rule(&["get"], &["*"], &["*"], &[]);
        assert!(!resource.allows(&Attributes::path(&user, "get", "/metrics")));
    }

    #[test]
    fn rules_round_trip() {
        let whole = rule(&["get"], &["", "apps"], &["pods"], &["x"]);
        assert_eq!(Rule::from_value(&whole.to_value()), whole);
    }
}
