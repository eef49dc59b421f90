//! The shape of a resource's rules: everything the API server must know about a resource that the schema
//! of its type does not say.
//!
//! Objects are trees of the resource's *storage version*, whatever version a client spoke. The functions
//! in here are total: a missing field, or one of a wrong type, is an empty one.

use std::cmp::Ordering;
use std::time::Duration;

pub(crate) use corten_api::names::NameRule;
use corten_api::status::ErrorList;
use corten_api::{Str, Value};
use jiff::Timestamp;

use crate::{defaults, prepare, table};

/// Object members from the root down: `["metadata", "labels"]`.
pub type Path = &'static [&'static str];

/// What one resource is.
#[derive(Debug)]
pub struct Rules {
    /// Wire group; empty for the core one.
    pub group: &'static str,
    /// Plural, as in URLs.
    pub resource: &'static str,
    /// Whether objects are kept at all; reviews and bindings are answered and forgotten.
    pub stored: bool,
    /// The version objects are stored in.
    pub storage_version: &'static str,
    /// Group and resource whose storage this one is another view of.
    pub stored_as: Option<(&'static str, &'static str)>,
    /// Where objects live below the store's root, as upstream lays out etcd.
    pub storage_prefix: &'static str,
    pub name: NameRule,
    /// Whether finalizers must say whose they are.
    pub qualified_finalizers: bool,
    pub generation: Generation,
    /// Fills in what was left out, in a whole tree that conforms to its type. Idempotent, and cheap where
    /// there is nothing to do.
    pub default: fn(&mut Value),
    /// Makes a new object ready for validation. Its name, uid and creation time are set already.
    pub prepare_create: fn(&mut Value, &Request<'_>),
    /// Makes the new state (first) ready, given the old one: what this endpoint may not change is put back.
    pub prepare_update: fn(&mut Value, &Value, &Request<'_>),
    /// The same for a subresource that takes the whole object.
    pub prepare_subresource: fn(&str, &mut Value, &Value, &Request<'_>),
    /// What an endpoint ignores, so that server-side apply gives nobody ownership of it. The main endpoint
    /// is the empty subresource.
    pub reset_fields: fn(&str) -> &'static [Path],
    pub validate_create: fn(&Value, &mut ErrorList),
    /// New state, old state.
    pub validate_update: fn(&Value, &Value, &mut ErrorList),
    /// The same for a subresource that takes the whole object.
    pub validate_subresource: fn(&str, &Value, &Value, &mut ErrorList),
    /// What the client is told although the object is accepted: new state, and the old one of an update.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Whether an update may leave out the resource version.
    pub unconditional_update: bool,
    /// Whether an update of something absent creates it.
    pub create_on_update: bool,
    pub grace: Grace,
    pub garbage_collection: GarbageCollection,
    /// Whether a delete answers with the object rather than with a `Status`.
    pub delete_returns_object: bool,
    /// How long objects live after their last write.
    pub ttl: Option<Duration>,
    /// Field selectors besides `metadata.name` and `metadata.namespace`, which every resource has.
    pub selectable: &'static [Selectable],
    pub columns: &'static [Column],
    /// The cells of an object's row, one per column.
    pub row: fn(&Value, &RowContext<'_>) -> Vec<Value>,
    /// The row's `conditions`.
    pub row_conditions: fn(&Value) -> Vec<Value>,
    pub listing: Listing,
    pub scale: Option<Scale>,
}

impl Rules {
    /// What holds unless a resource says otherwise: a stored v1 without status or generation.
    pub(crate) const DEFAULT: Rules = Rules {
        group: "",
        resource: "",
        stored: true,
        storage_version: "v1",
        stored_as: None,
        storage_prefix: "",
        name: NameRule::DnsSubdomain,
        qualified_finalizers: true,
        generation: Generation::NONE,
        default: defaults::nothing,
        prepare_create: prepare::nothing_on_create,
        prepare_update: prepare::nothing_on_update,
        prepare_subresource: prepare::nothing_on_subresource,
        reset_fields: prepare::resets_nothing,
        validate_create: |_, _| {},
        validate_update: |_, _, _| {},
        validate_subresource: |_, _, _, _| {},
        warnings: |_, _| Vec::new(),
        unconditional_update: true,
        create_on_update: false,
        grace: Grace::None,
        garbage_collection: GarbageCollection::Delete,
        delete_returns_object: false,
        ttl: None,
        selectable: &[],
        columns: table::DEFAULT_COLUMNS,
        row: table::default_row,
        row_conditions: |_| Vec::new(),
        listing: Listing::Plain,
        scale: None,
    };
}

/// What preparing an object may know of the request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub now: Timestamp,
    /// Who asks, as a `UserInfo` (`username`, `uid`, `groups`, `extra`), put into words for the few who want to know.
    pub user: Option<&'a dyn Fn() -> Value>,
}

/// How `metadata.generation` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// What a new object gets; zero leaves alone what the client sent.
    pub initial: i64,
    /// An update that changes any of these adds one.
    pub counts: &'static [Path],
}

impl Generation {
    pub const NONE: Generation = Generation { initial: 0, counts: &[] };
    pub const SPEC: Generation = Generation { initial: 1, counts: &[&["spec"]] };
}

/// Whether a delete takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    None,
    /// As long as `spec.terminationGracePeriodSeconds` unless the request says; at once for a pod that is
    /// on no node or has finished.
    Pod,
}

impl Grace {
    /// Seconds an object is given, where deletion is graceful at all.
    pub fn seconds(self, object: &Value, requested: Option<i64>) -> Option<i64> {
        if self == Grace::None {
            return None;
        }
        let unscheduled = object.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty);
        let finished = matches!(object.str_at(&["status", "phase"]), Some("Failed" | "Succeeded"));
        if unscheduled || finished {
            return Some(0);
        }
        let asked = requested.or_else(|| object.int_at(&["spec", "terminationGracePeriodSeconds"]));
        // A negative period is the client's way of asking for the shortest one.
        Some(match asked.unwrap_or(0) {
            seconds if seconds < 0 => 1,
            seconds => seconds,
        })
    }
}

/// What becomes of dependents when a delete does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GarbageCollection {
    Delete,
    Orphan,
    /// Objects have no dependents: finalizers for them are never added.
    Unsupported,
}

/// A field that selectors may ask for.
#[derive(Debug, Clone, Copy)]
pub struct Selectable {
    pub label: &'static str,
    pub value: fn(&Value) -> Str,
}

/// A column of the table form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    pub format: &'static str,
    /// Zero is always shown; above that only in wide output.
    pub priority: i64,
    pub description: &'static str,
}

/// What printing a row may know besides the object.
#[derive(Debug, Clone, Copy)]
pub struct RowContext<'a> {
    pub now: Timestamp,
    /// The name that [`Listing::Marked`] found in the list this row is part of.
    pub marked: Option<&'a str>,
}

/// What a table of many objects needs beyond one row after another.
#[derive(Debug, Clone, Copy)]
pub enum Listing {
    Plain,
    /// One of the listed objects is special; its name goes into every row's context.
    Marked(fn(&[Value]) -> Option<Str>),
    /// Rows come in this order instead of by key.
    Sorted(fn(&Value, &Value) -> Ordering),
}

/// Where the `scale` subresource finds its numbers.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub spec_replicas: Path,
    pub status_replicas: Path,
    /// The label selector of the counted pods, in its text form.
    pub selector: fn(&Value) -> String,
}
