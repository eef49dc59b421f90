//! Field management: which manager owns which field of an object, and server-side apply.
//!
//! `update` records the changes of a create, update or patch; `apply` merges an applied configuration into the live
//! object, and refuses to take fields from other managers unless it is forced. Both are functions of the objects and of
//! the type: no clock, no storage.
//!
//! Invariants: the result is upstream's, entry for entry and byte for byte. Most writes touch few fields,
//! so the sets of managers whose fields did not change are never decoded, only scanned.
//!
//! Entries recorded in another version of the same type are compared in that version.

mod apply;
mod compare;
mod configuration;
mod created;
mod element;
mod entries;
mod fields;
mod merge;
mod scale;
mod set;
mod shape;
#[cfg(test)]
mod tests;
mod text;
mod validate;
mod versions;

pub use apply::{apply, keep_times};
pub use configuration::merge_configuration;
pub use element::Element;
pub use entries::{check, is_reset};
pub use scale::{from_scale, to_scale};
pub use set::Set;
pub use text::InvalidFields;
pub use validate::{
    check_managed_fields, manager_from_user_agent, validate_applied, validate_managed_fields,
    validate_manager,
};

use crate::schema::{Struct, StructRef};
use crate::value::Value;
use compare::Comparison;
use entries::{Entry, Operation};
use validate::{Duplicates, check_type};
use versions::Comparisons;

/// The properties of a request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The object's type.
    pub schema: &'a Struct,
    /// Group and version of the request: `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// The field manager; `unknown` if empty.
    pub manager: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// RFC 3339, to the second.
    pub now: &'a str,
    /// The fields that no manager owns through this endpoint.
    pub filter: Option<&'a Filter>,
    /// The other versions of a custom resource; those of built-in types are known.
    pub versions: Option<&'a dyn Versions>,
}

/// The versions of a type that is not built in.
pub trait Versions {
    /// The type in a version, if it has that version.
    fn schema(&self, api_version: &str) -> Option<StructRef>;

    /// Converts an object to another of its versions.
    fn convert(&self, object: &mut Value, to: &str) -> Result<(), String>;
}

/// The fields that requests of an endpoint may own.
#[derive(Debug, Clone)]
pub enum Filter {
    /// All but these and the fields below them: the endpoint resets them.
    Exclude(Set),
    /// Only those below one of these prefixes; `None` stands for any step.
    Include(Vec<Vec<Option<Element>>>),
}

impl Filter {
    pub(crate) fn retain(&self, set: &mut Set) {
        match self {
            Filter::Exclude(fields) => set.subtract_recursively(fields),
            Filter::Include(prefixes) => {
                let prefixes: Vec<&[Option<Element>]> = prefixes.iter().map(Vec::as_slice).collect();
                set.retain_below(&prefixes);
            }
        }
    }
}

/// Fields below `metadata` that no manager ever owns.
const STRIPPED: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Records in `new` the fields that a create (`old` is `None`), update or patch changed. Both are whole
/// objects of the request's version. `managedFields` that a client sent in `new` replace the live ones if
/// they are valid, and reset them if they are empty; without any, the live ones are kept. Never fails:
/// where the two cannot be compared, the owners stay as they were.
pub fn update(ctx: &Context<'_>, old: Option<&Value>, new: &mut Value) {
    let live = old.and_then(|o| o.at(MANAGED_FIELDS));
    let sent = new.remove(MANAGED_FIELDS);
    let entries = live_or_sent(ctx, live, sent.as_ref());
    let exists = old.is_some_and(|o| o.str_at(&["metadata", "uid"]).is_some_and(|uid| !uid.is_empty()));
    if entries.is_empty() && exists {
        return;
    }
    let compared = ctx.compared(new);
    match updated(ctx, old, compared.as_ref().unwrap_or(new), entries) {
        Ok(Some(list)) => new.set(MANAGED_FIELDS, list),
        Ok(None) => {}
        // Objects that cannot be compared keep their owners.
        Err(_) => {
            if let Some(live) = live {
                new.set(MANAGED_FIELDS, live.clone());
            }
        }
    }
}

const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];

