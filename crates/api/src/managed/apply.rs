//! Server-side apply.
//!
//! Invariants: the manager owns exactly the fields it applies. Fields that it applied before and leaves out now are
//! removed unless another manager owns them. Fields of other managers are not changed unless forced. Fields that
//! come from defaulting have no owner.

use std::collections::HashMap;

use super::entries::{self, Entry, Operation};
use super::set::Set;
use super::shape::Shape;
use super::validate::{group_version_kind, validate_applied, validate_live};
use super::versions::Comparisons;
use super::{
    Context, InvalidFields, MANAGED_FIELDS, compare, element, fields, merge, strip, take_changes, text,
};
use crate::json;
use crate::schema::Struct;
use crate::status::{Cause, Status};
use crate::value::{Str, Value};

/// The one manager whose client-side applied configurations are taken over and kept up to date.
const KUBECTL: &str = "kubectl";
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
const LAST_APPLIED: &[&str] =
    &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Merges an applied configuration into the live object, or creates one from it where `live` is `None`. `applied` is
/// the parsed request: a field that its type does not have is an error here, and values conflict by their spelling. The
/// result has its owners and still has to be conformed and defaulted. Where nothing changed it equals the live object
/// except for its owners; after the fields that the server sets are restored, `keep_times` makes the two equal if only
/// times differ.
pub fn apply(ctx: &Context<'_>, live: Option<&Value>, applied: &Value, force: bool) -> Result<Value, Status> {
    if applied.str_at(&["apiVersion"]) != Some(ctx.api_version) {
        return Err(Status::bad_request(format!("invalid object type: {}", group_version_kind(applied))));
    }
    if applied.at(MANAGED_FIELDS).is_some_and(|list| !list.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let mut live = match live {
        Some(live) => live.clone(),
        None => {
            let mut zero = compare::zero_object(ctx.schema);
            for key in ["apiVersion", "kind"] {
                zero.set(&[key], applied.get(key).cloned().unwrap_or_default());
            }
            zero
        }
    };
    let managed_fields = live.remove(MANAGED_FIELDS);
    let mut owners = entries::trusted(managed_fields.as_ref());
    if owners.is_empty() {
        let before = Context { manager: BEFORE_FIRST_APPLY, ..*ctx };
        take_changes(&before, None, &live, &mut owners)
            .map_err(|why| failed("failed to create manager for existing fields", &why))?;
    }
    let outcome = match attempt(ctx, &live, applied, owners.clone(), force) {
        Err(Refusal::Conflicts(conflicts)) if ctx.manager == KUBECTL => {
            let allowed = last_applied_fields(ctx, &live).unwrap_or_default();
            let remaining: Vec<Conflict> =
                conflicts.into_iter().filter_map(|c| c.without(&allowed)).collect();
            match remaining.is_empty() {
                true => attempt(ctx, &live, applied, owners, true),
                false => Err(Refusal::Conflicts(remaining)),
            }
        }
        outcome => outcome,
    };
    let (mut object, owners) = outcome.map_err(Refusal::into_status)?;
    if ctx.manager == KUBECTL {
        refresh_last_applied(&mut object, applied);
    }
    if let Some(list) = entries::encode(owners) {
        object.set(MANAGED_FIELDS, list);
    }
    Ok(object)
}

/// If an object differs from the old one only in the times of its managers, restores the old times,
/// so that the two are equal and nothing needs to be written.
pub fn keep_times(old: &Value, new: &mut Value) {
    let (olds, news) = (old.items_at(MANAGED_FIELDS), new.items_at(MANAGED_FIELDS));
    let timeless = |a: &Value, b: &Value| match (a.as_object(), b.as_object()) {
        (Some(a), Some(b)) => {
            a.iter().filter(|(k, _)| *k != "time").eq(b.iter().filter(|(k, _)| *k != "time"))
        }
        _ => false,
    };
    if olds.is_empty() || olds.len() != news.len() || !olds.iter().zip(news).all(|(a, b)| timeless(a, b)) {
        return;
    }
    let Some(list) = new.remove(MANAGED_FIELDS) else { return };
    let equal = equal_but_for_owners(old, new);
    new.set(MANAGED_FIELDS, if equal { Value::Array(olds.to_vec()) } else { list });
}

/// `new` has no owners; `old` may.
fn equal_but_for_owners(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    old.len() == new.len()
        && old.iter().zip(new.iter()).all(|((key, a), (other, b))| {
            let metadata = key == "metadata" && other == "metadata";
            match (a, b) {
                (Value::Object(a), Value::Object(b)) if metadata => {
                    a.iter().filter(|(k, _)| *k != "managedFields").eq(b.iter())
                }
                _ => key == other && a == b,
            }
        })
}

/// The fields of one other manager that would change.
struct Conflict {
    identifier: String,
    described: String,
    fields: Set,
}

impl Conflict {
    fn without(mut self, allowed: &Set) -> Option<Conflict> {
        self.fields.subtract(allowed);
        (!self.fields.is_empty()).then_some(self)
    }
}

/// The reason for which an apply was refused.
enum Refusal {
    Conflicts(Vec<Conflict>),
    Failed(Box<Status>),
}

impl Refusal {
    fn failed(what: &str, why: &str) -> Refusal {
        Refusal::Failed(Box::new(failed(what, why)))
    }

    fn into_status(self) -> Status {
        match self {
            Refusal::Failed(status) => *status,
            Refusal::Conflicts(mut conflicts) => {
                conflicts.sort_by(|a, b| a.identifier.cmp(&b.identifier));
                conflict_status(&conflicts)
            }
        }
    }
}

impl From<InvalidFields> for Refusal {
    fn from(why: InvalidFields) -> Refusal {
        Refusal::failed("failed to decode managed fields", &why.to_string())
    }
}

/// An error that upstream does not turn into a particular status.
pub(super) fn failed(what: &str, why: &str) -> Status {
    Status::unexplained(format!("{what}: {why}"))
}

/// There may be as many conflicts as fields, each at any depth: their listed size is bounded.
fn conflict_status(conflicts: &[Conflict]) -> Status {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    let (mut count, mut said) = (0, 0);
    for conflict in conflicts {
        count += conflict.fields.size();
        if said > json::MAX_FINDINGS_BYTES {
            continue;
        }
        lines.push(format!("conflicts with {}:", conflict.described));
        for field in conflict.fields.paths(json::MAX_FINDINGS_BYTES - said) {
            lines.push(format!("- {field}"));
            let message = format!("conflict with {}", conflict.described);
            said += message.len() + field.len();
            causes.push(Cause { reason: "FieldManagerConflict".to_owned(), message, field });
        }
    }
    let message = match (causes.as_slice(), count) {
        ([only], 1) => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        _ => format!("Apply failed with {count} conflicts: {}", lines.join("\n")),
    };
    Status::apply_conflict(message, causes)
}

/// One attempt: returns the object and its owners. `live` comes without its owners.
fn attempt(
    ctx: &Context<'_>,
    live: &Value,
    applied: &Value,
    mut owners: Vec<Entry>,
    force: bool,
) -> Result<(Value, Vec<Entry>), Refusal> {
    let refused = |status| Refusal::Failed(Box::new(status));
    validate_applied(ctx.schema, applied).map_err(refused)?;
    // A built-in type has no live object that it does not fit; the schema of a custom resource may have changed.
    if ctx.versions.is_some() {
        validate_live(ctx.schema, live).map_err(refused)?;
    }
    let merged =
        merge::merge(live, applied, ctx.schema).map_err(|e| Refusal::failed("failed to merge config", &e))?;
    let mut set = fields::field_set(applied, ctx.schema);
    if let Some(filter) = ctx.filter {
        filter.retain(&mut set);
    }
    let mut own = Entry::new(ctx, ctx.manager, Operation::Apply, set);
    let last = owners.iter().position(|e| e.is_same_manager(&own)).map(|at| owners.remove(at));
    let object = match last {
        Some(mut last) => {
            own.copy_time(&last);
            prune(ctx, merged, &mut last, &mut owners, &mut own)?
        }
        None => merged,
    };
    take_from_other_managers(ctx, live, &object, &mut owners, force)?;
    let own_set = own.set(ctx)?;
    strip(own_set);
    let changed = !compare::same(live, &object);
    if changed {
        own.set_time(ctx.now);
    }
    owners.push(own);
    owners.retain(|e| !e.is_empty());
    Ok((if changed { object } else { live.clone() }, owners))
}

/// Removes the fields that the manager applied last time, does not apply now, and no other manager owns. Each entry is
/// compared in its own version; the removal is decided in the version of the last apply.
fn prune(
    ctx: &Context<'_>,
    merged: Value,
    last: &mut Entry,
    owners: &mut [Entry],
    own: &mut Entry,
) -> Result<Value, Refusal> {
    let spoken = Str::new(last.api_version());
    let last = std::mem::take(last.set(ctx)?);
    let Some(form) = ctx.form(&spoken).filter(|_| !last.is_empty()) else { return Ok(merged) };
    let convert = |object: Value, from: &str, to: &str| {
        ctx.convert(object, from, to).map_err(|e| Refusal::failed("failed to prune fields", &e))
    };
    let merged = convert(merged, ctx.api_version, &spoken)?;
    let last = last.with_named_fields(Shape::Struct(&form));
    // Removes all of it, restores owned fields, then those that the manager did not own.
    let mut pruned = fields::without(&merged, &last, &form);
    for (version, owned) in owned_by_version(ctx, &spoken, owners, own)? {
        let Some(form) = ctx.form(&version) else { continue };
        let whole = convert(merged.clone(), &spoken, &version)?;
        let part = convert(pruned, &spoken, &version)?;
        let kept = mentioned(&part, &form).union(&owned.with_named_fields(Shape::Struct(&form)));
        let back = fields::without(&whole, &mentioned(&whole, &form).difference(&kept), &form);
        pruned = convert(back, &version, &spoken)?;
    }
    let gone = mentioned(&merged, &form).difference(&mentioned(&pruned, &form)).intersection(&last);
    convert(fields::without(&merged, &gone, &form), &spoken, ctx.api_version)
}

/// All paths that an object mentions, including struct fields on the way.
fn mentioned(object: &Value, form: &Struct) -> Set {
    fields::field_set(object, form).with_named_fields(Shape::Struct(form))
}

/// The fields of all owners together, by version, starting with one of them.
fn owned_by_version(
    ctx: &Context<'_>,
    first: &str,
    owners: &mut [Entry],
    own: &mut Entry,
) -> Result<Vec<(Str, Set)>, InvalidFields> {
    let mut owned = vec![(Str::new(first), Set::new())];
    let mut places = HashMap::from([(Str::new(first), 0)]);
    for entry in owners.iter_mut().chain([own]) {
        let version = Str::new(entry.api_version());
        let set = entry.set(ctx)?.clone();
        match places.get(&version) {
            Some(at) => owned[*at].1.unite(set),
            None => {
                places.insert(version.clone(), owned.len());
                owned.push((version, set));
            }
        }
    }
    Ok(owned)
}

/// Takes changed fields from the other managers, which is a conflict unless forced. Entries of a version that is no
/// longer served are dropped.
fn take_from_other_managers(
    ctx: &Context<'_>,
    live: &Value,
    object: &Value,
    owners: &mut Vec<Entry>,
    force: bool,
) -> Result<(), Refusal> {
    let failed = |why: String| Refusal::failed("failed to compare objects", &why);
    let mut comparisons = Comparisons::new(ctx, live, object).map_err(failed)?;
    let mut conflicts = Vec::new();
    let mut kept = Vec::with_capacity(owners.len());
    for entry in std::mem::take(owners) {
        let Some(comparison) = comparisons.in_version(entry.api_version()).map_err(failed)? else { continue };
        kept.push(entry);
        let Some(entry) = kept.last_mut() else { continue };
        let overlap = |set: &Set| entry.overlap(set).map_err(|e| failed(e.to_string()));
        let untouched = text::Overlap::default();
        if overlap(&comparison.changed)? == untouched && overlap(&comparison.removed)? == untouched {
            continue;
        }
        let (identifier, described) = (entry.identifier(), entry.described());
        let set = entry.set(ctx).map_err(|e| failed(e.to_string()))?;
        let shared = set.intersection(&comparison.changed);
        set.subtract(&shared);
        set.subtract(&comparison.removed);
        if !shared.is_empty() {
            conflicts.push(Conflict { identifier, described, fields: shared });
        }
    }
    *owners = kept;
    match conflicts.is_empty() || force {
        true => Ok(()),
        false => Err(Refusal::Conflicts(conflicts)),
    }
}

/// The fields of the client-side applied configuration in the live object's annotation, as far as their values are
/// unchanged.
fn last_applied_fields(ctx: &Context<'_>, live: &Value) -> Option<Set> {
    let text = live.str_at(LAST_APPLIED).filter(|text| !text.is_empty())?;
    let last = json::parse(text.as_bytes()).ok()?;
    let valid = |object: &Value| validate_applied(ctx.schema, object).is_ok();
    if last.str_at(&["apiVersion"]) != Some(ctx.api_version) || !valid(&last) || !valid(live) {
        return None;
    }
    let mut set = fields::field_set(&last, ctx.schema);
    let comparison = compare::compare(&last, live, ctx.schema).ok()?;
    set.subtract(&comparison.changed);
    set.subtract(&comparison.removed);
    Some(set)
}

/// Updates the client-side applied configuration, where an object has one.
fn refresh_last_applied(object: &mut Value, applied: &Value) {
    if object.str_at(LAST_APPLIED).is_none_or(str::is_empty) {
        return;
    }
    let mut last = applied.clone();
    last.remove(LAST_APPLIED);
    // Annotations are a map of strings: null becomes an empty string, and no map no annotations.
    match last.get_mut("metadata").and_then(|m| m.get_mut("annotations")) {
        Some(Value::Object(map)) => {
            for (_, value) in map.iter_mut().filter(|(_, value)| value.is_null()) {
                *value = Value::from("");
            }
        }
        Some(Value::Null) => drop(last.remove(&LAST_APPLIED[..2])),
        _ => {}
    }
    let text = json::write_to_string(&last);
    object.set(LAST_APPLIED, format!("{}\n", element::escape_html(&text)));
    let annotations = object.at(&LAST_APPLIED[..2]).and_then(Value::as_object);
    let bytes: usize = annotations
        .map(|map| map.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum())
        .unwrap_or_default();
    if bytes > MAX_ANNOTATIONS_BYTES {
        object.remove(LAST_APPLIED);
    }
}
