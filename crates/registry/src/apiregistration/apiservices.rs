//! API services: the servers of group versions. One without a service is served by this server.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names, time, value};

use crate::defaults::{made, service_reference};
use crate::prepare::{keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata};
use crate::rules::{NameRule, Request, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, condition, name, present, str_at, text};
use crate::validation::text::{self as texts, complain, list};

pub(crate) const RULES: Rules = Rules {
    group: "apiregistration.k8s.io",
    resource: "apiservices",
    storage_prefix: "apiregistration.k8s.io/apiservices",
    qualified_finalizers: false,
    name: NameRule::PathSegment,
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: validate,
    validate_update: |object, _, errors| validate(object, errors),
    validate_subresource,
    unconditional_update: false,
    status_table: false,
    columns: &[
        NAME,
        text("Service", "The reference to the service that hosts this API endpoint."),
        text("Available", "Whether this service is available."),
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

const SPEC: Field<'static> = Field::new("spec");

fn validate(object: &Value, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let (group, version) = (texts::text(spec, "group"), texts::text(spec, "version"));
    validate_name(object, &format!("{version}.{group}"), errors);
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.required(SPEC.child("group"), why);
    }
    texts::optional(group, names::dns1123_subdomain, &SPEC.child("group"), errors);
    complain(&SPEC.child("version"), version, names::dns1035_label(version), errors);
    for (key, most) in [("groupPriorityMinimum", 20000), ("versionPriority", 1000)] {
        let priority = spec.int_at(&[key]).unwrap_or(0);
        if !(1..=most).contains(&priority) {
            let why = format!("must be positive and less than {most}");
            errors.invalid(SPEC.child(key), &Value::from(priority), why);
        }
    }
    validate_service(spec, errors);
}

/// The name consists of the version and the group.
fn validate_name(object: &Value, required: &str, errors: &mut ErrorList) {
    let why = || format!("must be `spec.version+\".\"+spec.group`: \"{required}\"");
    let prefix = str_at(object, &["metadata", "generateName"]);
    let is_segment = NameRule::PathSegment.check_prefix(prefix).is_empty();
    if !prefix.is_empty() && prefix != required && is_segment {
        errors.invalid("metadata.generateName", &Value::from(prefix), why());
    }
    let name = str_at(object, &["metadata", "name"]);
    if !name.is_empty() && name != required && names::path_segment_name(name).is_empty() {
        errors.invalid("metadata.name", &Value::from(name), why());
    }
}

/// TLS settings are only for versions that another server serves.
fn validate_service(spec: &Value, errors: &mut ErrorList) {
    let (bundle, insecure) =
        (texts::text(spec, "caBundle"), spec.bool_at(&["insecureSkipTLSVerify"]) == Some(true));
    let refuse_insecure = |why: &str, errors: &mut ErrorList| {
        errors.invalid(SPEC.child("insecureSkipTLSVerify"), &Value::from(true), why);
    };
    let Some(service) = texts::member(spec, "service") else {
        if !bundle.is_empty() {
            let shown = Value::from(format!("{} bytes", decoded_length(bundle)));
            errors.invalid(SPEC.child("caBundle"), &shown, "local APIServices may not have a caBundle");
        }
        if insecure {
            refuse_insecure("local APIServices may not have insecureSkipTLSVerify", errors);
        }
        return;
    };
    let at = SPEC.child("service");
    for key in ["namespace", "name"].into_iter().filter(|key| texts::text(service, key).is_empty()) {
        errors.required(at.child(key), "");
    }
    let port = service.int_at(&["port"]).unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(at.child("port"), &Value::from(port), why);
    }
    if insecure && !bundle.is_empty() {
        refuse_insecure("may not be true if caBundle is present", errors);
    }
}

/// The decoded length of base64 text.
fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

fn validate_subresource(name: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    let at = Field::new("status");
    let at = at.child("conditions");
    let status = object.get("status").filter(|_| name == "status").unwrap_or(&Value::Null);
    for (i, condition) in list(status, "conditions").iter().enumerate() {
        let state = texts::text(condition, "status");
        if !matches!(state, "True" | "False" | "Unknown") {
            let known = &["True", "False", "Unknown"];
            errors.not_supported(at.index(i).child("status"), &Value::from(state), known);
        }
    }
}
