//! Permission to name parameters: the author of an admission policy must be able to read all objects of its paramKind, and the
//! author of a binding the objects of its paramRef. Expressions could show them to others.

use corten_api::status::ErrorList;
use corten_api::{Status, Value, meta};
use corten_auth::{Attributes, MASTERS, User};

use crate::call::Call;

const GROUP: &str = "admissionregistration.k8s.io";
const ANY: &str = "*";

/// Refuses a valid policy or binding whose author may not read the parameters that it names. `object` is the new state,
/// `old` the current one.
pub(crate) fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    if call.served.group() != GROUP || call.user.is_in(MASTERS) {
        return Ok(());
    }
    let (field, refusal) = match call.served.name() {
        "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
            ("spec.paramKind", check_policy(call, object, old))
        }
        policies @ ("validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings") => {
            let policies = match policies {
                "validatingadmissionpolicybindings" => "validatingadmissionpolicies",
                _ => "mutatingadmissionpolicies",
            };
            ("spec.paramRef", check_binding(call, policies, object, old))
        }
        _ => return Ok(()),
    };
    refusal.map_err(|why| {
        let mut errors = ErrorList::new();
        errors.forbidden(field, why);
        Status::invalid(GROUP, call.served.kind(), meta::name(object), &errors)
    })
}

fn check_policy(call: &Call, policy: &Value, old: Option<&Value>) -> Result<(), String> {
    let kind = policy.at(&["spec", "paramKind"]).filter(|kind| !kind.is_null());
    let Some(kind) = kind else { return Ok(()) };
    if old.is_some_and(|old| old.at(&["spec", "paramKind"]) == Some(kind)) {
        return Ok(());
    }
    let (group, resource) = resolve(call, kind);
    let asked = Attributes {
        name: ANY,
        namespace: ANY,
        ..Attributes::resource(&call.user, "get", &group, &resource)
    };
    if call.backend.authorizer.authorize(&asked).is_allowed() {
        return Ok(());
    }
    Err(format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        shown(&call.user),
        kind.str_at(&["kind"]).unwrap_or_default(),
        kind.str_at(&["apiVersion"]).unwrap_or_default()
    ))
}

fn check_binding(call: &Call, policies: &str, binding: &Value, old: Option<&Value>) -> Result<(), String> {
    let reference = binding.at(&["spec", "paramRef"]).filter(|reference| !reference.is_null());
    let Some(reference) = reference else { return Ok(()) };
    let same = |path: &[&str]| old.is_some_and(|old| old.at(path) == binding.at(path));
    if same(&["spec", "paramRef"]) && same(&["spec", "policyName"]) {
        return Ok(());
    }
    let policy_name = binding.str_at(&["spec", "policyName"]).unwrap_or_default();
    let policy = call.backend.catalog.cache(GROUP, policies).and_then(|cache| cache.get("", policy_name));
    let policy = policy.map(|policy| policy.tree());
    let kind = policy.as_ref().and_then(|policy| policy.at(&["spec", "paramKind"]));
    let any = || (ANY.to_owned(), ANY.to_owned());
    let (group, resource) = kind.filter(|kind| !kind.is_null()).map_or_else(any, |kind| resolve(call, kind));
    let name = reference.str_at(&["name"]).unwrap_or_default();
    let verb = if name.is_empty() { "list" } else { "get" };
    let asked = Attributes {
        name,
        namespace: reference.str_at(&["namespace"]).unwrap_or_default(),
        ..Attributes::resource(&call.user, verb, &group, &resource)
    };
    if call.backend.authorizer.authorize(&asked).is_allowed() {
        return Ok(());
    }
    let user = shown(&call.user);
    Err(match policy {
        None => format!(
            "unable to get policy {policy_name} to determine minimum required permissions and user {user} does not have \
             \"{verb}\" permission for all groups, versions and resources"
        ),
        Some(_) => {
            format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef")
        }
    })
}

/// Group and resource of a kind of parameters; any resource of the group if the kind is not served.
fn resolve(call: &Call, kind: &Value) -> (String, String) {
    let api_version = kind.str_at(&["apiVersion"]).unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let name = kind.str_at(&["kind"]).unwrap_or_default();
    let resources = call.backend.catalog.resources();
    let found = resources.iter().find(|r| r.group == group && r.version == version && r.kind == name);
    (group.to_owned(), found.map_or_else(|| ANY.to_owned(), |found| found.name.to_string()))
}

/// A user as Go prints it.
fn shown(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
