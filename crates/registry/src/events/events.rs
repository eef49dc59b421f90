//! Events as `events.k8s.io` shows them: another view of the core ones.

use std::time::Duration;

use crate::core::events::{self, validate};
use crate::rules::{GarbageCollection, Rules, Selectable};
use crate::table::field;

pub(crate) const RULES: Rules = Rules {
    group: "events.k8s.io",
    resource: "events",
    stored_as: Some(("", "events")),
    storage_prefix: "events",
    validate_create: validate::create,
    validate_update: validate::update,
    create_on_update: true,
    garbage_collection: GarbageCollection::Unsupported,
    ttl: Some(Duration::from_secs(60 * 60)),
    selectable: &[
        Selectable { label: "regarding.kind", value: |o| field(o, &["involvedObject", "kind"]) },
        Selectable { label: "regarding.namespace", value: |o| field(o, &["involvedObject", "namespace"]) },
        Selectable { label: "regarding.name", value: |o| field(o, &["involvedObject", "name"]) },
        Selectable { label: "regarding.uid", value: |o| field(o, &["involvedObject", "uid"]) },
        Selectable { label: "regarding.apiVersion", value: |o| field(o, &["involvedObject", "apiVersion"]) },
        Selectable {
            label: "regarding.resourceVersion",
            value: |o| field(o, &["involvedObject", "resourceVersion"]),
        },
        Selectable { label: "regarding.fieldPath", value: |o| field(o, &["involvedObject", "fieldPath"]) },
        Selectable { label: "reason", value: |o| field(o, &["reason"]) },
        Selectable { label: "reportingController", value: |o| field(o, &["reportingComponent"]) },
        Selectable { label: "type", value: |o| field(o, &["type"]) },
    ],
    columns: events::COLUMNS,
    row: events::row,
    ..Rules::DEFAULT
};
