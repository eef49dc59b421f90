//! Defaults of a pod's volumes.

use corten_api::{Map, Value};

use super::container::field_ref;
use super::{child, fill_absent, fill_zero, is_zero, items, made, pull_policy, text_of};
use crate::core::persistentvolumeclaims::default_spec;

/// Readable by all, writable by the owner.
const FILE_MODE: i32 = 0o644;
/// The type of a host path is not checked.
const ANY_TYPE: &str = "";

pub(super) fn volume(volume: &mut Map) {
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir", Value::object());
        return;
    }
    for (kind, source) in volume.iter_mut() {
        let Some(source) = source.as_object_mut() else { continue };
        match kind.as_str() {
            "hostPath" => fill_absent(source, "type", ANY_TYPE),
            "secret" | "configMap" => fill_absent(source, "defaultMode", FILE_MODE),
            "downwardAPI" => {
                fill_absent(source, "defaultMode", FILE_MODE);
                items(source, "items").for_each(field_ref);
            }
            "projected" => {
                fill_absent(source, "defaultMode", FILE_MODE);
                items(source, "sources").for_each(projection);
            }
            "image" if is_zero(source, "pullPolicy") => {
                let policy = pull_policy(text_of(source, "reference"));
                fill_zero(source, "pullPolicy", policy);
            }
            "ephemeral" => {
                if let Some(template) = child(source, "volumeClaimTemplate") {
                    default_spec(made(template, "spec"));
                }
            }
            _ => {}
        }
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

/// The member `hostPath` of a persistent volume.
pub(crate) fn host_path(volume: &mut Map) {
    if let Some(path) = child(volume, "hostPath") {
        fill_absent(path, "type", ANY_TYPE);
    }
}