/// The entries to start from. Clients that do not send them do not delete them.
fn live_or_sent(ctx: &Context<'_>, live: Option<&Value>, sent: Option<&Value>) -> Vec<Entry> {
    let Some(sent) = sent.filter(|sent| ctx.subresource.is_empty() && live != Some(*sent)) else {
        return entries::trusted(live);
    };
    if is_reset(sent) {
        return Vec::new();
    }
    match entries::decode(sent, Some(ctx)) {
        Ok(decoded) if !decoded.is_empty() => decoded,
        _ => entries::trusted(live),
    }
}

/// The list after an update.
fn updated(
    ctx: &Context<'_>,
    old: Option<&Value>,
    new: &Value,
    mut entries: Vec<Entry>,
) -> Result<Option<Value>, String> {
    // The decoders of built-in types leave nothing that the type does not have. A custom resource is validated later, and
    // never in the parts that its endpoint resets.
    if ctx.versions.is_some() {
        for object in old.into_iter().chain([new]) {
            check_type(ctx.schema, object, Duplicates::Allowed)?;
        }
    }
    take_changes(ctx, old, new, &mut entries)?;
    entries::cap(ctx, &mut entries).map_err(|e| e.to_string())?;
    Ok(entries::encode(entries))
}

/// Assigns the changes between two objects to this request's manager, and takes them from the others.
fn take_changes(
    ctx: &Context<'_>,
    old: Option<&Value>,
    new: &Value,
    entries: &mut Vec<Entry>,
) -> Result<(), String> {
    if old.is_none()
        && entries.is_empty()
        && let Some(text) = created::fields(new, ctx.schema, ctx.filter)
    {
        let mut own = Entry::of_text(ctx, ctx.manager, Operation::Update, text);
        own.set_time(ctx.now);
        entries.push(own);
        entries.retain(|e| !e.is_empty());
        return Ok(());
    }
    let zero;
    let old = match old {
        Some(old) => old,
        None => {
            zero = compare::zero_object(ctx.schema);
            &zero
        }
    };
    let mut comparisons = Comparisons::new(ctx, old, new)?;
    strip(&mut comparisons.requested.changed);
    strip(&mut comparisons.requested.removed);
    let mut own = Entry::new(ctx, ctx.manager, Operation::Update, Set::new());
    let mut place = None;
    let mut kept = Vec::with_capacity(entries.len());
    for mut entry in std::mem::take(entries) {
        // Entries of a version that is no longer served are dropped.
        let Some(comparison) = comparisons.in_version(entry.api_version())? else { continue };
        let is_own = entry.is_same_manager(&own);
        if is_own {
            place = Some(kept.len());
        }
        remove_changed(ctx, &mut entry, comparison, is_own).map_err(|e| e.to_string())?;
        kept.push(entry);
    }
    *entries = kept;
    let changed = comparisons.requested.changed;
    if !changed.is_empty() {
        match place {
            Some(i) => entries[i].set_time(ctx.now),
            None => {
                own.set_time(ctx.now);
                *own.set(ctx).map_err(|e| e.to_string())? = changed;
                entries.push(own);
            }
        }
    }
    entries.retain(|e| !e.is_empty());
    Ok(())
}

/// Removes changed and removed fields from an entry, unless it is that of the request.
fn remove_changed(
    ctx: &Context<'_>,
    entry: &mut Entry,
    Comparison { changed, removed }: &Comparison,
    is_own: bool,
) -> Result<(), InvalidFields> {
    let (in_changed, in_removed) = (entry.overlap(changed)?, entry.overlap(removed)?);
    let wanted = if is_own { changed.size() } else { 0 };
    if in_removed.shared == 0 && in_changed.shared == wanted && !in_changed.deeper && !in_removed.deeper {
        return Ok(());
    }
    let set = entry.set(ctx)?;
    set.subtract(removed);
    if is_own {
        set.unite(changed.clone());
    } else {
        set.subtract(changed);
    }
    Ok(())
}

/// Removes the fields that are never owned.
fn strip(set: &mut Set) {
    set.nodes.retain_mut(|node| {
        let Element::Field(name) = &node.element else { return true };
        match name.as_str() {
            "apiVersion" | "kind" => node.member = false,
            "metadata" => {
                node.member = false;
                node.children.nodes.retain_mut(|n| {
                    if matches!(&n.element, Element::Field(name) if STRIPPED.contains(&name.as_str())) {
                        n.member = false;
                    }
                    n.member || !n.children.is_empty()
                });
            }
            _ => {}
        }
        node.member || !node.children.is_empty()
    });
}
