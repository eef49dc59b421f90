//! The steps between decoding an object and storing it, for creates and updates: system metadata, the resource's own
//! preparation, generation, validation.
//!
//! Pure except for the time, which is passed in, and the random names and uids. All steps work on the stored form.

use std::collections::HashSet;

use corten_api::schema::StructRef;
use corten_api::status::ErrorList;
use corten_api::{ByContent, Status, Value, convert, managed, meta, resources, stored, time};
use corten_registry::{Request, Rules};
use http::header::CONTENT_TYPE;

use super::empty_values;
use crate::authorization::device_claims;
use crate::call::Call;
use crate::catalog::Type;
use crate::random;

/// Names longer than this are cut before the generated suffix is added.
const MAX_GENERATED_BASE: usize = 63 - 5;

/// The limit of owners in a warning about duplicates.
const MOST_DOUBLED: usize = 100;

/// A generated name for a prefix.
pub(super) fn generated_name(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_BASE);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &prefix[..end], random::name_suffix())
}

/// The rules of the stored form.
fn stored_rules(call: &Call) -> &'static Rules {
    call.served.cache.as_ref().map_or(call.served.rules, |cache| cache.form.rules)
}

/// The fields that no manager owns through an endpoint.
pub(super) fn ownership_filter(call: &Call, subresource: &str) -> Option<managed::Filter> {
    if let Some(version) = call.served.custom() {
        return version.reset_fields(subresource);
    }
    let resets = (call.served.rules.reset_fields)(subresource);
    (!resets.is_empty()).then(|| managed::Filter::Exclude(managed::Set::of_fields(resets)))
}

/// Converts a tree from the served version to the stored one.
pub(crate) fn to_stored(call: &Call, value: &mut Value) -> Result<(), Status> {
    match &call.served.cache {
        Some(cache) if !call.served.is_stored_form && call.served.custom().is_none() => {
            let (kind, served) = (&cache.form.kind, &call.served.api_version);
            convert::convert(kind, served, &cache.form.api_version, value)
                .map_err(|e| Status::bad_request(e.to_string()))?;
            (cache.form.rules.default)(value);
            (cache.form.rules.default_times)(value, call.now);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Drops the metadata that only the server sets from a new object, so that its client does not own it.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "selfLink"] {
        object.remove(&["metadata", field]);
    }
}

/// Refuses an object whose namespace differs from the URL's; an object without one gets the URL's.
pub(crate) fn agree_on_namespace(call: &Call, object: &mut Value) -> Result<(), Status> {
    if !call.served.resource.namespaced {
        // The namespace of a cluster-scoped object is dropped.
        meta::of(object).remove("namespace");
        return Ok(());
    }
    let in_url = call.at.namespace.as_str();
    let in_object = meta::namespace(object);
    if in_object.is_empty() {
        meta::set_text(object, "namespace", in_url);
        return Ok(());
    }
    if in_object != in_url {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The place where duplicate owners were found, in the warning about them.
pub(super) const AFTER_ADMISSION: &str = " after mutating admission happens";

/// Drops duplicate owner references and warns about them.
pub(super) fn drop_duplicate_owners(call: &mut Call, object: &mut Value, found: &str) {
    if object.items_at(&["metadata", "ownerReferences"]).len() < 2 {
        return;
    }
    let Some(owners) = meta::of(object).get_mut("ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    let all = std::mem::take(owners);
    let mut seen = HashSet::with_capacity(all.len());
    let mut doubled: Vec<&str> = Vec::new();
    for owner in &all {
        if seen.insert(ByContent(owner)) {
            owners.push(owner.clone());
        } else if doubled.len() < MOST_DOUBLED {
            doubled.push(owner.str_at(&["uid"]).unwrap_or_default());
        }
    }
    if !doubled.is_empty() {
        call.warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries{found}; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            doubled.join(", ")
        ));
    }
}

/// Refuses an object whose name differs from the URL's.
pub(super) fn agree_on_name(call: &Call, object: &mut Value) -> Result<(), Status> {
    let in_object = meta::name(object);
    if in_object.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.at.name
        )));
    }
    if in_object != call.at.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({in_object}) does not match the name on the URL ({})",
            call.at.name
        )));
    }
    Ok(())
}

