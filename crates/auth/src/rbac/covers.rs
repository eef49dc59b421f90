//! Whether somebody's rules include others: the question behind every refusal to grant more than one has.

use std::collections::BTreeSet;

use corten_api::Str;
use corten_api::status::quoted;

use super::rule::{Rule, url_covers};

const ALL: &str = "*";

/// What `granted` allows and `owned` does not, taken apart into rules of one verb on one thing.
pub fn uncovered(owned: &[Rule], granted: &[Rule]) -> Vec<Rule> {
    let single = granted.iter().flat_map(take_apart);
    single.filter(|rule| !owned.iter().any(|owner| covers(owner, rule))).collect()
}

fn take_apart(rule: &Rule) -> Vec<Rule> {
    let mut single = Vec::new();
    let one = |text: &Str| vec![text.clone()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let whole = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    single.push(whole);
                    continue;
                }
                let named = |name| Rule { resource_names: one(name), ..whole.clone() };
                single.extend(rule.resource_names.iter().map(named));
            }
        }
    }
    for url in &rule.non_resource_urls {
        let url = |verb| Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() };
        single.extend(rule.verbs.iter().map(url));
    }
    single
}

/// Whether a rule allows all that a rule of at most one verb, group, resource, name and path does.
fn covers(owner: &Rule, single: &Rule) -> bool {
    let all = |list: &[Str], wanted: &[Str]| wanted.iter().all(|item| list.contains(item));
    let any_or_all = |list: &[Str], wanted: &[Str]| list.iter().any(|i| i == ALL) || all(list, wanted);
    any_or_all(&owner.verbs, &single.verbs)
        && any_or_all(&owner.api_groups, &single.api_groups)
        && single.resources.iter().all(|resource| covers_resource(&owner.resources, resource))
        && single
            .non_resource_urls
            .iter()
            .all(|url| owner.non_resource_urls.iter().any(|u| url_covers(u, url)))
        && (owner.resource_names.is_empty()
            || (!single.resource_names.is_empty() && all(&owner.resource_names, &single.resource_names)))
}

fn covers_resource(owned: &[Str], resource: &str) -> bool {
    let of_any = |sub| owned.iter().any(|own| own.strip_prefix("*/") == Some(sub));
    owned.iter().any(|own| own == ALL || own == resource)
        || resource.split_once('/').is_some_and(|(_, sub)| of_any(sub))
}

/// Rules for an error message, a line each: those on one thing together.
pub fn describe_missing(missing: &[Rule]) -> String {
    let mut compact: Vec<Rule> = Vec::new();
    for rule in missing {
        let same = |known: &&mut Rule| {
            is_simple(rule)
                && is_simple(known)
                && known.api_groups == rule.api_groups
                && known.resources == rule.resources
                && known.resource_names == rule.resource_names
        };
        match compact.iter_mut().find(same) {
            Some(known) => known.verbs.extend_from_slice(&rule.verbs),
            None => compact.push(rule.clone()),
        }
    }
    let lines: BTreeSet<String> = compact.iter().map(describe).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

fn is_simple(rule: &Rule) -> bool {
    rule.resource_names.len() <= 1
        && rule.non_resource_urls.is_empty()
        && rule.api_groups.len() == 1
        && rule.resources.len() == 1
}

fn describe(rule: &Rule) -> String {
    let lists = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let parts = lists.iter().filter(|(_, list)| !list.is_empty()).map(|(key, list)| {
        let items: Vec<String> = list.iter().map(|item| quoted(item)).collect();
        format!("{key}:[{}]", items.join(" "))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::json;

    fn rules(text: &str) -> Vec<Rule> {
        let value = json::parse(text.as_bytes()).unwrap();
        value.as_array().unwrap().iter().map(Rule::from_value).collect()
    }

    #[track_caller]
    fn check(owned: &str, granted: &str, missing: &str) {
        assert_eq!(describe_missing(&uncovered(&rules(owned), &rules(granted))), missing);
    }

    #[test]
    fn what_is_not_held_is_named() {
        let all = r#"[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]"#;
        let pods = r#"[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}]"#;
        check(all, pods, "");
        check(pods, pods, "");
        check("[]", pods, r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#);
        check(pods, all, r#"{APIGroups:["*"], Resources:["*"], Verbs:["*"]}"#);
        check(
            pods,
            r#"[{"verbs":["get","watch"],"apiGroups":["","apps"],"resources":["pods"]}]"#,
            "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\"]}\n{APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"watch\"]}",
        );
    }

    #[test]
    fn names_narrow() {
        let one = r#"[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["a"]}]"#;
        let every = r#"[{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}]"#;
        check(every, one, "");
        check(one, every, r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#);
    }

    #[test]
    fn subresources_and_paths() {
        let scales = r#"[{"verbs":["get"],"apiGroups":["*"],"resources":["*/scale"]}]"#;
        check(scales, r#"[{"verbs":["get"],"apiGroups":["apps"],"resources":["deployments/scale"]}]"#, "");
        check(
            scales,
            r#"[{"verbs":["get"],"apiGroups":["apps"],"resources":["deployments"]}]"#,
            r#"{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}"#,
        );
        let apis = r#"[{"verbs":["get"],"nonResourceURLs":["/apis/*"]}]"#;
        check(apis, r#"[{"verbs":["get"],"nonResourceURLs":["/apis/apps"]}]"#, "");
        check(
            apis,
            r#"[{"verbs":["get"],"nonResourceURLs":["/api*"]}]"#,
            r#"{NonResourceURLs:["/api*"], Verbs:["get"]}"#,
        );
    }
}
