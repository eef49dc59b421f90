//! Defaults of a container, whichever of the three kinds.

use corten_api::Map;

use super::{child, fill_absent, fill_zero, is_zero, items, pull_policy, resources, text_of};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HOOKS: [&str; 2] = ["postStart", "preStop"];

pub(super) fn container(container: &mut Map) {
    if is_zero(container, "imagePullPolicy") {
        let policy = pull_policy(text_of(container, "image"));
        fill_zero(container, "imagePullPolicy", policy);
    }
    fill_zero(container, "terminationMessagePath", "/dev/termination-log");
    fill_zero(container, "terminationMessagePolicy", "File");
    for source in items(container, "env").filter_map(|variable| child(variable, "valueFrom")) {
        field_ref(source);
    }
    resources(container);
    for name in PROBES {
        if let Some(probe) = child(container, name) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for name in HOOKS {
            if let Some(hook) = child(lifecycle, name) {
                http_get(hook);
            }
        }
    }
}

/// The member `fieldRef`: fields are those of the core group's only version.
pub(super) fn field_ref(source: &mut Map) {
    if let Some(field) = child(source, "fieldRef") {
        fill_zero(field, "apiVersion", "v1");
    }
}

fn default_probe(probe: &mut Map) {
    fill_zero(probe, "timeoutSeconds", 1);
    fill_zero(probe, "periodSeconds", 10);
    fill_zero(probe, "successThreshold", 1);
    fill_zero(probe, "failureThreshold", 3);
    http_get(probe);
    if let Some(grpc) = child(probe, "grpc") {
        fill_absent(grpc, "service", "");
    }
}

fn http_get(handler: &mut Map) {
    if let Some(request) = child(handler, "httpGet") {
        fill_zero(request, "path", "/");
        fill_zero(request, "scheme", "HTTP");
    }
}
