//! Environment variables and their sources.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::path::no_backsteps;
use crate::validation::resources::amount;
use crate::validation::text::{complain, list, member, optional, required, text};

/// Fields of the pod that variables may refer to.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(crate) fn validate_env(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, variable) in list(container, "env").iter().enumerate() {
        let at = at.index(i);
        required(text(variable, "name"), variable_name, &at.child("name"), errors);
        if let Some(source) = member(variable, "valueFrom") {
            validate_source(variable, source, &at.child("valueFrom"), errors);
        }
    }
}

/// The errors of a variable's name.
fn variable_name(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.is_empty() {
        complaints.push("environment variable name must be non-empty".to_owned());
    }
    if !name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        complaints.push(why.to_owned());
    }
    complaints
}

fn validate_source(variable: &Value, source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mut sources = 0;
    let mut each = |key: &str, check: fn(&Value, &Field<'_>, &mut ErrorList)| {
        if let Some(reference) = member(source, key) {
            sources += 1;
            check(reference, &at.child(key), errors);
        }
    };
    each("fieldRef", |field, at, errors| validate_field_ref(field, &ENV_FIELDS, at, errors));
    each("resourceFieldRef", |field, at, errors| validate_resource_field_ref(field, false, at, errors));
    each("configMapKeyRef", validate_key_ref);
    each("secretKeyRef", validate_key_ref);
    each("fileKeyRef", validate_file_key_ref);
    let why = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.invalid(at, &Value::from(""), why);
}

/// A reference to a field of the pod, one of `fields` or a label or annotation.
pub(crate) fn validate_field_ref(reference: &Value, fields: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    let (version, path) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        errors.required(at.child("apiVersion"), "");
    } else if path.is_empty() {
        errors.required(at.child("fieldPath"), "");
    } else if let Err(why) = known_field(version, path) {
        let why = format!("error converting fieldPath: {why}");
        errors.invalid(at.child("fieldPath"), &Value::from(path), why);
    } else {
        match subscripted(path) {
            Some(("metadata.annotations", key)) => {
                let key = key.to_lowercase();
                complain(at, &key, names::qualified_name(&key), errors);
            }
            Some((_, key)) => complain(at, key, names::qualified_name(key), errors),
            None if fields.contains(&path) || path == "spec.host" && fields.contains(&"spec.nodeName") => {}
            None => errors.not_supported(at.child("fieldPath"), &Value::from(path), fields),
        }
    }
}

fn known_field(version: &str, path: &str) -> Result<(), String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match (subscripted(path), path) {
        (Some(("metadata.annotations" | "metadata.labels", _)), _) => Ok(()),
        (Some(_), _) => Err(format!("field label does not support subscript: {path}")),
        (
            None,
            "metadata.annotations"
            | "metadata.labels"
            | "spec.restartPolicy"
            | "spec.schedulerName"
            | "spec.host"
            | "status.phase",
        ) => Ok(()),
        (None, path) if ENV_FIELDS.contains(&path) => Ok(()),
        (None, path) => Err(format!("field label not supported: {path}")),
    }
}

/// Splits `metadata.labels['a']` in two.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// A reference to a container's resources. Volumes must name the container.
pub(crate) fn validate_resource_field_ref(
    reference: &Value,
    volume: bool,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let resource = text(reference, "resource");
    let huge = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if volume && text(reference, "containerName").is_empty() {
        errors.required(at.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(at.child("resource"), "");
    } else if !huge && !RESOURCE_FIELDS.contains(&resource) {
        errors.not_supported(at.child("resource"), &Value::from(resource), &RESOURCE_FIELDS);
    }
    validate_divisor(resource, huge, reference.get("divisor"), &at.child("divisor"), errors);
}

fn validate_divisor(
    resource: &str,
    huge: bool,
    divisor: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let Some(divisor) = divisor.filter(|divisor| !amount(divisor).is_zero()) else { return };
    let spelled = amount(divisor).to_str();
    let kind = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !matches!(spelled.as_str(), "1m" | "1") {
                let why = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(at, &Value::from(resource), why);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return,
    };
    if !SIZES.contains(&spelled.as_str()) {
        let why =
            format!("only divisor's values {} are supported with the {kind} resource", SIZES.join(", "));
        errors.invalid(at, &Value::from(resource), why);
    }
}

fn validate_key_ref(reference: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let name = text(reference, "name");
    complain(&at.child("name"), name, names::dns1123_subdomain(name), errors);
    required(text(reference, "key"), names::config_map_key, &at.child("key"), errors);
}

fn validate_file_key_ref(reference: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    required(text(reference, "key"), variable_name, &at.child("key"), errors);
    required(text(reference, "volumeName"), names::dns1123_label, &at.child("volumeName"), errors);
    match text(reference, "path") {
        "" => errors.required(at.child("path"), ""),
        path => no_backsteps(path, &at.child("path"), errors),
    }
}

pub(crate) fn validate_env_from(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, source) in list(container, "envFrom").iter().enumerate() {
        let source_at = at.index(i);
        optional(text(source, "prefix"), variable_name, &source_at.child("prefix"), errors);
        let mut sources = 0;
        for key in ["configMapRef", "secretRef"] {
            let Some(reference) = member(source, key) else { continue };
            sources += 1;
            let reference_at = source_at.child(key);
            required(text(reference, "name"), name_prefix, &reference_at.child("name"), errors);
        }
        let why = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.invalid(at, &Value::from(""), why);
    }
}

/// Names of sources are validated as prefixes: a dash may end them.
fn name_prefix(name: &str) -> Vec<String> {
    if names::is_dns1123_subdomain(name) && name.len() <= names::SUBDOMAIN_MAX_LENGTH {
        return Vec::new();
    }
    names::NameRule::DnsSubdomain.check_prefix(name)
}