/// Prepares an object in the stored form for its creation.
pub(super) fn for_create(call: &mut Call, object: &mut Value) -> Result<(), Status> {
    let rules = stored_rules(call);
    let metadata = meta::of(object);
    for stale in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(stale);
    }
    metadata.insert("creationTimestamp", time::format(call.now));
    metadata.insert("uid", random::uuid());
    let mut errors = ErrorList::new();
    if let Some(version) = call.served.custom() {
        version.prepare_create(object);
        version.validate_create(object, &mut errors);
    } else {
        let user = || call.user.to_value();
        drop_disabled(call, object);
        rules.prepare_for_create(object, &Request { now: call.now, user: Some(&user) });
        device_claims::check_new(call, object, &mut errors);
        call.served.rules.validate_for_create(call.served.resource.namespaced, object, &mut errors);
        call.served.rules.name_fields_in_version(&call.at.version, &mut errors);
    }
    accept(call, object, &errors)?;
    call.warnings.extend((rules.warnings)(object, None));
    null_empty_lists(call, object);
    Ok(())
}

/// Drops fields of a built-in kind whose feature gates are off.
fn drop_disabled(call: &Call, object: &mut Value) {
    if let Some(schema) = stored_schema(call) {
        stored::drop_disabled(object, &schema);
    }
}

/// Replaces empty lists by null, as upstream's storage encoding does. Definitions and API services are stored as JSON.
fn null_empty_lists(call: &Call, object: &mut Value) {
    let json = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
    if let Some(schema) = stored_schema(call).filter(|_| !json.contains(&stored_rules(call).group)) {
        stored::null_empty_lists(object, &schema);
    }
}

/// The type of a built-in kind in its stored version.
fn stored_schema(call: &Call) -> Option<StructRef> {
    let rules = stored_rules(call);
    match &call.served.objects {
        Type::Custom(_) => None,
        Type::BuiltIn(schema) if call.served.is_stored_form => Some(schema.clone()),
        Type::BuiltIn(_) => resources::schema_of(rules.group, rules.storage_version, call.served.kind()),
    }
}

/// Prepares an object in the stored form to replace the old one.
pub(super) fn for_update(
    call: &mut Call,
    subresource: &str,
    object: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let rules = stored_rules(call);
    let metadata = meta::of(object);
    if let Some(created) = old.at(&["metadata", "creationTimestamp"]) {
        metadata.insert("creationTimestamp", created.clone());
    }
    // Fields that only the server sets are kept if the client leaves them out.
    for kept in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(kept).is_none_or(Value::is_null)
            && let Some(value) = old.at(&["metadata", kept])
        {
            metadata.insert(kept, value.clone());
        }
    }
    let mut errors = ErrorList::new();
    if let Some(version) = call.served.custom().cloned() {
        version.prepare_update(subresource, object, old);
        let mut tolerated = Vec::new();
        version.validate_update(subresource, object, old, &mut errors, &mut tolerated);
        call.warnings.extend(tolerated);
    } else {
        let user = || call.user.to_value();
        if !rules.counts_disabled_fields {
            drop_disabled(call, object);
        }
        rules.prepare_for_update(subresource, object, old, &Request { now: call.now, user: Some(&user) });
        if rules.counts_disabled_fields {
            drop_disabled(call, object);
        }
        if subresource == "status" {
            device_claims::check_status(call, object, old, &mut errors);
        }
        let namespaced = call.served.resource.namespaced;
        call.served.rules.validate_for_update(subresource, namespaced, object, old, &mut errors);
        call.served.rules.name_fields_in_version(&call.at.version, &mut errors);
    }
    accept(call, object, &errors)?;
    // Warnings about an object are sent with writes of the object, not of its subresources.
    if subresource.is_empty() {
        call.warnings.extend((rules.warnings)(object, Some(old)));
    }
    null_empty_lists(call, object);
    Ok(())
}

fn accept(call: &Call, object: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let group = match call.served.custom() {
        Some(_) => call.served.group(),
        None => stored_rules(call).group,
    };
    let is_json =
        call.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let schema = stored_schema(call).filter(|_| is_json);
    let as_sent = schema.and_then(|schema| empty_values::as_sent(errors, &call.body, &schema));
    let errors = as_sent.as_ref().unwrap_or(errors);
    Err(Status::invalid(group, call.served.kind(), meta::name(object), errors))
}
