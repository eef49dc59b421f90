//! Volume attachments: a volume wanted on a node.

use corten_api::Value;

use crate::defaults::{child, host_path, made, resource_list};
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Column, RowContext, Rules};
use crate::table::{AGE, NAME, age, boolean, cells, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "volumeattachments",
    storage_prefix: "volumeattachments",
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    delete_returns_object: true,
    columns: &[
        NAME,
        Column { format: "name", ..text("Attacher", "The driver that attaches it.") },
        text("PV", "The volume."),
        text("Node", "The node."),
        boolean("Attached", "Whether it is attached."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        str_at(object, &["spec", "attacher"]),
        str_at(object, &["spec", "source", "persistentVolumeName"]),
        str_at(object, &["spec", "nodeName"]),
        object.bool_at(&["status", "attached"]).unwrap_or(false),
        age(object, context),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    if let Some(volume) = child(made(made(object, "spec"), "source"), "inlineVolumeSpec") {
        resource_list(volume, "capacity");
        host_path(volume);
    }
}
