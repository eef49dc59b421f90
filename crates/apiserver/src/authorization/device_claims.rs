//! Permission for what a claim of devices gives. Admin access, which is to devices in use by others too, needs a label of the
//! namespace. Allocations and reservations need `resourceclaims/binding`, the reports of a driver `resourceclaims/driver`: who may
//! only update `resourceclaims/status` gets no devices by it.

use std::collections::{BTreeMap, BTreeSet};

use corten_api::status::ErrorList;
use corten_api::{Value, meta, names};
use corten_auth::service_account::split_user_name;
use corten_auth::{Attributes, MASTERS, User};

use super::{NODE_NAME, require};
use crate::call::Call;
use crate::negotiate;

const GROUP: &str = "resource.k8s.io";
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
const RESULTS: &[&str] = &["status", "allocation", "devices", "results"];

/// Checks a new claim, or a new template of claims, in its stored form.
pub(crate) fn check_new(call: &Call, object: &Value, errors: &mut ErrorList) {
    if call.served.group() != GROUP {
        return;
    }
    const REQUESTS: &[&str] = &["spec", "devices", "requests"];
    let requests = match call.served.name() {
        "resourceclaims" => object.items_at(REQUESTS),
        "resourceclaimtemplates" => object.get("spec").map_or(&[][..], |spec| spec.items_at(REQUESTS)),
        _ => return,
    };
    let asks = |request: &Value| request.at(&["exactly", "adminAccess"]) == Some(&Value::Bool(true));
    if let Some(index) = requests.iter().position(asks) {
        // Upstream shows this path for templates and all versions, too.
        let at = format!("spec.devices.requests[{index}].adminAccess");
        require_admin_namespace(call, object, at, errors);
    }
}

/// Checks a new state of a claim's status, in its stored form.
pub(crate) fn check_status(call: &Call, object: &Value, old: &Value, errors: &mut ErrorList) {
    if call.served.group() != GROUP || call.served.name() != "resourceclaims" {
        return;
    }
    let granted = |claim: &Value| {
        let results = claim.items_at(RESULTS).iter();
        results.map(|result| result.get("adminAccess")).position(|admin| admin == Some(&Value::Bool(true)))
    };
    if let (None, Some(index)) = (granted(old), granted(object)) {
        let at = format!("status.allocation.devices.results[{index}].adminAccess");
        require_admin_namespace(call, object, at, errors);
    }
    if call.user.is_in(MASTERS) {
        return;
    }
    require_binding(call, object, old, errors);
    if object.at(&["status", "allocation"]).is_some_and(|allocation| !allocation.is_null()) {
        require_drivers(call, object, old, errors);
    }
}

fn require_admin_namespace(call: &Call, object: &Value, at: String, errors: &mut ErrorList) {
    let namespaces = call.backend.catalog.cache("", "namespaces");
    let namespace = namespaces.and_then(|cache| cache.get("", meta::namespace(object)));
    let is_labeled =
        |namespace: &Value| namespace.str_at(&["metadata", "labels", ADMIN_LABEL]) == Some("true");
    if !namespace.is_some_and(|namespace| is_labeled(&namespace.tree())) {
        let why = format!(
            "admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
        );
        errors.forbidden(at, why);
    }
}

fn require_binding(call: &Call, object: &Value, old: &Value, errors: &mut ErrorList) {
    let is_same = |field: &str| {
        let path = ["status", field];
        let of = |claim: &'_ Value| claim.at(&path).cloned().unwrap_or_default();
        of(object) == of(old)
    };
    if is_same("allocation") && is_same("reservedFor") {
        return;
    }
    let verb = verb(call);
    let asked = Attributes { subresource: "binding", ..of_claims(call, verb) };
    if let Err(refused) = require(&call.backend.authorizer, &asked) {
        let why = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {}",
            refused.message
        );
        errors.forbidden("status.allocation", why);
    }
}

fn require_drivers(call: &Call, object: &Value, old: &Value, errors: &mut ErrorList) {
    let mut verbs = vec![format!("arbitrary-node:{}", verb(call))];
    if is_on_node(&call.user, allocated_node(object)) {
        verbs.insert(0, format!("associated-node:{}", verb(call)));
    }
    for driver in changed_drivers(object, old) {
        let refusals = verbs.iter().map(|verb| {
            let asked = Attributes {
                subresource: "driver",
                namespace: &call.at.namespace,
                name: driver,
                ..of_claims(call, verb)
            };
            require(&call.backend.authorizer, &asked).err()
        });
        // One verb is enough. The error is about the first.
        let refusals: Option<Vec<_>> = refusals.collect();
        if let Some(first) = refusals.and_then(|refusals| refusals.into_iter().next()) {
            let why = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {}",
                verbs.join(" "),
                first.message
            );
            errors.forbidden("status.devices", why);
        }
    }
}

