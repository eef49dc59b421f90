//! The table as a whole: it contains every resource with upstream's columns, and its functions accept
//! any object.

mod defaults;
mod rows;
mod warnings;

use std::collections::BTreeSet;

use corten_api::{Str, Value, resources, value};
use jiff::Timestamp;

use crate::rules::NameRule;
use crate::{Column, Request, RowContext, Rules, all, rules};

/// `resources` of the wire table that are never stored.
const TRANSIENT: [&str; 8] = [
    "bindings",
    "componentstatuses",
    "selfsubjectreviews",
    "tokenreviews",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "subjectaccessreviews",
];

fn context() -> RowContext<'static> {
    RowContext { now: Timestamp::UNIX_EPOCH, marked: None }
}

#[test]
fn rules_and_resources_are_the_same_set() {
    let served: BTreeSet<_> = resources::all().iter().map(|r| (r.group.clone(), r.name.clone())).collect();
    let ruled: BTreeSet<_> = all().iter().map(|r| (Str::from(r.group), Str::from(r.resource))).collect();
    assert_eq!(served, ruled);
    assert_eq!(ruled.len(), all().len(), "a resource is listed twice");
    assert!(rules("apps", "pods").is_none());
}

#[test]
fn stored_resources_have_a_prefix_and_a_type() {
    let mut places = BTreeSet::new();
    for rules in all() {
        let transient = TRANSIENT.contains(&rules.resource) || rules.group == "metrics.k8s.io";
        assert_eq!(rules.stored, !transient, "{}", rules.resource);
        if !rules.stored {
            continue;
        }
        assert!(rules.schema().is_some(), "{} {}", rules.resource, rules.storage_version);
        assert!(!rules.storage_prefix.is_empty(), "{}", rules.resource);
        match rules.stored_as {
            Some((group, resource)) => {
                let storage = crate::rules(group, resource).expect("shared storage exists");
                assert_eq!(storage.storage_prefix, rules.storage_prefix);
            }
            None => assert!(places.insert(rules.storage_prefix), "{} shares its place", rules.resource),
        }
    }
}

#[test]
fn the_exceptions_are_upstreams() {
    let place = |group: &str, resource: &str| rules(group, resource).unwrap().storage_prefix;
    assert_eq!(place("", "nodes"), "minions");
    assert_eq!(place("", "services"), "services/specs");
    assert_eq!(place("networking.k8s.io", "ingresses"), "ingress");
    assert_eq!(rules("autoscaling", "horizontalpodautoscalers").unwrap().storage_version, "v2");
    assert_eq!(rules("rbac.authorization.k8s.io", "roles").unwrap().name, NameRule::PathSegment);
    let creates: Vec<_> = all().iter().filter(|r| r.create_on_update).map(|r| r.resource).collect();
    let expected = [
        "endpoints",
        "events",
        "limitranges",
        "services",
        "events",
        "clusterrolebindings",
        "clusterroles",
        "rolebindings",
        "roles",
        "leasecandidates",
        "leases",
        "runtimeclasses",
    ];
    assert_eq!(creates, expected);
}

/// A column in the format of the data file: `Name/name`, `Value:integer`, `IP#1`.
fn spelled(column: &Column) -> String {
    let mut text = column.name.to_owned();
    if column.kind != "string" {
        text.push_str(&format!(":{}", column.kind));
    }
    if !column.format.is_empty() {
        text.push_str(&format!("/{}", column.format));
    }
    if column.priority > 0 {
        text.push_str(&format!("#{}", column.priority));
    }
    text
}

#[test]
fn columns_are_upstreams() {
    let mut listed = BTreeSet::new();
    for line in include_str!("tests/columns.txt").lines() {
        let (resource, expected) = line.split_once('\t').unwrap();
        let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
        let rules = rules(group, name).unwrap();
        let columns: Vec<String> = rules.columns.iter().map(spelled).collect();
        assert_eq!(columns.join(" | "), expected, "{resource}");
        listed.insert((group, name));
    }
    let unlisted = all().iter().filter(|r| !listed.contains(&(r.group, r.resource)));
    assert!(unlisted.clone().all(|r| !r.stored), "{:?}", unlisted.map(|r| r.resource).collect::<Vec<_>>());
}

/// Trees of wrong types.
fn misshapen(rules: &Rules) -> Vec<Value> {
    let parts = ["metadata", "spec", "status", "subsets", "conditions", "endpoints", "subjects", "roleRef"];
    let fillings = [
        Value::Null,
        value!(7),
        value!("text"),
        value!([]),
        value!([null, 1, "x", [], {}]),
        value!({"conditions": 1, "metrics": [null, {"type": "Resource"}], "containers": {}, "rules": [1]}),
        value!({"conditions": [1, {"type": 1}], "template": {"spec": {"containers": [null]}}, "ports": [0]}),
    ];
    let mut trees = vec![Value::Null, value!(1), value!("x"), value!([1]), value!({})];
    for part in parts {
        for filling in &fillings {
            let mut tree = value!({"metadata": {"name": (rules.resource)}});
            tree.set(&[part], filling.clone());
            trees.push(tree);
        }
    }
    trees
}

#[test]
fn any_tree_has_a_row_and_can_be_prepared() {
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    for rules in all() {
        for tree in misshapen(rules) {
            let cells = (rules.row)(&tree, &context());
            // Rows of addresses end with the age, which has no column.
            let unnamed = usize::from(rules.resource == "ipaddresses");
            assert_eq!(cells.len(), rules.columns.len() + unnamed, "{} {tree:?}", rules.resource);
            (rules.row_conditions)(&tree);
            for selectable in rules.selectable {
                (selectable.value)(&tree);
            }
            if let Some(scale) = rules.scale {
                scale.of(&tree);
            }
            for sub in ["", "status", "approval", "finalize", "resize", "ephemeralcontainers"] {
                rules.prepare_for_update(sub, &mut tree.clone(), &tree, &request);
            }
            rules.prepare_for_create(&mut tree.clone(), &request);
        }
    }
}

