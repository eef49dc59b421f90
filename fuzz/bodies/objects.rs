//! Objects of every kind, as requests create and update them: defaults, preparation, validation, warnings, columns and
//! selectable fields. Any object that conforms to its type is accepted or refused.

use corten_api::conform::{Extent, conform};
use corten_api::resources::{self, Resource};
use corten_api::status::{ErrorList, Status};
use corten_api::{Value, json};
use corten_registry::{Request, RowContext, Rules, rules};
use jiff::Timestamp;

const SUBRESOURCES: [&str; 6] = ["", "status", "resize", "ephemeralcontainers", "approval", "finalize"];

pub(crate) fn check(data: &[u8]) {
    let Ok(mut sent) = json::parse(data) else { return };
    let Some((resource, rules)) = resource_of(&sent) else { return };
    let schema = resource.schema().expect("a resource has a type");
    if conform(&mut sent, &schema, Extent::Whole, &mut Vec::new()).is_err() {
        return;
    }
    (rules.default)(&mut sent);
    if resource.namespaced {
        sent.set(&["metadata", "namespace"], "default");
    }
    sent.set(&["metadata", "uid"], "8b1e9d64-5a0c-4c3e-8d53-1e2bf2f7a9c1");
    sent.set(&["metadata", "resourceVersion"], "7");
    create(resource, rules, sent.clone());
    update(resource, rules, &sent);
    let _ = (rules.row)(&sent, &RowContext { now: Timestamp::UNIX_EPOCH, marked: None });
    for selectable in rules.selectable {
        let _ = (selectable.value)(&sent);
    }
}

fn resource_of(object: &Value) -> Option<(&'static Resource, &'static Rules)> {
    let (group, version) = resources::split_api_version(object.str_at(&["apiVersion"])?);
    let kind = object.str_at(&["kind"])?;
    let is_it = |resource: &&Resource| {
        resource.group == group && resource.version == version && resource.kind == kind
    };
    let resource = resources::all().iter().find(is_it)?;
    Some((resource, rules(&resource.group, &resource.name)?))
}

fn request() -> Request<'static> {
    Request { now: Timestamp::UNIX_EPOCH, user: None }
}

fn create(resource: &Resource, rules: &Rules, mut new: Value) {
    rules.prepare_for_create(&mut new, &request());
    let mut errors = ErrorList::new();
    rules.validate_for_create(resource.namespaced, &new, &mut errors);
    let _ = (Status::invalid("", "", "", &errors).to_value(), (rules.warnings)(&new, None));
}

/// Every endpoint of the resource, with an old state whose lists are in another order.
fn update(resource: &Resource, rules: &Rules, sent: &Value) {
    let mut old = sent.clone();
    reverse(&mut old);
    for subresource in SUBRESOURCES {
        if !subresource.is_empty() && resource.subresource(subresource).is_none() {
            continue;
        }
        let mut new = sent.clone();
        rules.prepare_for_update(subresource, &mut new, &old, &request());
        rules.validate_for_update(subresource, resource.namespaced, &new, &old, &mut ErrorList::new());
        let _ = (rules.warnings)(&new, Some(&old));
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
