//! The cost of every input is bounded by its size: every decoder, patch, selector and number over texts that are as
//! expensive as possible. See `bounds/meter.rs` for the measure.

#[path = "bounds/meter.rs"]
mod meter;
#[path = "bounds/texts.rs"]
mod texts;
#[path = "bounds/trees.rs"]
mod trees;

use corten_api::conform::{Extent, conform};
use corten_api::managed::{self, Set};
use corten_api::quantity::Quantity;
use corten_api::schedule::Schedule;
use corten_api::selector::{FieldSelector, LabelSelector};
use corten_api::{Value, json, patch, protobuf, schema, time, yaml};
use meter::{excess, settle};

/// Every text, given to one decoder.
fn check(texts: texts::Texts, small: usize, work: fn(&[u8])) {
    let complaints: Vec<String> = texts
        .iter()
        .filter_map(|(name, text)| excess(name, small, text, Vec::len, |text| work(text)))
        .collect();
    settle(&complaints);
}

fn conformed(mut value: Value, package: &str, kind: &str) -> (Value, Vec<String>) {
    let schema = schema::lookup(package, kind).expect("the table has the type");
    let mut strict = Vec::new();
    // A refusal is as good as any other outcome here.
    let _ = conform(&mut value, &schema, Extent::Whole, &mut strict);
    (value, strict)
}

#[test]
fn json_texts() {
    check(texts::JSON, 40_000, |text| {
        let mut duplicates = Vec::new();
        let Ok(value) = json::parse_reporting(text, Some(&mut duplicates)) else { return };
        let mut written = Vec::new();
        json::write(&mut written, &value);
        let (_, strict) = conformed(value, "core/v1", "Pod");
        let paths: Vec<&str> = strict.iter().filter_map(|finding| finding.split('"').nth(1)).collect();
        drop(json::places(text, &paths));
    });
}

#[test]
fn yaml_texts() {
    check(texts::YAML, 5_000, |text| {
        let Ok(value) = yaml::to_value(text, &mut Vec::new()) else { return };
        drop(json::write_to_string(&value));
    });
}

#[test]
fn protobuf_messages() {
    check(texts::PROTOBUF, 40_000, |message| {
        for (package, kind) in [("core/v1", "Pod"), ("apiextensions/v1", "CustomResourceDefinition")] {
            let schema = schema::lookup(package, kind).expect("the table has the type");
            let Ok(value) = protobuf::decode(&schema, message) else { continue };
            let (value, _) = conformed(value, package, kind);
            let _ = protobuf::encode(&schema, &value, &mut Vec::new());
        }
        let _ = protobuf::decode_envelope(message);
        let _ = protobuf::decode_object(message);
    });
}

#[test]
fn selectors() {
    check(texts::SELECTORS, 20_000, |text| {
        let Ok(text) = std::str::from_utf8(text) else { return };
        if let Ok(selector) = LabelSelector::parse(text) {
            let labels = trees::labels(100);
            assert!(labels.iter().filter(|labels| selector.matches(labels)).count() <= labels.len());
            drop(selector.to_string());
        }
        let _ = FieldSelector::parse(text).map(|selector| selector.to_string());
    });
}

#[test]
fn quantities_times_and_schedules() {
    check(texts::SCALARS, 40_000, |text| {
        let Ok(text) = std::str::from_utf8(text) else { return };
        if let Ok(mut quantity) = Quantity::parse(text) {
            quantity.add(Quantity::from_milli(1, quantity.format()));
            drop((quantity.to_str(), quantity.value(), quantity.milli_value()));
        }
        let _ = corten_api::quantity::canonical(text);
        let _ = time::go_duration(text);
        let _ = time::parse(text);
        let _ = Schedule::parse(text);
        let _ = corten_api::names::qualified_name(text);
        let _ = corten_api::names::dns1123_subdomain(text);
        let _ = corten_api::names::config_map_key(text);
        let _ = corten_api::names::label_value(text);
    });
}

