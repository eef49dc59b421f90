//! Defaults: a title, the manifest, and upstream's result.

use corten_api::conform::{Extent, conform};
use corten_api::{Value, json, resources};

use super::misshapen;
use crate::{Rules, all, rules};

const TABLES: [&str; 4] = [
    include_str!("defaults/pods.txt"),
    include_str!("defaults/workloads.txt"),
    include_str!("defaults/cluster.txt"),
    // Changes that upstream makes in conversions rather than in a defaulter.
    include_str!("defaults/conversions.txt"),
];

struct Case {
    title: &'static str,
    rules: &'static Rules,
    /// Conformed, not yet defaulted.
    given: Value,
    expected: Value,
}

fn cases() -> Vec<Case> {
    let blocks = TABLES.iter().flat_map(|table| table.split("\n\n"));
    blocks.map(|block| case(block.trim())).collect()
}

fn case(block: &'static str) -> Case {
    let mut lines = block.lines();
    let mut line = || lines.next().unwrap_or_else(|| panic!("three lines: {block}"));
    let title = line().trim_start_matches("# ");
    let mut given = json::parse(line().as_bytes()).unwrap();
    let expected = json::parse(line().as_bytes()).unwrap();
    let (version, kind) = (given.str_at(&["apiVersion"]).unwrap(), given.str_at(&["kind"]).unwrap());
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = resources::all()
        .iter()
        .find(|r| r.group == group && r.version == version && r.kind == kind)
        .unwrap_or_else(|| panic!("{title}: no {kind} in {group}/{version}"));
    let rules = rules(&resource.group, &resource.name).unwrap();
    let mut complaints = Vec::new();
    conform(&mut given, &resource.schema().unwrap(), Extent::Whole, &mut complaints).unwrap();
    assert!(complaints.is_empty(), "{title}: {complaints:?}");
    Case { title, rules, given, expected }
}

#[test]
fn manifests_are_completed_as_upstream_does() {
    let cases = cases();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    for Case { title, rules, mut given, expected } in cases {
        (rules.default)(&mut given);
        assert_eq!(json::write_to_string(&given), json::write_to_string(&expected), "{title}");
    }
}

#[test]
fn complete_objects_stay_unchanged() {
    for Case { title, rules, mut given, .. } in cases() {
        (rules.default)(&mut given);
        let once = given.clone();
        (rules.default)(&mut given);
        assert_eq!(given, once, "{title}: defaulting again");
        let schema = rules.schema().unwrap();
        conform(&mut given, schema, Extent::Whole, &mut Vec::new()).unwrap();
        assert_eq!(given, once, "{title}: conforming again");
    }
}

#[test]
fn any_tree_can_be_completed() {
    for rules in all() {
        for mut tree in misshapen(rules) {
            (rules.default)(&mut tree);
            let once = tree.clone();
            (rules.default)(&mut tree);
            assert_eq!(tree, once, "{}", rules.resource);
        }
    }
    for Case { rules, given, .. } in cases() {
        each_part_replaced(&given, &mut |mut tree| (rules.default)(&mut tree));
    }
}

/// The tree with each of its parts replaced by each possible other value.
fn each_part_replaced(tree: &Value, seen: &mut dyn FnMut(Value)) {
    for other in [Value::Null, Value::from(7), Value::from("text"), Value::Array(vec![Value::Null])] {
        seen(other);
    }
    match tree {
        Value::Object(map) => {
            for (key, part) in map.iter() {
                each_part_replaced(part, &mut |other| {
                    let mut map = map.clone();
                    map.insert(key.clone(), other);
                    seen(Value::Object(map));
                });
            }
        }
        Value::Array(items) => {
            for (i, part) in items.iter().enumerate() {
                each_part_replaced(part, &mut |other| {
                    let mut items = items.clone();
                    items[i] = other;
                    seen(Value::Array(items));
                });
            }
        }
        _ => {}
    }
}
