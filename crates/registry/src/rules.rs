//! The type of a resource's rules: everything that the API server needs to know about a resource beyond the schema
//! of its type.
//!
//! Objects are trees of the resource's *storage version*, whatever version the client used. The functions
//! in here are total: a missing field, or one of a wrong type, counts as empty.

use std::cmp::Ordering;
use std::time::Duration;

pub(crate) use corten_api::names::NameRule;
use corten_api::status::ErrorList;
use corten_api::{Str, Value};
use jiff::Timestamp;

use crate::{defaults, prepare, table};

/// Object members from the root down: `["metadata", "labels"]`.
pub type Path = &'static [&'static str];

/// The rules of one resource.
#[derive(Debug)]
pub struct Rules {
    /// Wire group; empty for the core one.
    pub group: &'static str,
    /// Plural, as in URLs.
    pub resource: &'static str,
    /// True if objects are stored at all; reviews and bindings are not.
    pub stored: bool,
    /// The version objects are stored in.
    pub storage_version: &'static str,
    /// The group and resource whose stored objects this one shows in another form.
    pub stored_as: Option<(&'static str, &'static str)>,
    /// The prefix of objects below the store's root, as in upstream's etcd.
    pub storage_prefix: &'static str,
    pub name: NameRule,
    /// True if updates validate the prefix of a generated name too, by the rule for names.
    pub prefix_on_update: bool,
    /// True if a new object's metadata are validated only if the rest of it is valid.
    pub metadata_if_valid: bool,
    /// True if finalizers must be qualified names.
    pub qualified_finalizers: bool,
    pub generation: Generation,
    /// True if an update counts changes of fields whose feature gates are off, before they are dropped.
    pub counts_disabled_fields: bool,
    /// Sets defaults, in a whole tree that conforms to its type. Idempotent, and cheap where
    /// there is nothing to do.
    pub default: fn(&mut Value),
    /// Sets the times that default to now, in a tree of any version.
    pub default_times: fn(&mut Value, Timestamp),
    /// Prepares a new object for validation. Its name, uid and creation time are already set.
    pub prepare_create: fn(&mut Value, &Request<'_>),
    /// Prepares the new state (first), given the old one: fields that this endpoint may not change are restored.
    pub prepare_update: fn(&mut Value, &Value, &Request<'_>),
    /// The same for a subresource that takes the whole object.
    pub prepare_subresource: fn(&str, &mut Value, &Value, &Request<'_>),
    /// The fields that an endpoint ignores, so that server-side apply records no owner for them. The main endpoint
    /// is the empty subresource.
    pub reset_fields: fn(&str) -> &'static [Path],
    pub validate_create: fn(&Value, &mut ErrorList),
    /// The annotations that hold fields of upstream's internal type. Views of the metadata alone do not show them.
    pub field_annotations: &'static [&'static str],
    /// False if the status has no table form.
    pub status_table: bool,
    /// New state, old state.
    pub validate_update: fn(&Value, &Value, &mut ErrorList),
    /// The same for a subresource that takes the whole object.
    pub validate_subresource: fn(&str, &Value, &Value, &mut ErrorList),
    /// Warnings for the client of an accepted object: new state, and the old one of an update.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// True if an update may leave out the resource version.
    pub unconditional_update: bool,
    /// True if an update of a missing object creates it.
    pub create_on_update: bool,
    pub grace: Grace,
    pub garbage_collection: GarbageCollection,
    /// True if a delete returns the object rather than a `Status`.
    pub delete_returns_object: bool,
    /// The lifetime of objects after their last write.
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
    /// Returns true if a table without rows shows them as `null`: those of the default columns, and those of custom
    /// resource definitions, which upstream makes elsewhere.
    pub fn has_null_for_no_rows(&self) -> bool {
        let names = |columns: &'static [Column]| columns.iter().map(|column| column.name);
        names(self.columns).eq(names(table::DEFAULT_COLUMNS)) || self.resource == "customresourcedefinitions"
    }

    /// Returns true if an update in a version may leave out the resource version. Older versions of one kind may, as they
    /// always could.
    pub fn allows_unconditional_update(&self, version: &str) -> bool {
        self.unconditional_update || self.is_older_taint_rule(version)
    }

    /// Returns true if the response to a delete in a version is the deleted object, as it always was in older versions.
    pub fn returns_deleted(&self, version: &str) -> bool {
        self.delete_returns_object || self.is_older_taint_rule(version)
    }

    fn is_older_taint_rule(&self, version: &str) -> bool {
        self.resource == "devicetaintrules" && matches!(version, "v1beta2" | "v1alpha3")
    }

    /// The defaults of a resource's rules: a stored v1 without status or generation.
    pub(crate) const DEFAULT: Rules = Rules {
        group: "",
        resource: "",
        stored: true,
        storage_version: "v1",
        stored_as: None,
        storage_prefix: "",
        name: NameRule::DnsSubdomain,
        prefix_on_update: false,
        metadata_if_valid: false,
        qualified_finalizers: true,
        generation: Generation::NONE,
        counts_disabled_fields: false,
        default: defaults::nothing,
        default_times: |_, _| {},
        field_annotations: &[],
        status_table: true,
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

/// The part of a request that preparation may use.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub now: Timestamp,
    /// The user, as a `UserInfo` (`username`, `uid`, `groups`, `extra`), created only for the few resources that need
    /// it.
    pub user: Option<&'a dyn Fn() -> Value>,
}

/// The rules of `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// The generation of a new object; zero keeps the client's value.
    pub initial: i64,
    /// An update that changes any of these adds one.
    pub counts: &'static [Path],
}

impl Generation {
    pub const NONE: Generation = Generation { initial: 0, counts: &[] };
    pub const SPEC: Generation = Generation { initial: 1, counts: &[&["spec"]] };
}

/// The grace period of deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    None,
    /// `spec.terminationGracePeriodSeconds` unless the request has one; none for a pod that is
    /// not bound or has finished.
    Pod,
}

impl Grace {
    /// The grace period of an object in seconds, if deletion is graceful at all.
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
        // A negative period requests the shortest one.
        Some(match asked.unwrap_or(0) {
            seconds if seconds < 0 => 1,
            seconds => seconds,
        })
    }
}

/// The default propagation policy of deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GarbageCollection {
    Delete,
    Orphan,
    /// Objects have no dependents: finalizers for them are never added.
    Unsupported,
}

/// A selectable field.
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
    /// The type and field whose description the column shares, if it shows a field: `core/v1.PodStatus` and
    /// `podIP`. That text is preferred to `description`.
    pub field: Option<(&'static str, &'static str)>,
}

/// The inputs of a row besides the object.
#[derive(Debug, Clone, Copy)]
pub struct RowContext<'a> {
    pub now: Timestamp,
    /// The name that [`Listing::Marked`] found in the list of this row.
    pub marked: Option<&'a str>,
}

/// Properties of a table of many objects.
#[derive(Debug, Clone, Copy)]
pub enum Listing {
    Plain,
    /// One of the listed objects is special; its name goes into every row's context.
    Marked(fn(&[Value]) -> Option<Str>),
    /// Rows come in this order instead of by key.
    Sorted(fn(&Value, &Value) -> Ordering),
}

/// The paths of the `scale` subresource's values.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub spec_replicas: Path,
    pub status_replicas: Path,
    /// The label selector of the counted pods, in its text form.
    pub selector: fn(&Value) -> String,
}
