//! Privilege escalation check: a user who writes a role or binding cannot grant more than the user has.
//!
//! A user with the verb `escalate` on a role or `bind` on a referenced role may grant any rules in it; members of
//! `system:masters` may grant everything.

use corten_api::{Status, Value, meta};
use corten_auth::rbac::{self, MissingRole, RoleKind, RoleRef, Rule, describe_missing, rules_of, uncovered};
use corten_auth::{Attributes, MASTERS};

use super::full_authority;
use crate::call::Call;

/// Refuses a role or binding that grants more than its author has. `object` is the new state, `old` the current one.
pub(crate) fn check(call: &Call, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    if call.served.group() != rbac::GROUP || call.user.is_in(MASTERS) {
        return Ok(());
    }
    match call.served.name() {
        "roles" | "clusterroles" => check_role(call, object, old),
        "rolebindings" | "clusterrolebindings" => check_binding(call, object, old),
        _ => Ok(()),
    }
}

fn check_role(call: &Call, role: &Value, old: Option<&Value>) -> Result<(), Status> {
    let resource = call.served.name();
    let escalate = Attributes {
        namespace: &call.at.namespace,
        name: &call.at.name,
        ..Attributes::resource(&call.user, "escalate", rbac::GROUP, resource)
    };
    if call.backend.authorizer.authorize(&escalate).is_allowed() || only_for_collection(role, old) {
        return Ok(());
    }
    refuse_excess(call, role, &rules_of(role))?;
    // An aggregated role can get any rules, so aggregation needs all permissions.
    let gathers = |role: &Value| !role.items_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty();
    if gathers(role) || old.is_some_and(gathers) {
        refuse_excess(call, role, &full_authority()).map_err(|_| {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            Status::forbidden(rbac::GROUP, resource, meta::name(role), why)
        })?;
    }
    Ok(())
}

fn check_binding(call: &Call, binding: &Value, old: Option<&Value>) -> Result<(), Status> {
    let namespace = call.at.namespace.as_str();
    let role = RoleRef::of(binding);
    let resource = match role.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => "",
    };
    let group = binding.str_at(&["roleRef", "apiGroup"]).unwrap_or_default();
    let bind = Attributes {
        namespace,
        name: &role.name,
        ..Attributes::resource(&call.user, "bind", group, resource)
    };
    if only_for_collection(binding, old)
        || (!resource.is_empty() && call.backend.authorizer.authorize(&bind).is_allowed())
    {
        return Ok(());
    }
    let rules = call.backend.authorizer.rbac.read().role_rules(&role, namespace).map(<[Rule]>::to_vec);
    match rules {
        Ok(rules) => refuse_excess(call, binding, &rules),
        Err(MissingRole::NotFound(RoleKind::Role, _)) if namespace.is_empty() => {
            Err(Status::bad_request("Namespace parameter required."))
        }
        // Upstream names the resource of the request.
        Err(MissingRole::NotFound(_, name)) => Err(Status::not_found(rbac::GROUP, call.served.name(), &name)),
        Err(unsupported) => Err(Status::unexplained(unsupported.to_string())),
    }
}

/// Refuses rules beyond those of the user.
fn refuse_excess(call: &Call, object: &Value, granted: &[Rule]) -> Result<(), Status> {
    let user = &call.user;
    let held = call.backend.authorizer.rbac.read().rules_for(user, &call.at.namespace);
    let missing = match uncovered(&held.rules, granted) {
        Ok(missing) if missing.is_empty() => return Ok(()),
        Ok(missing) => missing,
        Err(too_large) => {
            return Err(Status::forbidden(rbac::GROUP, call.served.name(), meta::name(object), too_large));
        }
    };
    let groups: Vec<String> = user.groups.iter().map(|g| corten_api::status::quoted(g)).collect();
    let mut why = format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        corten_api::status::quoted(&user.name),
        groups.join(" "),
        describe_missing(&missing)
    );
    let missing_roles = held.missing.iter().map(|role| role.not_found_as(call.served.name()));
    if let Some(errors) = rbac::summary(missing_roles) {
        why.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Err(Status::forbidden(rbac::GROUP, call.served.name(), meta::name(object), why))
}

/// True if an update only changes fields that the garbage collector changes.
fn only_for_collection(object: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let without = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            meta::of(&mut object).remove(field);
        }
        object
    };
    without(object) == without(old)
}
