//! No object is judged at a cost out of proportion to its size: every list and map of every kind, made long, in an
//! object that is sound otherwise. What is measured is in `crates/api/tests/bounds/meter.rs`.
//!
//! The objects are the bases of the validation tables. A list or map that several kinds share is made long once.

#[path = "../../api/tests/bounds/meter.rs"]
mod meter;

use std::collections::HashSet;
use std::path::Path;

use corten_api::conform::{Extent, conform};
use corten_api::resources::{self, Resource};
use corten_api::schema::{Kind, Struct};
use corten_api::status::{ErrorList, Status};
use corten_api::{Map, Str, Value, json, value, yaml};
use corten_registry::{Request, RowContext, Rules, rules};
use jiff::Timestamp;
use meter::{excess, settle};

/// The number of items of the shorter lists of structures: long enough that one cheap comparison of each item with each shows
/// beside the work on each item.
const FEW: usize = 1_000;
/// The number of items of the shorter lists and maps of texts and numbers: comparing two of those costs so little that quadratic work
/// on fewer would not show.
const FEW_SCALARS: usize = 2_000;
/// Types that refer to themselves are followed only so far.
const MAX_STEPS: usize = 14;

/// All whole objects of the tables.
fn bases() -> Vec<Value> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/validation");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("is there").map(|entry| entry.expect("can be listed").path()).collect();
    // What stands alone first: what it shares with others is then tried there.
    files.sort_by_key(|path| (!path.ends_with("core-pods.yaml"), path.clone()));
    let read = |path: &Path| {
        let text = std::fs::read(path).expect("can be read");
        let table = yaml::to_value(&text, &mut Vec::new()).expect("is YAML");
        let bases = table.get("bases").and_then(Value::as_object).cloned().unwrap_or_default();
        bases.into_iter().map(|(_, base)| base).collect::<Vec<_>>()
    };
    files.iter().flat_map(|path| read(path)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Member(Str),
    First,
}

/// A list or map of a kind, and what its items are.
struct Long<'s> {
    path: Vec<Step>,
    item: &'s Kind,
    is_map: bool,
}

/// Finds the lists and maps of a type that were not seen in another.
fn find<'s>(
    schema: &'s Struct,
    path: &mut Vec<Step>,
    seen: &mut HashSet<(Str, Str, Str)>,
    found: &mut Vec<Long<'s>>,
) {
    for field in &schema.fields {
        let key = (schema.package.clone(), schema.name.clone(), field.name.clone());
        // The members of an object are its own, whatever types they share.
        if path.len() >= MAX_STEPS || !seen.insert(key) {
            continue;
        }
        path.push(Step::Member(field.name.clone()));
        look_into(&field.kind, path, seen, found);
        path.pop();
    }
}

fn look_into<'s>(
    kind: &'s Kind,
    path: &mut Vec<Step>,
    seen: &mut HashSet<(Str, Str, Str)>,
    found: &mut Vec<Long<'s>>,
) {
    match kind {
        Kind::Struct(schema) => find(schema, path, seen, found),
        Kind::List(item, _) | Kind::Map(item, _) => {
            found.push(Long { path: path.clone(), item, is_map: matches!(kind, Kind::Map(..)) });
            path.push(if matches!(kind, Kind::Map(..)) { Step::Member("x0".into()) } else { Step::First });
            look_into(item, path, seen, found);
            path.pop();
        }
        _ => {}
    }
}

/// A value of a kind that differs from the others.
fn made(kind: &Kind, i: usize, depth: usize) -> Value {
    let text = |text: String| Value::from(text);
    match kind {
        Kind::String => text(format!("x{i}")),
        Kind::Bool => Value::Bool(true),
        Kind::Int32 | Kind::Int64 | Kind::IntOrString => Value::from(i as i64 + 1),
        Kind::Double => Value::Float(i as f64),
        Kind::Bytes => text("eA==".into()),
        Kind::Quantity => text("1".into()),
        Kind::Time => text("2024-01-01T00:00:00Z".into()),
        Kind::MicroTime => text("2024-01-01T00:00:00.000000Z".into()),
        Kind::Duration => text("1s".into()),
        Kind::Raw | Kind::Any(_) => Value::object(),
        Kind::FieldsV1 => Value::Raw("{\"f:a\":{}}".into()),
        Kind::List(item, _) => Value::Array(vec![made(item, i, depth + 1)]),
        Kind::Map(item, _) => {
            Value::Object([(Str::from(format!("x{i}")), made(item, i, depth + 1))].into_iter().collect())
        }
        Kind::Struct(schema) => {
            let fields = schema.fields.iter().filter(|field| {
                depth < 1 || !matches!(field.kind, Kind::Struct(_) | Kind::List(..) | Kind::Map(..))
            });
            let member = |field: &corten_api::schema::Field| {
                let value = match (field.enum_values.first(), &field.kind) {
                    (Some(first), Kind::String) => Value::String(first.clone()),
                    _ => made(&field.kind, i, depth + 1),
                };
                (field.name.clone(), value)
            };
            Value::Object(
                fields
                    .filter(|field| {
                        field.required || matches!(field.kind, Kind::String | Kind::Int32 | Kind::List(..))
                    })
                    .map(member)
                    .collect(),
            )
        }
    }
}