fn of_claims<'a>(call: &'a Call, verb: &'a str) -> Attributes<'a> {
    Attributes {
        version: &call.at.version,
        ..Attributes::resource(&call.user, verb, GROUP, "resourceclaims")
    }
}

/// The verb of a write of an existing object.
fn verb(call: &Call) -> &'static str {
    if negotiate::content_type(&call.headers).contains("-patch+") { "patch" } else { "update" }
}

/// The drivers whose reports were added, removed or changed, in order.
fn changed_drivers<'v>(object: &'v Value, old: &'v Value) -> BTreeSet<&'v str> {
    type Reports<'v> = BTreeMap<[&'v str; 4], &'v Value>;
    const DEVICES: &[&str] = &["status", "devices"];
    let reports = |claim: &'v Value| -> Reports<'v> {
        let key = |device: &'v Value| {
            ["driver", "pool", "device", "shareID"].map(|key| device.str_at(&[key]).unwrap_or_default())
        };
        claim.items_at(DEVICES).iter().map(|device| (key(device), device)).collect()
    };
    let (new, old) = (reports(object), reports(old));
    let added = new.iter().filter(|(key, device)| old.get(*key) != Some(*device)).map(|(key, _)| key[0]);
    let removed = old.keys().filter(|key| !new.contains_key(*key)).map(|key| key[0]);
    added.chain(removed).collect()
}

/// The only node that an allocation is for; empty if there may be others.
fn allocated_node(claim: &Value) -> &str {
    let terms = claim.items_at(&["status", "allocation", "nodeSelector", "nodeSelectorTerms"]);
    let [term] = terms else { return "" };
    let [field] = term.items_at(&["matchFields"]) else { return "" };
    let is_by_name = field.str_at(&["key"]) == Some("metadata.name")
        && field.str_at(&["operator"]) == Some("In")
        && term.items_at(&["matchExpressions"]).is_empty();
    match field.items_at(&["values"]) {
        [Value::String(node)] if is_by_name => node,
        _ => "",
    }
}

/// Returns true if a user is a service account in a pod on a node.
fn is_on_node(user: &User, node: &str) -> bool {
    let nodes = user.extra.get(NODE_NAME).map_or(&[][..], Vec::as_slice);
    split_user_name(&user.name).is_some()
        && matches!(nodes, [only] if only == node && names::dns1123_subdomain(only).is_empty())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn drivers_of_changed_reports_are_found() {
        let report =
            |driver: &str, data: i64| value!({"driver": driver, "pool": "p", "device": "d", "data": data});
        let claim = |reports: Vec<Value>| value!({"status": {"devices": (Value::Array(reports))}});
        let old = claim(vec![report("kept", 1), report("changed", 1), report("removed", 1)]);
        let new = claim(vec![report("kept", 1), report("changed", 2), report("added", 1)]);
        let changed = changed_drivers(&new, &old);
        assert_eq!(changed.into_iter().collect::<Vec<_>>(), ["added", "changed", "removed"]);
    }

    #[test]
    fn a_node_is_found_in_the_selector_of_its_allocation_only() {
        let claim = |term: Value| value!({"status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": [(term)]}}}});
        let field = |key: &str, value: &str| value!({"key": key, "operator": "In", "values": [value]});
        let only = value!({"matchFields": [(field("metadata.name", "n1"))]});
        assert_eq!(allocated_node(&claim(only)), "n1");
        let labeled = value!({"matchExpressions": [(field("zone", "n1"))]});
        let both = value!({
            "matchFields": [(field("metadata.name", "n1"))],
            "matchExpressions": [(field("zone", "z"))],
        });
        for other in [labeled, both] {
            assert_eq!(allocated_node(&claim(other)), "");
        }
        assert_eq!(allocated_node(&value!({})), "");
    }

    #[test]
    fn only_service_accounts_with_the_node_are_on_it() {
        let user = |name: &str, nodes: &[&str]| User {
            name: name.into(),
            extra: [(NODE_NAME.to_owned(), nodes.iter().map(ToString::to_string).collect())].into(),
            ..User::default()
        };
        let account = "system:serviceaccount:drivers:gpu";
        assert!(is_on_node(&user(account, &["n1"]), "n1"));
        assert!(!is_on_node(&user(account, &["n1"]), "n2"));
        assert!(!is_on_node(&user(account, &["n1", "n2"]), "n1"));
        assert!(!is_on_node(&user(account, &[""]), ""));
        assert!(!is_on_node(&user("driver", &["n1"]), "n1"));
    }
}
