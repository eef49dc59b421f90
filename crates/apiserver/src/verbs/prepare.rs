//! What happens to an object between decoding and the store, for creates and updates alike: system
//! metadata, the resource's own preparation, generation, validation.
//!
//! Pure but for the clock reading and randomness handed in or drawn for names and uids. Everything works
//! on the stored form.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Status, Value, convert, managed, meta, time};
use corten_registry::{Request, Rules};

use crate::call::Call;
use crate::random;

/// Names longer than this are cut before the generated suffix is added.
const MAX_GENERATED_BASE: usize = 63 - 5;

/// As many owners are named in a warning that they stand twice.
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

/// Which fields an endpoint keeps everybody from owning.
pub(super) fn ownership_filter(call: &Call, subresource: &str) -> Option<managed::Filter> {
    let resets = (call.served.rules.reset_fields)(subresource);
    (!resets.is_empty()).then(|| managed::Filter::Exclude(managed::Set::of_fields(resets)))
}

/// Brings a tree of the served version to the stored one.
pub(super) fn to_stored(call: &Call, value: &mut Value) -> Result<(), Status> {
    match &call.served.cache {
        Some(cache) if !call.served.is_stored_form => {
            let (kind, served) = (cache.form.kind, &call.served.api_version);
            convert::convert(kind, served, &cache.form.api_version, value)
                .map_err(|e| Status::bad_request(e.to_string()))?;
            (cache.form.rules.default)(value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The URL and the object must agree on the namespace; one that leaves it out gets it.
pub(crate) fn agree_on_namespace(call: &Call, object: &mut Value) -> Result<(), Status> {
    if !call.served.resource.namespaced {
        // Whatever a cluster-scoped object says of a namespace is dropped.
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

/// Drops owner references that say the same twice, and says so.
pub(super) fn drop_doubled_owners(call: &mut Call, object: &mut Value, found: &str) {
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

/// The URL and the object must agree on the name.
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

/// Makes a stored-form object ready to be created.
pub(super) fn for_create(call: &mut Call, object: &mut Value) -> Result<(), Status> {
    let rules = stored_rules(call);
    let metadata = meta::of(object);
    for stale in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(stale);
    }
    metadata.insert("creationTimestamp", time::format(call.now));
    metadata.insert("uid", random::uuid());
    let user = || call.user.to_value();
    rules.prepare_for_create(object, &Request { now: call.now, user: Some(&user) });
    let mut errors = ErrorList::new();
    call.served.rules.validate_for_create(call.served.resource.namespaced, object, &mut errors);
    accept(call, object, &errors)?;
    call.warnings.extend((rules.warnings)(object, None));
    Ok(())
}

/// Makes a stored-form object ready to replace the old one.
pub(super) fn for_update(
    call: &mut Call,
    subresource: &str,
    object: &mut Value,
    old: &Value,
) -> Result<(), Status> {
    let rules = stored_rules(call);
    let metadata = meta::of(object);
    metadata.remove("selfLink");
    if let Some(created) = old.at(&["metadata", "creationTimestamp"]) {
        metadata.insert("creationTimestamp", created.clone());
    }
    // What only the server sets is kept when a client leaves it out.
    for kept in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if metadata.get(kept).is_none_or(Value::is_null)
            && let Some(value) = old.at(&["metadata", kept])
        {
            metadata.insert(kept, value.clone());
        }
    }
    let user = || call.user.to_value();
    rules.prepare_for_update(subresource, object, old, &Request { now: call.now, user: Some(&user) });
    let mut errors = ErrorList::new();
    let namespaced = call.served.resource.namespaced;
    call.served.rules.validate_for_update(subresource, namespaced, object, old, &mut errors);
    accept(call, object, &errors)?;
    // What a client is told of an object, it is told where it writes the object.
    if subresource.is_empty() {
        call.warnings.extend((rules.warnings)(object, Some(old)));
    }
    Ok(())
}

fn accept(call: &Call, object: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(stored_rules(call).group, call.served.kind(), meta::name(object), errors))
}
