//! Volume mounts and volume devices of containers.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::path::{has_backsteps, local_descending};
use crate::validation::pod_context::is;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, text};
use crate::validation::volume::Volumes;

/// The texts of a member of all items. Upstream keeps the last path of each name, which only matters for duplicate
/// names, and those are refused anyway.
fn all<'v>(items: &'v [Value], key: &str) -> HashSet<&'v str> {
    items.iter().map(|item| text(item, key)).collect()
}

pub(crate) fn validate_volume_mounts(
    container: &Value,
    volumes: &Volumes<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (mounts, devices) = (list(container, "volumeMounts"), list(container, "volumeDevices"));
    let repeats = Repeats::of(mounts, |mount| text(mount, "mountPath"));
    let (device_names, device_paths) = (all(devices, "name"), all(devices, "devicePath"));
    for (i, mount) in mounts.iter().enumerate() {
        let mount_at = at.index(i);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(mount_at.child("name"), "");
        }
        if volumes.find(name).is_none() {
            errors.not_found(mount_at.child("name"), &Value::from(name));
        }
        if path.is_empty() {
            errors.required(mount_at.child("mountPath"), "");
        }
        let mut refuse = |key: &str, text: &str, why: &str| {
            errors.invalid(mount_at.child(key), &Value::from(text), why);
        };
        if repeats.at(i) {
            refuse("mountPath", path, "must be unique");
        }
        if device_names.contains(name) {
            refuse("name", name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            refuse("mountPath", path, "must not already exist as a path in volumeDevices");
        }
        validate_sub_path(mount, &mount_at, at, errors);
        validate_propagation(container, mount, &at.child("mountPropagation"), errors);
        validate_recursive_read_only(mount, &at.child("recursiveReadOnly"), errors);
    }
}

/// A subpath of a volume. Upstream reports the list of the mount, but not the mount.
fn validate_sub_path(mount: &Value, mount_at: &Field<'_>, list_at: &Field<'_>, errors: &mut ErrorList) {
    let (path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    local_descending(path, &list_at.child("subPath"), errors);
    if !expression.is_empty() && !path.is_empty() {
        let why = "subPathExpr and subPath are mutually exclusive";
        errors.invalid(mount_at.child("subPathExpr"), &Value::from(expression), why);
    }
    local_descending(expression, &list_at.child("subPathExpr"), errors);
}

fn validate_propagation(container: &Value, mount: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match mount.get("mountPropagation").and_then(Value::as_str) {
        None | Some("HostToContainer" | "None") => {}
        Some("Bidirectional") => {
            if !container.get("securityContext").is_some_and(|context| is(context, "privileged")) {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                errors.forbidden(at, why);
            }
        }
        Some(other) => {
            errors.not_supported(at, &Value::from(other), &["Bidirectional", "HostToContainer", "None"]);
        }
    }
}

fn validate_recursive_read_only(mount: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match mount.get("recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !is(mount, "readOnly") {
                errors.forbidden(at, "may only be specified when readOnly is true");
            }
            if mount.get("mountPropagation").and_then(Value::as_str).is_some_and(|mode| mode != "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(at, why);
            }
        }
        Some(other) => {
            errors.not_supported(at, &Value::from(other), &["Disabled", "Enabled", "IfPossible"]);
        }
    }
}

pub(crate) fn validate_volume_devices(
    container: &Value,
    volumes: &Volumes<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (mounts, devices) = (list(container, "volumeMounts"), list(container, "volumeDevices"));
    let repeated_names = Repeats::of(devices, |device| text(device, "name"));
    let repeated_paths = Repeats::of(devices, |device| text(device, "devicePath"));
    let (mount_names, mount_paths) = (all(mounts, "name"), all(mounts, "mountPath"));
    for (i, device) in devices.iter().enumerate() {
        let at = at.index(i);
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        let refuse = |key: &str, text: &str, why: &str, errors: &mut ErrorList| {
            errors.invalid(at.child(key), &Value::from(text), why);
        };
        if name.is_empty() {
            errors.required(at.child("name"), "");
        } else if repeated_names.at(i) {
            refuse("name", name, "must be unique", errors);
        }
        validate_is_claim(volumes.find(name), name, &at.child("name"), errors);
        if path.is_empty() {
            errors.required(at.child("devicePath"), "");
        }
        if !has_backsteps(path) && repeated_paths.at(i) {
            refuse("devicePath", path, "must be unique", errors);
        }
        if has_backsteps(path) {
            refuse("devicePath", path, "can not contain backsteps ('..')", errors);
        }
        if mount_names.contains(name) {
            refuse("name", name, "must not already exist in volumeMounts", errors);
        }
        if mount_paths.contains(path) {
            refuse("devicePath", path, "must not already exist as a path in volumeMounts", errors);
        }
    }
}

/// Only persistent volume claims can be devices.
fn validate_is_claim(volume: Option<&Value>, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let is_claim = |volume: &Value| {
        ["persistentVolumeClaim", "ephemeral"].into_iter().any(|key| member(volume, key).is_some())
    };
    match volume {
        None => errors.not_found(at, &Value::from(name)),
        Some(volume) if !is_claim(volume) => {
            let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            errors.invalid(at, &Value::from(name), why);
        }
        Some(_) => {}
    }
}
