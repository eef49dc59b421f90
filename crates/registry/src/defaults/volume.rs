//! Defaults of a pod's volumes.

use corten_api::{Map, Value};

use super::container::field_ref;
use super::{child, fill_absent, fill_zero, is_zero, items, made, pull_policy, text_of};
use crate::core::persistentvolumeclaims::default_spec;

/// Readable by all, writable by the owner.
const FILE_MODE: i32 = 0o644;

pub(super) fn volume(volume: &mut Map) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir", Value::object());
        return;
    }
    host_path(volume);
    for kind in ["secret", "configMap"] {
        if let Some(source) = child(volume, kind) {
            fill_absent(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = child(volume, "downwardAPI") {
        fill_absent(source, "defaultMode", FILE_MODE);
        items(source, "items").for_each(field_ref);
    }
    if let Some(source) = child(volume, "projected") {
        fill_absent(source, "defaultMode", FILE_MODE);
        items(source, "sources").for_each(projection);
    }
    if let Some(image) = child(volume, "image")
        && is_zero(image, "pullPolicy")
    {
        let policy = pull_policy(text_of(image, "reference"));
        fill_zero(image, "pullPolicy", policy);
    }
    if let Some(template) = child(volume, "ephemeral").and_then(|e| child(e, "volumeClaimTemplate")) {
        default_spec(made(template, "spec"));
    }
}

fn projection(source: &mut Map) {
    if let Some(downward) = child(source, "downwardAPI") {
        items(downward, "items").for_each(field_ref);
    }
    if let Some(token) = child(source, "serviceAccountToken") {
        fill_absent(token, "expirationSeconds", 3600);
    }
}

/// The member `hostPath`, of a volume or a persistent one: no type means no check of what is there.
pub(crate) fn host_path(volume: &mut Map) {
    if let Some(path) = child(volume, "hostPath") {
        fill_absent(path, "type", "");
    }
}
