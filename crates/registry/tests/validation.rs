//! Accepted and refused objects, in upstream's words: tables of objects and of all errors and warnings of an upstream
//! API server.
//!
//! Each file in `validation/` has `bases`, whole objects by name, and `cases`. A case changes a base with a
//! merge patch (`with`) and lists the `errors` in order, as `field: message`. A case with `old` is an update:
//! `old` changes the base into the stored object, status included, `with` changes that into the request, to
//! `subresource` if there is one. A case with `warnings` also lists the warnings of accepted objects.

use std::path::Path;

use corten_api::conform::{Extent, conform};
use corten_api::resources::{self, Resource};
use corten_api::status::ErrorList;
use corten_api::{Str, Value, json, patch, yaml};
use corten_registry::{Request, Rules, rules};
use jiff::Timestamp;

struct Table {
    file: String,
    tree: Value,
}

fn tables() -> Vec<Table> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/validation");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).expect("is there").map(|entry| entry.expect("can be listed").path()).collect();
    files.sort();
    let read = |path: &Path| {
        let mut duplicates = Vec::new();
        let tree = yaml::to_value(&std::fs::read(path).expect("can be read"), &mut duplicates)
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(duplicates.is_empty(), "{}: duplicate keys", path.display());
        Table { file: path.file_name().expect("has a name").to_string_lossy().into_owned(), tree }
    };
    files.iter().map(|path| read(path)).collect()
}

/// The resource of an object, which must be in its stored version.
fn resource_of(object: &Value) -> (&'static Resource, &'static Rules) {
    let (group, version) =
        resources::split_api_version(object.str_at(&["apiVersion"]).expect("has an apiVersion"));
    let kind = object.str_at(&["kind"]).expect("has a kind");
    let resource = resources::all()
        .iter()
        .find(|r| r.group == group && r.version == version && r.kind == kind)
        .unwrap_or_else(|| panic!("no {kind} in {group}/{version}"));
    let rules = rules(&resource.group, &resource.name).expect("every resource has rules");
    assert_eq!(rules.storage_version, version, "{kind} is not stored in this version");
    (resource, rules)
}

fn patched(base: &Value, with: Option<&Value>) -> Value {
    let mut object = base.clone();
    if let Some(with) = with {
        patch::merge(&mut object, with).expect("a merge patch");
    }
    object
}

/// The decoded object of a body.
fn decoded(title: &str, mut object: Value) -> (Value, &'static Resource, &'static Rules) {
    let (resource, rules) = resource_of(&object);
    let mut complaints = Vec::new();
    conform(&mut object, &resource.schema().expect("has a schema"), Extent::Whole, &mut complaints)
        .unwrap_or_else(|e| panic!("{title}: {e}"));
    assert!(complaints.is_empty(), "{title}: {complaints:?}");
    (rules.default)(&mut object);
    (rules.default_times)(&mut object, Timestamp::UNIX_EPOCH);
    if resource.namespaced && object.str_at(&["metadata", "namespace"]).is_none() {
        object.set(&["metadata", "namespace"], "default");
    }
    (object, resource, rules)
}

/// Sets the fields that an object gets when it is created.
fn created(object: &mut Value) {
    object.set(&["metadata", "uid"], "8b1e9d64-5a0c-4c3e-8d53-1e2bf2f7a9c1");
    object.set(&["metadata", "creationTimestamp"], "2026-01-01T00:00:00Z");
}

/// All errors and warnings of a case.
fn complaints(title: &str, base: &Value, case: &Value) -> (ErrorList, Vec<String>) {
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    let mut errors = ErrorList::new();
    let Some(old) = case.get("old") else {
        let (mut object, resource, rules) = decoded(title, patched(base, case.get("with")));
        if rules.stored {
            created(&mut object);
        }
        rules.prepare_for_create(&mut object, &request);
        rules.validate_for_create(resource.namespaced, &object, &mut errors);
        return (errors, (rules.warnings)(&object, None));
    };
    let sent_first = patched(base, Some(old));
    let (mut stored, resource, rules) = decoded(title, sent_first.clone());
    created(&mut stored);
    let status = sent_first.get("status").and_then(|_| stored.get("status")).cloned();
    rules.prepare_for_create(&mut stored, &request);
    if let Some(status) = status {
        stored.set(&["status"], status);
    }
    let (mut object, ..) = decoded(title, patched(&sent_first, case.get("with")));
    created(&mut object);
    for tree in [&mut stored, &mut object] {
        tree.set(&["metadata", "resourceVersion"], "7");
    }
    let subresource = case.str_at(&["subresource"]).unwrap_or_default();
    rules.prepare_for_update(subresource, &mut object, &stored, &request);
    rules.validate_for_update(subresource, resource.namespaced, &object, &stored, &mut errors);
    (errors, (rules.warnings)(&object, Some(&stored)))
}

