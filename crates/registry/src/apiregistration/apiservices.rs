//! API services: who serves a group version. One without a service is served here.

use corten_api::{Value, time, value};

use crate::defaults::{made, service_reference};
use crate::prepare::{keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata};
use crate::rules::{NameRule, Request, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, condition, name, present, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "apiregistration.k8s.io",
    resource: "apiservices",
    storage_prefix: "apiregistration.k8s.io/apiservices",
    name: NameRule::PathSegment,
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Service", "The service that serves it, or Local."),
        text("Available", "Whether it can be reached."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let service = object.at(&["spec", "service"]).filter(|s| !s.is_null());
    let service = service.map(|s| format!("{}/{}", str_at(s, &["namespace"]), str_at(s, &["name"])));
    let available = match condition(object, "Available") {
        None => "Unknown".to_owned(),
        Some(available) => match (str_at(available, &["status"]), str_at(available, &["reason"])) {
            (status, reason) if status == "True" || reason.is_empty() => status.to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        },
    };
    cells![name(object), service.unwrap_or_else(|| "Local".to_owned()), available, age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    service_reference(made(object, "spec"));
}

fn prepare_create(object: &mut Value, request: &Request<'_>) {
    object.set(&["status"], Value::object());
    if !present(object, &["spec", "service"]) {
        let now = time::format(request.now);
        let local = value!({
            "type": "Available", "status": "True", "lastTransitionTime": now,
            "reason": "Local", "message": "Local APIServices are always available",
        });
        object.set(&["status", "conditions"], vec![local]);
    }
}
