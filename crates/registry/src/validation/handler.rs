//! Handlers of probes and hooks: exec, HTTP, TCP, gRPC or sleep.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::number::{given, int};
use crate::validation::ports::validate_port_number_or_name;
use crate::validation::text::{list, member, text};

type Check = fn(&Value, Option<i64>, &Field<'_>, &mut ErrorList);

const HANDLERS: [(&str, Check); 5] = [
    ("exec", validate_exec),
    ("httpGet", validate_http_get),
    ("tcpSocket", |tcp, _, at, errors| {
        validate_port_number_or_name(tcp.get("port"), &at.child("port"), errors);
    }),
    ("grpc", |grpc, _, at, errors| {
        validate_port_number_or_name(grpc.get("port"), &at.child("port"), errors);
    }),
    ("sleep", validate_sleep),
];

/// Exactly one valid handler. A sleep must be shorter than the pod's grace period.
pub(crate) fn validate_handler(
    handler: &Value,
    grace_seconds: Option<i64>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let mut found = false;
    for (key, check) in HANDLERS {
        let Some(action) = member(handler, key) else { continue };
        if found {
            errors.forbidden(at.child(key), "may not specify more than 1 handler type");
        } else {
            check(action, grace_seconds, &at.child(key), errors);
        }
        found = true;
    }
    if !found {
        errors.required(at, "must specify a handler type");
    }
}

fn validate_exec(exec: &Value, _: Option<i64>, at: &Field<'_>, errors: &mut ErrorList) {
    if list(exec, "command").is_empty() {
        errors.required(at.child("command"), "");
    }
}

fn validate_http_get(http: &Value, _: Option<i64>, at: &Field<'_>, errors: &mut ErrorList) {
    if text(http, "path").is_empty() {
        errors.required(at.child("path"), "");
    }
    validate_port_number_or_name(http.get("port"), &at.child("port"), errors);
    let scheme = text(http, "scheme");
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.not_supported(at.child("scheme"), &Value::from(scheme), &["HTTP", "HTTPS"]);
    }
    for header in list(http, "httpHeaders") {
        let name = text(header, "name");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            errors.invalid(at.child("httpHeaders"), &Value::from(name), why);
        }
    }
}

fn validate_sleep(sleep: &Value, grace_seconds: Option<i64>, at: &Field<'_>, errors: &mut ErrorList) {
    let (seconds, Some(grace)) = (int(sleep, "seconds"), grace_seconds) else { return };
    if !(0..=grace).contains(&seconds) {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(at, &Value::from(seconds), why);
    }
}

/// The grace period of a pod, if it is set.
pub(crate) fn grace_seconds(spec: &Value) -> Option<i64> {
    given(spec, "terminationGracePeriodSeconds")
}
