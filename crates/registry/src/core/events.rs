//! Events: kept for an hour. Their names are not restricted.

pub(crate) mod validate;

use std::time::Duration;

use corten_api::{Str, Value};

use crate::rules::{Column, GarbageCollection, NameRule, RowContext, Rules, Selectable};
use crate::table::{NAME, cells, field, int_at, name, since, str_at, str_or, text, time_at};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "events",
    storage_prefix: "events",
    name: NameRule::PathSegment,
    metadata_if_valid: true,
    qualified_finalizers: false,
    validate_create: validate::core,
    validate_update: |event, _, errors| validate::core(event, errors),
    create_on_update: true,
    garbage_collection: GarbageCollection::Unsupported,
    ttl: Some(Duration::from_secs(60 * 60)),
    selectable: &[
        Selectable { label: "involvedObject.kind", value: |o| field(o, &["involvedObject", "kind"]) },
        Selectable {
            label: "involvedObject.namespace",
            value: |o| field(o, &["involvedObject", "namespace"]),
        },
        Selectable { label: "involvedObject.name", value: |o| field(o, &["involvedObject", "name"]) },
        Selectable { label: "involvedObject.uid", value: |o| field(o, &["involvedObject", "uid"]) },
        Selectable {
            label: "involvedObject.apiVersion",
            value: |o| field(o, &["involvedObject", "apiVersion"]),
        },
        Selectable {
            label: "involvedObject.resourceVersion",
            value: |o| field(o, &["involvedObject", "resourceVersion"]),
        },
        Selectable {
            label: "involvedObject.fieldPath",
            value: |o| field(o, &["involvedObject", "fieldPath"]),
        },
        Selectable { label: "reason", value: |o| field(o, &["reason"]) },
        Selectable { label: "reportingComponent", value: |o| field(o, &["reportingComponent"]) },
        Selectable { label: "source", value: |o| Str::from(source(o)) },
        Selectable { label: "type", value: |o| field(o, &["type"]) },
    ],
    columns: COLUMNS,
    row,
    ..Rules::DEFAULT
};

/// The columns of both views.
pub(crate) const COLUMNS: &[Column] = &[
    text("Last Seen", "When this was last observed.").of("core/v1.Event", "lastTimestamp"),
    text("Type", "Normal or Warning; there may be more in time.").of("core/v1.Event", "type"),
    text("Reason", "Why, in one word for machines.").of("core/v1.Event", "reason"),
    text("Object", "What this is about.").of("core/v1.Event", "involvedObject"),
    text("Subobject", "The part of the object this is about.")
        .of("core/v1.ObjectReference", "fieldPath")
        .wide(),
    text("Source", "Who reported it.").of("core/v1.Event", "source").wide(),
    text("Message", "What happened, for people.").of("core/v1.Event", "message"),
    text("First Seen", "When this was first observed.").of("core/v1.Event", "firstTimestamp").wide(),
    text("Count", "How often it was observed.").of("core/v1.Event", "count").wide(),
    NAME.wide(),
];

/// The row of both views.
pub(crate) fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let first = ["firstTimestamp", "eventTime"].into_iter().find(|key| time_at(object, &[key]).is_some());
    let first = since(object, &[first.unwrap_or("firstTimestamp")], context);
    let mut last = match time_at(object, &["lastTimestamp"]) {
        Some(_) => since(object, &["lastTimestamp"], context),
        None => first.clone(),
    };
    // The count of an event that occurred once may be absent.
    let mut times = int_at(object, &["count"]).max(1);
    if let Some(series) = object.get("series").filter(|s| !s.is_null()) {
        last = since(series, &["lastObservedTime"], context);
        times = int_at(series, &["count"]);
    }
    let kind = str_at(object, &["involvedObject", "kind"]).to_lowercase();
    let target = match str_at(object, &["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let reporter = match str_or(object, &["source", "host"], str_at(object, &["reportingInstance"])) {
        "" => source(object).to_owned(),
        instance => format!("{}, {instance}", source(object)),
    };
    cells![
        last,
        str_at(object, &["type"]),
        str_at(object, &["reason"]),
        target,
        str_at(object, &["involvedObject", "fieldPath"]),
        reporter,
        str_at(object, &["message"]).trim(),
        first,
        times,
        name(object),
    ]
}

fn source(object: &Value) -> &str {
    str_or(object, &["source", "component"], str_at(object, &["reportingComponent"]))
}
