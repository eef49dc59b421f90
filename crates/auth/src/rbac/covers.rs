//! Coverage of rules: the check that a user's rules include those that the user wants to grant.
//!
//! A rule stands for every combination of its groups, resources, verbs and names: a few kilobytes can mean a billion. They are
//! never enumerated for the check. Values that the same owned rules cover are checked once, and missing combinations are
//! enumerated only up to the limit of a message. Work is limited: rules that are too many to compare are refused.

use std::collections::{BTreeSet, HashMap};

use corten_api::Str;
use corten_api::status::quoted;

use super::rule::{Rule, url_covers};

const ALL: &str = "*";

/// The limit of text comparisons, beyond which a grant is refused.
const MAX_COMPARISONS: usize = 1_000_000;
/// The limit of missing rules in a message, and of combinations that are checked to find them.
const MAX_REPORTED: usize = 1_000;
const MAX_LOOKED_AT: usize = 100_000;

/// The rules are too many or too large to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rules are too large to compare with the user's rules")]
pub struct TooLarge;

/// The permissions that `granted` has and `owned` does not, as rules of one verb on one resource or path: all of them, or
/// the first thousand.
pub fn uncovered(owned: &[Rule], granted: &[Rule]) -> Result<Vec<Rule>, TooLarge> {
    let owned = Owned::new(owned);
    let mut left = MAX_COMPARISONS;
    let mut missing = Vec::new();
    for rule in granted {
        for part in parts(rule) {
            owned.missing(&part, &mut left, &mut missing)?;
            if missing.len() >= MAX_REPORTED {
                return Ok(missing);
            }
        }
    }
    Ok(missing)
}

/// The resource part and the path part of a rule.
fn parts(rule: &Rule) -> impl Iterator<Item = Part<'_>> {
    let on_resources = Part {
        names: (!rule.resource_names.is_empty()).then_some(&rule.resource_names),
        groups: &rule.api_groups,
        resources: &rule.resources,
        verbs: &rule.verbs,
        is_urls: false,
    };
    let on_urls =
        Part { names: None, groups: &[], resources: &rule.non_resource_urls, is_urls: true, ..on_resources };
    [on_resources, on_urls].into_iter()
}

/// All combinations of the lists of a rule.
#[derive(Clone, Copy)]
struct Part<'r> {
    /// Empty for paths.
    groups: &'r [Str],
    /// Resources, or paths.
    resources: &'r [Str],
    verbs: &'r [Str],
    /// `None` for all names.
    names: Option<&'r Vec<Str>>,
    is_urls: bool,
}

impl Part<'_> {
    fn is_empty(&self) -> bool {
        self.verbs.is_empty() || self.resources.is_empty() || (self.groups.is_empty() && !self.is_urls)
    }

    fn single(&self, group: usize, resource: usize, verb: usize, name: usize) -> Rule {
        let one = |list: &[Str], at: usize| list.get(at).cloned().into_iter().collect::<Vec<_>>();
        let thing = one(self.resources, resource);
        let (resources, non_resource_urls) =
            if self.is_urls { (Vec::new(), thing) } else { (thing, Vec::new()) };
        Rule {
            verbs: one(self.verbs, verb),
            api_groups: one(self.groups, group),
            resources,
            resource_names: self.names.map(|names| one(names, name)).unwrap_or_default(),
            non_resource_urls,
        }
    }
}

/// The owned rules, indexed by resource and path.
struct Owned<'r> {
    rules: &'r [Rule],
    /// The rules by the text of their resources, including `*` and `*/scale`.
    by_resource: HashMap<&'r str, Vec<usize>>,
    by_url: HashMap<&'r str, Vec<usize>>,
    /// The rules with a pattern of paths.
    patterns: Vec<usize>,
}

/// Values of one list that the same owned rules cover, by their indexes in the list.
type Classes = Vec<(Vec<usize>, Vec<usize>)>;

