//! Volume attachments: a volume to attach to a node.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::core::persistentvolumes::validate::validate_inline;
use crate::defaults::{child, host_path, made, resource_list};
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, same, status_keeps_spec_and_metadata,
};
use crate::rules::{Column, RowContext, Rules};
use crate::table::{AGE, NAME, age, boolean, cells, name, str_at, text};
use crate::validation::csi::validate_csi_driver_name;
use crate::validation::fields::{IMMUTABLE, entries, part};
use crate::validation::number::{given, in_range};
use crate::validation::text::{complain, member};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "volumeattachments",
    prefix_on_update: true,
    storage_prefix: "volumeattachments",
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate,
    validate_update,
    validate_subresource: |_, attachment, old, errors| validate_update(attachment, old, errors),
    unconditional_update: false,
    delete_returns_object: true,
    columns: &[
        NAME,
        Column {
            format: "name",
            ..text("Attacher", "The driver that attaches it.")
                .of("storage/v1.VolumeAttachmentSpec", "attacher")
        },
        text("PV", "The volume.").of("storage/v1.VolumeAttachmentSource", "persistentVolumeName"),
        text("Node", "The node.").of("storage/v1.VolumeAttachmentSpec", "nodeName"),
        boolean("Attached", "Whether it is attached.").of("storage/v1.VolumeAttachmentStatus", "attached"),
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

const SPEC: Field<'static> = Field::new("spec");

fn validate(attachment: &Value, errors: &mut ErrorList) {
    let (spec, source_at) = (part(attachment, "spec"), SPEC.child("source"));
    validate_csi_driver_name(str_at(spec, &["attacher"]), &SPEC.child("attacher"), errors);
    let source = part(spec, "source");
    validate_source(source, &source_at, errors);
    let node = str_at(spec, &["nodeName"]);
    complain(&SPEC.child("nodeName"), node, names::dns1123_subdomain(node), errors);
    validate_status(part(attachment, "status"), errors);
    if let Some(volume) = source.str_at(&["persistentVolumeName"]) {
        let at = source_at.child("persistentVolumeName");
        complain(&at, volume, names::dns1123_subdomain(volume), errors);
    }
}

/// An existing volume, or an inline one.
fn validate_source(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (member(source, "inlineVolumeSpec"), source.str_at(&["persistentVolumeName"])) {
        (None, None) => errors.required(at, why),
        (Some(_), Some(_)) => errors.forbidden(at, why),
        (None, Some("")) => {
            errors.required(at.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (None, Some(_)) => {}
        (Some(inline), None) => validate_inline(inline, &at.child("inlineVolumeSpec"), errors),
    }
}

fn validate_status(status: &Value, errors: &mut ErrorList) {
    const MOST_METADATA: usize = 256 * 1024;
    const MOST_MESSAGE: usize = 1024;
    let at = Field::new("status");
    let length = |value: &Value| value.as_str().unwrap_or_default().len();
    let metadata = entries(status, "attachmentMetadata").map(|(key, value)| key.len() + length(value));
    if metadata.sum::<usize>() > MOST_METADATA {
        errors.too_long(at.child("attachmentMetadata"), MOST_METADATA);
    }
    for key in ["attachError", "detachError"] {
        let (error, at) = (part(status, key), at.child(key));
        if length(part(error, "message")) > MOST_MESSAGE {
            errors.too_long(at.child("message"), MOST_MESSAGE);
        }
        if let Some(code) = given(error, "errorCode") {
            in_range(code, 0, i64::from(i32::MAX), &at.child("errorCode"), errors);
        }
    }
}

fn validate_update(attachment: &Value, old: &Value, errors: &mut ErrorList) {
    validate(attachment, errors);
    if !same(attachment, old, &["spec"]) {
        errors.invalid(SPEC, &Value::Null, IMMUTABLE);
    }
}