/// A copy of an item that differs in its own texts and numbers from others.
fn varied(item: &Value, i: usize) -> Value {
    let vary = |value: &Value| match value {
        Value::String(text) => Value::from(format!("{text}{i}")),
        Value::Int(_) => Value::from(i as i64 + 1),
        other => other.clone(),
    };
    match item {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, value)| (key.clone(), vary(value))).collect())
        }
        other => vary(other),
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// Items like the base's first, or made from their type, each another.
    Varied,
    /// One item again and again.
    Same,
}

/// The base with one list or map made long.
fn lengthened(base: &Value, long: &Long<'_>, way: Way, count: usize) -> Value {
    let mut object = base.clone();
    let mut place = &mut object;
    for step in &long.path {
        place = match step {
            Step::Member(name) => place.make_object().entry(name.clone()),
            Step::First => {
                let items = place.make_array();
                if items.is_empty() {
                    items.push(Value::Null);
                }
                &mut items[0]
            }
        };
    }
    let first = match &*place {
        Value::Array(items) => items.first().cloned(),
        Value::Object(map) => map.iter().next().map(|(_, value)| value.clone()),
        _ => None,
    };
    let item = |i: usize| match (way, &first) {
        (Way::Varied, Some(first)) => varied(first, i),
        (Way::Same, Some(first)) => first.clone(),
        (Way::Same, None) => made(long.item, 0, 0),
        _ => made(long.item, i, 0),
    };
    *place = match long.is_map {
        true => Value::Object((0..count).map(|i| (Str::from(format!("x{i}")), item(i))).collect::<Map>()),
        false => Value::Array((0..count).map(item).collect()),
    };
    object
}

fn resource_of(object: &Value) -> Option<(&'static Resource, &'static Rules)> {
    let (group, version) = resources::split_api_version(object.str_at(&["apiVersion"])?);
    let kind = object.str_at(&["kind"])?;
    let resource =
        resources::all().iter().find(|r| r.group == group && r.version == version && r.kind == kind)?;
    Some((resource, rules(&resource.group, &resource.name)?))
}

/// Takes an object through everything a request does with it.
fn judge(object: &Value) {
    let Some((resource, rules)) = resource_of(object) else { return };
    let schema = resource.schema().expect("has a schema");
    let mut sent = object.clone();
    if conform(&mut sent, &schema, Extent::Whole, &mut Vec::new()).is_err() {
        return;
    }
    (rules.default)(&mut sent);
    if resource.namespaced {
        sent.set(&["metadata", "namespace"], "default");
    }
    sent.set(&["metadata", "uid"], "8b1e9d64-5a0c-4c3e-8d53-1e2bf2f7a9c1");
    sent.set(&["metadata", "resourceVersion"], "7");
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    let mut new = sent.clone();
    rules.prepare_for_create(&mut new, &request);
    let mut errors = ErrorList::new();
    rules.validate_for_create(resource.namespaced, &new, &mut errors);
    let status = Status::invalid("", "", "", &errors).to_value();
    drop((status, (rules.warnings)(&new, None)));
    // The same the other way round, as an update of every endpoint.
    let mut old = sent.clone();
    reverse(&mut old);
    for subresource in ["", "status", "resize", "ephemeralcontainers", "approval", "finalize"] {
        if !subresource.is_empty() && resource.subresource(subresource).is_none() {
            continue;
        }
        let mut changed = sent.clone();
        rules.prepare_for_update(subresource, &mut changed, &old, &request);
        rules.validate_for_update(subresource, resource.namespaced, &changed, &old, &mut ErrorList::new());
        drop((rules.warnings)(&changed, Some(&old)));
    }
    drop((rules.row)(&sent, &RowContext { now: Timestamp::UNIX_EPOCH, marked: None }));
    for selectable in rules.selectable {
        drop((selectable.value)(&sent));
    }
}

fn reverse(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.reverse();
            items.iter_mut().for_each(reverse);
        }
        Value::Object(map) => map.iter_mut().for_each(|(_, value)| reverse(value)),
        _ => {}
    }
}