#[test]
fn objects_are_validated_as_by_upstream() {
    let mut wrong = Vec::new();
    for Table { file, tree } in tables() {
        for case in tree.items_at(&["cases"]) {
            let title = format!("{file}: {}", case.str_at(&["case"]).expect("a case has a title"));
            let base = case.str_at(&["base"]).and_then(|name| tree.at(&["bases", name]));
            let base = base.unwrap_or_else(|| panic!("{title}: no base"));
            let (found, warnings) = complaints(&title, base, case);
            let found: Vec<String> =
                found.causes().into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
            let expected = |key: &str| -> Vec<&str> {
                case.items_at(&[key]).iter().map(|e| e.as_str().expect("is text")).collect()
            };
            if found != expected("errors") {
                wrong.push(format!("{title}\n  expected {:#?}\n  found {found:#?}", expected("errors")));
            }
            if case.get("warnings").is_some() && warnings != expected("warnings") {
                wrong.push(format!("{title}\n  expected {:#?}\n  found {warnings:#?}", expected("warnings")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases differ\n{}", wrong.len(), wrong.join("\n"));
}

/// No tree, whether a client can get it past decoding or not, makes validation panic.
#[test]
fn any_tree_can_be_validated() {
    let request = Request { now: Timestamp::UNIX_EPOCH, user: None };
    for Table { file, tree } in tables() {
        for (name, base) in tree.get("bases").and_then(Value::as_object).expect("has bases").iter() {
            let (whole, resource, rules) = decoded(&format!("{file}: {name}"), base.clone());
            each_part_replaced(&whole, &mut |mut tree| {
                let mut errors = ErrorList::new();
                rules.prepare_for_create(&mut tree, &request);
                rules.validate_for_create(resource.namespaced, &tree, &mut errors);
                rules.validate_for_update("", resource.namespaced, &tree, &whole, &mut errors);
                rules.validate_for_update("", resource.namespaced, &whole, &tree, &mut errors);
                for subresource in &resource.subresources {
                    let name = &subresource.name;
                    rules.validate_for_update(name, resource.namespaced, &tree, &whole, &mut errors);
                }
                let warnings = ((rules.warnings)(&tree, None), (rules.warnings)(&tree, Some(&whole)));
                let _ = (json::write_to_string(&tree), warnings);
            });
        }
    }
}

/// Maximum number of replaced parts of one object; of more, these are spread evenly.
const MOST_PARTS: usize = 200;

/// The tree with each of its parts replaced by each possible other value.
fn each_part_replaced(tree: &Value, seen: &mut dyn FnMut(Value)) {
    let mut places = Vec::new();
    collect_places(tree, &mut Vec::new(), &mut places);
    for place in places.iter().step_by(places.len().div_ceil(MOST_PARTS)) {
        for other in [Value::Null, Value::from(-7), Value::from("text"), Value::Array(vec![Value::Null])] {
            let mut whole = tree.clone();
            *part_of(&mut whole, place) = other;
            seen(whole);
        }
    }
}

#[derive(Clone)]
enum Step {
    Member(Str),
    Item(usize),
}

fn collect_places(tree: &Value, here: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    places.push(here.clone());
    let below: Vec<(Step, &Value)> = match tree {
        Value::Object(map) => map.iter().map(|(key, part)| (Step::Member(key.clone()), part)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, part)| (Step::Item(i), part)).collect(),
        _ => Vec::new(),
    };
    for (step, part) in below {
        here.push(step);
        collect_places(part, here, places);
        here.pop();
    }
}

fn part_of<'t>(tree: &'t mut Value, place: &[Step]) -> &'t mut Value {
    place.iter().fold(tree, |tree, step| match step {
        Step::Member(key) => tree.get_mut(key).expect("a member that was there"),
        Step::Item(i) => &mut tree.as_array_mut().expect("a list that was there")[*i],
    })
}
