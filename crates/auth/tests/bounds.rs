//! The escalation check takes time in proportion to the size of rules, whatever the number of permissions that they stand
//! for.

#[path = "../../api/tests/bounds/meter.rs"]
mod meter;

use corten_api::Str;
use corten_auth::rbac::{Rule, describe_missing, uncovered};
use meter::{excess, settle};

fn texts(prefix: &str, count: usize) -> Vec<Str> {
    (0..count).map(|i| Str::from(format!("{prefix}{i}"))).collect()
}

/// A rule with this many groups, resources and verbs, and names.
fn cube(count: usize, names: usize) -> Rule {
    Rule {
        verbs: texts("v", count),
        api_groups: texts("g", count),
        resources: texts("r", count),
        resource_names: texts("n", names),
        non_resource_urls: Vec::new(),
    }
}

fn everything() -> Rule {
    let all = || vec![Str::new("*")];
    Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() }
}

fn paths(count: usize) -> Rule {
    Rule { verbs: texts("v", count), non_resource_urls: texts("/p", count), ..Rule::default() }
}

fn size((owned, granted): &(Vec<Rule>, Vec<Rule>)) -> usize {
    let lists = |rule: &Rule| {
        [&rule.verbs, &rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls]
            .map(|list| list.iter().map(|text| text.len() + 3).sum::<usize>())
            .iter()
            .sum::<usize>()
    };
    owned.iter().chain(granted).map(lists).sum()
}

/// A kind of grant, with the owned and the granted rules.
type Grants = (&'static str, fn(usize) -> (Vec<Rule>, Vec<Rule>));

const GRANTS: &[Grants] = &[
    ("nothing held", |n| (Vec::new(), vec![cube(n, 0)])),
    ("nothing held, with names", |n| (Vec::new(), vec![cube(n, n)])),
    ("everything held", |n| (vec![everything()], vec![cube(n, n)])),
    ("the same held", |n| (vec![cube(n, n)], vec![cube(n, n)])),
    ("less held", |n| (vec![cube(n - n / 4, 0)], vec![cube(n, n)])),
    ("paths", |n| (Vec::new(), vec![paths(n)])),
    ("patterns of paths held", |n| {
        let mut held = paths(n);
        held.non_resource_urls = held.non_resource_urls.iter().map(|url| format!("{url}*").into()).collect();
        (vec![held], vec![paths(n)])
    }),
    ("many rules held on one resource", |n| {
        let rule =
            |i| Rule { resources: texts("r", 1), verbs: vec![Str::from(format!("v{i}"))], ..cube(1, 0) };
        ((0..n).map(rule).collect(), vec![cube(n, 0)])
    }),
    ("many small rules", |n| {
        let rule = |i: usize| Rule { resources: vec![Str::from(format!("r{i}"))], ..cube(1, 0) };
        ((0..n).map(rule).collect(), (0..n).map(rule).collect())
    }),
];

#[test]
fn grants() {
    let complaints: Vec<String> = GRANTS
        .iter()
        .filter_map(|(name, grant)| {
            excess(
                name,
                250,
                |n| grant(n.max(4)),
                size,
                |(owned, granted)| uncovered(owned, granted).map(|missing| describe_missing(&missing)),
            )
        })
        .collect();
    settle(&complaints);
}

#[test]
fn a_billion_permissions_are_decided_quickly() {
    let granted = [cube(1_000, 0)];
    let missing = uncovered(&[], &granted).expect("rules of this size are compared");
    assert_eq!(missing.len(), 1_000, "the limit of reported rules");
    assert_eq!(describe_missing(&missing[..1]), r#"{APIGroups:["g0"], Resources:["r0"], Verbs:["v0"]}"#);
    assert_eq!(uncovered(&[everything()], &granted), Ok(Vec::new()));
    assert_eq!(uncovered(&granted, &granted), Ok(Vec::new()));
    // One of a billion is missing.
    let mut held = granted.clone();
    held[0].verbs.pop();
    let missing = uncovered(&held, &granted).expect("rules of this size are compared");
    assert!(missing.iter().all(|rule| rule.verbs == ["v999"]) && !missing.is_empty());
}