/// A share of all lists and maps, so that several tests do the work side by side.
fn check(share: usize, shares: usize) {
    let mut seen = HashSet::new();
    let mut complaints = Vec::new();
    let mut count = 0;
    for base in bases() {
        let Some((resource, _)) = resource_of(&base) else { continue };
        let schema = resource.schema().expect("has a schema");
        let mut found = Vec::new();
        find(&schema, &mut Vec::new(), &mut seen, &mut found);
        for long in found {
            count += 1;
            if count % shares != share {
                continue;
            }
            let few = if matches!(long.item, Kind::Struct(_)) { FEW } else { FEW_SCALARS };
            for way in [Way::Varied, Way::Same] {
                let name = format!("{} {} {way:?}", resource.kind, spelled(&long.path));
                let size = |object: &Value| json::write_to_string(object).len();
                complaints.extend(excess(&name, few, |n| lengthened(&base, &long, way, n), size, judge));
            }
        }
    }
    assert!(count > 300, "{count} lists and maps were found");
    settle(&complaints);
}

fn spelled(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Member(name) => format!(".{name}"),
        Step::First => "[]".to_owned(),
    };
    path.iter().map(step).collect()
}

#[test]
fn lists_and_maps_of_every_kind_first_quarter() {
    check(0, 4);
}

#[test]
fn lists_and_maps_of_every_kind_second_quarter() {
    check(1, 4);
}

#[test]
fn lists_and_maps_of_every_kind_third_quarter() {
    check(2, 4);
}

#[test]
fn lists_and_maps_of_every_kind_fourth_quarter() {
    check(3, 4);
}

/// Lists of which an update compares every item with those that were there before: long enough that looking each up in
/// the whole list shows, however little one comparison costs.
#[test]
fn updates_look_items_up() {
    const FEW: usize = 2_000;
    type Make = fn(usize, &str) -> Value;
    let service: Make = |n, old| {
        let ranges: Vec<Value> =
            (0..n).map(|i| Value::from(format!("{old}10.{}.{}.0/24", i / 250, i % 250))).collect();
        value!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {
            "type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": (ranges),
        }})
    };
    let external: Make = |n, old| {
        let ips: Vec<Value> =
            (0..n).map(|i| Value::from(format!("{old}10.{}.{}.1", i / 250, i % 250))).collect();
        value!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {
            "ports": [{"port": 80}], "externalIPs": (ips),
        }})
    };
    let ingress: Make = |n, old| {
        let points =
            (0..n).map(|i| value!({"ip": (format!("{old}10.{}.{}.1", i / 250, i % 250)), "ipMode": "VIP"}));
        value!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            "status": {"loadBalancer": {"ingress": (points.collect::<Vec<_>>())}}})
    };
    let pod: Make = |n, old| {
        // Both lists have their common items in opposite order, and the new one lacks an old toleration: every item is
        // looked up, the last of them in vain.
        let item = |i: usize| value!({"key": (format!("k{i}")), "operator": "Exists"});
        let mut tolerations: Vec<Value> = (1..n).map(item).collect();
        if !old.is_empty() {
            tolerations.reverse();
            tolerations.push(item(0));
        }
        value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i"}], "tolerations": (tolerations),
        }})
    };
    let gates: Make = |n, old| {
        let gates = (0..n).map(|i| value!({"name": (format!("{old}g{i}"))}));
        value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i"}], "schedulingGates": (gates.collect::<Vec<_>>()),
        }})
    };
    let policy: Make = |n, old| {
        let peers =
            (0..n).map(|i| value!({"ipBlock": {"cidr": (format!("{old}10.{}.{}.0/24", i / 250, i % 250))}}));
        value!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": {
            "podSelector": {}, "ingress": [{"from": (peers.collect::<Vec<_>>())}],
        }})
    };
    let set: Make = |n, _| {
        let claims = (0..n).map(|i| value!({"metadata": {"name": (format!("c{i}"))}, "spec": {}}));
        let volumes = (0..n).map(|i| value!({"name": (format!("v{i}")), "emptyDir": {}}));
        value!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "volumeClaimTemplates": (claims.collect::<Vec<_>>()),
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "c", "image": "i"}], "volumes": (volumes.collect::<Vec<_>>()),
            }},
        }})
    };
    let table = [
        ("loadBalancerSourceRanges", service, "", ""),
        ("externalIPs", external, "", ""),
        ("ingress", ingress, "status", ""),
        ("tolerations", pod, "", "existing toleration can not be modified"),
        ("schedulingGates", gates, "", "only deletion is allowed"),
        ("ipBlock", policy, "", ""),
        ("volumes", set, "", ""),
    ];
    let mut complaints = Vec::new();
    for (name, make, subresource, refusal) in table {
        let size = |(new, _): &(Value, Value)| json::write_to_string(new).len();
        let update = |(new, old): &(Value, Value)| {
            let (resource, rules) = resource_of(new).expect("is known");
            let mut errors = ErrorList::new();
            rules.validate_for_update(subresource, resource.namespaced, new, old, &mut errors);
            let status = Status::invalid("", "", "", &errors);
            assert!(status.message.contains(refusal), "{name} does not reach its check: {}", status.message);
        };
        complaints.extend(excess(name, FEW, |n| (make(n, ""), make(n, "0")), size, update));
    }
    settle(&complaints);
}