#[test]
fn field_sets() {
    check(texts::FIELD_SETS, 20_000, |text| {
        let Ok(text) = std::str::from_utf8(text) else { return };
        let Ok(set) = Set::parse(text) else { return };
        drop((set.to_text(), set.union(&set), set.difference(&set), set.intersection(&set)));
        drop((set.leaves(), set.paths(1 << 18)));
    });
}

/// An object and the change of it.
type Change = (Value, Value);

fn size((object, change): &Change) -> usize {
    json::write_to_string(object).len() + json::write_to_string(change).len()
}

fn check_changes(cases: trees::Changes, small: usize, work: fn(&Change)) {
    let complaints: Vec<String> =
        cases.iter().filter_map(|(name, change)| excess(name, small, change, size, work)).collect();
    settle(&complaints);
}

#[test]
fn json_patches() {
    check_changes(trees::JSON_PATCHES, 1_200, |(object, operations)| {
        let _ = patch::json::check(operations);
        let mut patched = object.clone();
        if patch::json::apply(&mut patched, operations).is_ok() {
            let text = json::write_to_string(&patched);
            json::parse(text.as_bytes()).expect("what was patched can be read again");
        }
    });
}

#[test]
fn merge_patches() {
    check_changes(trees::MERGE_PATCHES, 10_000, |(object, change)| {
        let _ = patch::merge(&mut object.clone(), change);
    });
}

#[test]
fn strategic_merge_patches() {
    let pod = |(object, change): &Change| {
        let schema = schema::lookup("core/v1", "Pod").expect("the table has pods");
        let mut patched = object.clone();
        if let Err(error) = patch::strategic::apply(&mut patched, change, &schema) {
            drop(error.to_status());
        }
    };
    check_changes(trees::STRATEGIC_PATCHES, 5_000, pod);
    check_changes(trees::MERGE_PATCHES, 10_000, pod);
}

fn context(schema: &schema::Struct) -> managed::Context<'_> {
    let (now, api_version) = ("2024-01-01T00:00:00Z", "v1");
    managed::Context {
        schema,
        api_version,
        manager: "bounds",
        subresource: "",
        now,
        filter: None,
        versions: None,
    }
}

#[test]
fn field_management() {
    check_changes(trees::MANAGED, 2_000, |(live, new)| {
        let schema = schema::lookup("core/v1", "Pod").expect("the table has pods");
        let context = context(&schema);
        let mut updated = new.clone();
        managed::update(&context, Some(live), &mut updated);
        let mut created = new.clone();
        managed::update(&context, None, &mut created);
        let mut applied = new.clone();
        applied.remove(&["metadata", "managedFields"]);
        for (live, force) in [(None, false), (Some(live), false), (Some(live), true)] {
            let _ = managed::apply(&context, live, &applied, force).map_err(|status| status.to_value());
        }
    });
}

/// Inputs of the maximum size of a request's body that were too expensive in an earlier build.
mod found_by_review {
    use super::*;

    fn is_refused_as(value: Result<Value, impl std::fmt::Display>, why: &str) {
        let error = value.map(|_| ()).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains(why)), "{error:?}");
    }

    #[test]
    fn unknown_fields_below_a_long_key() {
        let text = texts::unknown_below_long_key(100_000);
        let value = json::parse(&text).expect("it is JSON");
        let (_, strict) = conformed(value, "core/v1", "Pod");
        assert!(!strict.is_empty());
        assert!(strict.iter().map(String::len).sum::<usize>() < 2 * text.len());
    }

    #[test]
    fn aliases_of_a_large_scalar() {
        let text = texts::aliased_scalar(100_000);
        is_refused_as(yaml::to_value(&text, &mut Vec::new()), "excessive aliasing");
    }

    #[test]
    fn patches_that_nest() {
        for (name, change) in trees::JSON_PATCHES.iter().filter(|(name, _)| name.contains("nest")) {
            let (mut object, operations) = change(9_000);
            let outcome = patch::json::apply(&mut object, &operations);
            assert_eq!(outcome.map_err(|error| error.to_status().code), Err(422), "{name}");
        }
    }
}