impl<'r> Owned<'r> {
    fn new(rules: &'r [Rule]) -> Owned<'r> {
        let mut owned =
            Owned { rules, by_resource: HashMap::new(), by_url: HashMap::new(), patterns: Vec::new() };
        for (i, rule) in rules.iter().enumerate() {
            for resource in &rule.resources {
                owned.by_resource.entry(resource).or_default().push(i);
            }
            for url in &rule.non_resource_urls {
                owned.by_url.entry(url).or_default().push(i);
            }
            if rule.non_resource_urls.iter().any(|url| url.ends_with('*')) {
                owned.patterns.push(i);
            }
        }
        owned
    }

    /// The rules that cover a resource, or a path.
    fn covering_rules(&self, thing: &str, is_urls: bool, left: &mut usize) -> Result<Vec<usize>, TooLarge> {
        let mut found: BTreeSet<usize> = BTreeSet::new();
        if is_urls {
            found.extend(self.by_url.get(thing).into_iter().flatten());
            for i in &self.patterns {
                spend(left, self.rules[*i].non_resource_urls.len())?;
                if self.rules[*i].non_resource_urls.iter().any(|url| url_covers(url, thing)) {
                    found.insert(*i);
                }
            }
        } else {
            let any = thing.split_once('/').map(|(_, sub)| format!("*/{sub}"));
            for name in [Some(thing), Some(ALL), any.as_deref()].into_iter().flatten() {
                found.extend(self.by_resource.get(name).into_iter().flatten());
            }
        }
        spend(left, 1 + found.len())?;
        Ok(found.into_iter().collect())
    }

    /// Adds the combinations that no rule covers.
    fn missing(&self, part: &Part<'_>, left: &mut usize, missing: &mut Vec<Rule>) -> Result<(), TooLarge> {
        if part.is_empty() {
            return Ok(());
        }
        let mut things: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
        for (at, thing) in part.resources.iter().enumerate() {
            things.entry(self.covering_rules(thing, part.is_urls, left)?).or_default().push(at);
        }
        let mut gaps = Gaps::default();
        for (rules, things) in things {
            let verbs = self.classes(&rules, part.verbs, |rule| &rule.verbs, true, left)?;
            for (rules, verbs) in verbs {
                let groups = match part.is_urls {
                    true => vec![(rules, vec![0])],
                    false => self.classes(&rules, part.groups, |rule| &rule.api_groups, true, left)?,
                };
                for (rules, groups) in groups {
                    let names = self.names(&rules, part.names, left)?;
                    for names in names.into_iter().filter(|(rules, _)| rules.is_empty()).map(|(_, at)| at) {
                        gaps.add(&groups, &things, &verbs, &names);
                    }
                }
            }
        }
        gaps.report(part, missing);
        Ok(())
    }

    /// Groups values that the same rules cover.
    fn classes(
        &self,
        rules: &[usize],
        values: &[Str],
        list: fn(&Rule) -> &Vec<Str>,
        has_wildcard: bool,
        left: &mut usize,
    ) -> Result<Classes, TooLarge> {
        // By value: each rule's list is read once, not once for every value.
        let (mut everything, mut listing): (Vec<usize>, HashMap<&str, Vec<usize>>) = Default::default();
        for i in rules {
            let listed = list(&self.rules[*i]);
            spend(left, 1 + listed.len())?;
            if has_wildcard && listed.iter().any(|item| item == ALL) {
                everything.push(*i);
                continue;
            }
            for item in listed {
                listing.entry(item).or_default().push(*i);
            }
        }
        let mut classes: HashMap<Vec<usize>, Vec<usize>> = HashMap::new();
        for (at, value) in values.iter().enumerate() {
            let listed = listing.get(value.as_str()).map_or(&[][..], Vec::as_slice);
            spend(left, 1 + everything.len() + listed.len())?;
            let mut covering = [&everything[..], listed].concat();
            covering.sort_unstable();
            covering.dedup();
            classes.entry(covering).or_default().push(at);
        }
        Ok(classes.into_iter().collect())
    }

    fn names(
        &self,
        rules: &[usize],
        names: Option<&Vec<Str>>,
        left: &mut usize,
    ) -> Result<Classes, TooLarge> {
        let of_all = |i: &usize| self.rules[*i].resource_names.is_empty();
        spend(left, 1 + rules.len())?;
        match names {
            _ if rules.iter().any(of_all) => Ok(vec![(rules.to_vec(), Vec::new())]),
            None => Ok(vec![(Vec::new(), vec![0])]),
            Some(names) => self.classes(rules, names, |rule| &rule.resource_names, false, left),
        }
    }
}

fn spend(left: &mut usize, comparisons: usize) -> Result<(), TooLarge> {
    *left = left.checked_sub(comparisons).ok_or(TooLarge)?;
    Ok(())
}

/// Indexes in the lists of a rule whose combinations are missing.
#[derive(Default)]
struct Gaps(Vec<[BTreeSet<usize>; 4]>);

impl Gaps {
    fn add(&mut self, groups: &[usize], things: &[usize], verbs: &[usize], names: &[usize]) {
        // A message contains only a limited number of missing combinations.
        if self.0.len() < MAX_REPORTED {
            self.0.push(
                [groups, things, verbs, names]
                    .map(|places| places.iter().copied().take(MAX_REPORTED).collect()),
            );
        }
    }

    /// Adds the missing combinations, in the order of the rule's lists.
    fn report(&self, part: &Part<'_>, missing: &mut Vec<Rule>) {
        let mut found: BTreeSet<[usize; 4]> = BTreeSet::new();
        let mut looked_at = 0;
        for [groups, things, verbs, names] in &self.0 {
            let combinations = groups.iter().flat_map(|group| {
                things.iter().flat_map(move |thing| {
                    verbs
                        .iter()
                        .flat_map(move |verb| names.iter().map(move |name| [*group, *thing, *verb, *name]))
                })
            });
            let room = MAX_LOOKED_AT.saturating_sub(looked_at).min(MAX_LOOKED_AT / self.0.len().max(1) + 1);
            let before = found.len();
            found.extend(combinations.take(room));
            looked_at += found.len() - before;
        }
        let room = MAX_REPORTED.saturating_sub(missing.len());
        let rules = found.into_iter().take(room);
        missing.extend(rules.map(|[group, thing, verb, name]| part.single(group, thing, verb, name)));
    }
}

/// Missing rules for an error message, one line per resource or path.
pub fn describe_missing(missing: &[Rule]) -> String {
    type Thing<'r> = (&'r [Str], &'r [Str], &'r [Str]);
    let mut compact: Vec<Rule> = Vec::new();
    let mut places: HashMap<Thing<'_>, usize> = HashMap::new();
    for rule in missing {
        let thing = (&rule.api_groups[..], &rule.resources[..], &rule.resource_names[..]);
        match places.get(&thing) {
            Some(at) if is_simple(rule) => compact[*at].verbs.extend_from_slice(&rule.verbs),
            _ => {
                if is_simple(rule) {
                    places.insert(thing, compact.len());
                }
                compact.push(rule.clone());
            }
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
        assert_eq!(describe_missing(&uncovered(&rules(owned), &rules(granted)).unwrap()), missing);
    }

    #[test]
    fn missing_rules_are_named() {
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
    fn resource_names_restrict_rules() {
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
