//! Client configurations of webhooks: a URL, or a service in the cluster.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::text::{member, text};
use super::url;

/// The client configuration of a webhook: one of the two forms, not both.
pub(crate) fn validate_client_config(config: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match (member(config, "url"), member(config, "service")) {
        (Some(url), None) => validate_url(url.as_str().unwrap_or_default(), &at.child("url"), errors),
        (None, Some(service)) => validate_service(service, &at.child("service"), errors),
        _ => errors.required(at, "exactly one of url or service is required"),
    }
}

fn validate_url(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            errors.required(at, format!("url must be a valid URL: {why}{FORM}"));
            return;
        }
    };
    let mut refuse = |part: &str, why: &str| errors.invalid(at, &Value::from(part), why);
    if !url.scheme.eq_ignore_ascii_case("https") {
        refuse(&url.scheme.to_lowercase(), &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        refuse("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        refuse(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        refuse(url.query, "query parameters are not permitted in the URL");
    }
}

/// Upstream swaps the name and the namespace in its error fields, so that is done here too.
fn validate_service(service: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if text(service, "namespace").is_empty() {
        errors.required(at.child("name"), "");
    }
    if text(service, "name").is_empty() {
        errors.required(at.child("namespace"), "");
    }
    let port = service.int_at(&["port"]).unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(at.child("port"), &Value::from(port), why);
    }
    validate_path(text(service, "path"), &at.child("path"), errors);
}

fn validate_path(path: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let mut refuse = |why: String| errors.invalid(at, &Value::from(path), why);
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        refuse("segment[0] may not be empty".to_owned());
        return;
    }
    if !path.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (i, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{i}] may not be empty"));
            continue;
        }
        for complaint in names::dns1123_subdomain(step) {
            refuse(format!("segment[{i}]: {complaint}"));
        }
    }
}