#[test]
fn every_status_endpoint_keeps_the_spec_and_every_main_one_the_status() {
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    let old = value!({"metadata": {"name": "x", "generation": 1}, "spec": {"a": 1}, "status": {"b": 1}});
    let sent = value!({"metadata": {"name": "x"}, "spec": {"a": 2}, "status": {"b": 2}});
    for resource in resources::all().iter().filter(|r| r.subresource("status").is_some()) {
        let rules = rules(&resource.group, &resource.name).unwrap();
        let after = |sub: &str| {
            let mut new = sent.clone();
            rules.prepare_for_update(sub, &mut new, &old, &request);
            (new.int_at(&["spec", "a"]), new.int_at(&["status", "b"]))
        };
        assert_eq!(after("status"), (Some(1), Some(2)), "{}", resource.name);
        assert_eq!(after("").1, Some(1), "{}", resource.name);
        let resets = |sub: &str| (rules.reset_fields)(sub);
        assert!(resets("").contains(&["status"].as_slice()), "{}", resource.name);
        assert!(resets("status").contains(&["spec"].as_slice()), "{}", resource.name);
    }
}

#[test]
fn a_dropped_status_shows_its_required_zeroes() {
    let mut set = value!({"metadata": {"name": "d"}, "spec": {}, "status": {"numberReady": 5}});
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    rules("apps", "daemonsets").unwrap().prepare_for_create(&mut set, &request);
    assert_eq!(set.int_at(&["status", "numberReady"]), Some(0));
}

#[test]
fn generations_start_and_count_as_each_resource_says() {
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    let generations = |group: &str, resource: &str, part: &str| {
        let rules = rules(group, resource).unwrap();
        let mut old = value!({"metadata": {"name": "x", "generation": 7}});
        old.set(&[part], value!({"a": 1}));
        rules.prepare_for_create(&mut old, &request);
        let mut new = old.clone();
        new.set(&[part], value!({"a": 2}));
        rules.prepare_for_update("", &mut new, &old, &request);
        [old, new].map(|object| object.int_at(&["metadata", "generation"]))
    };
    assert_eq!(generations("apps", "replicasets", "spec"), [Some(1), Some(2)]);
    assert_eq!(generations("", "configmaps", "data"), [Some(7), Some(7)]);
    assert_eq!(generations("scheduling.k8s.io", "priorityclasses", "value"), [Some(1), Some(1)]);
    assert_eq!(generations("", "podtemplates", "template"), [Some(1), Some(2)]);
    assert_eq!(
        generations("admissionregistration.k8s.io", "validatingwebhookconfigurations", "webhooks"),
        [Some(1), Some(2)]
    );
    assert_eq!(generations("discovery.k8s.io", "endpointslices", "endpoints"), [Some(1), Some(2)]);
    assert_eq!(generations("storage.k8s.io", "csidrivers", "spec"), [Some(7), Some(8)]);
}

#[test]
fn grace_is_for_pods_that_run() {
    let grace = rules("", "pods").unwrap().grace;
    let pod = |node: &str, phase: &str| value!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
    assert_eq!(grace.seconds(&pod("n", "Running"), None), Some(30));
    assert_eq!(grace.seconds(&pod("n", "Running"), Some(5)), Some(5));
    assert_eq!(grace.seconds(&pod("n", "Running"), Some(-1)), Some(1));
    assert_eq!(grace.seconds(&pod("", "Pending"), Some(5)), Some(0));
    assert_eq!(grace.seconds(&pod("n", "Failed"), None), Some(0));
    assert_eq!(rules("", "services").unwrap().grace.seconds(&pod("n", "Running"), None), None);
}

#[test]
fn fields_select_by_what_is_stored() {
    let chosen = |group: &str, resource: &str, label: &str, object: &Value| {
        let rules = rules(group, resource).unwrap();
        let selectable = rules.selectable.iter().find(|s| s.label == label);
        selectable.map(|s| (s.value)(object).to_string())
    };
    let pod = value!({"spec": {"nodeName": "n"}, "status": {"podIPs": [{"ip": "1.1.1.1"}]}});
    assert_eq!(chosen("", "pods", "spec.nodeName", &pod).as_deref(), Some("n"));
    assert_eq!(chosen("", "pods", "spec.host", &pod).as_deref(), Some("n"));
    assert_eq!(chosen("", "pods", "spec.hostNetwork", &pod).as_deref(), Some("false"));
    assert_eq!(chosen("", "pods", "status.podIP", &pod).as_deref(), Some("1.1.1.1"));
    assert_eq!(chosen("", "pods", "status.podIPs", &pod).as_deref(), Some(""));
    assert_eq!(chosen("", "pods", "spec.nodename", &pod), None);
    let event = value!({"involvedObject": {"name": "p"}, "reportingComponent": "kubelet"});
    assert_eq!(chosen("events.k8s.io", "events", "regarding.name", &event).as_deref(), Some("p"));
    assert_eq!(chosen("events.k8s.io", "events", "involvedObject.name", &event), None);
    assert_eq!(chosen("", "events", "source", &event).as_deref(), Some("kubelet"));
    let job = value!({"status": {"succeeded": 2}});
    assert_eq!(chosen("batch", "jobs", "status.successful", &job).as_deref(), Some("2"));
}
