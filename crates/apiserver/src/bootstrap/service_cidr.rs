//! The default `ServiceCIDR`, named `kubernetes`, with the server's configured ranges.
//!
//! An existing one is not changed: a server with other ranges only warns, except that it adds a second family.

use corten_api::{Value, meta, time};

use super::{Failure, Kind, Local};
use crate::allocation::Finding;

pub(super) const KIND: Kind =
    Kind { group: "networking.k8s.io", version: "v1", resource: "servicecidrs", kind: "ServiceCIDR" };

const NAME: &str = "kubernetes";
const MANAGER: &str = "kubernetes-service-cidr-controller";

/// The change of the object.
#[derive(Debug, PartialEq)]
enum Action {
    Nothing,
    Create,
    /// Adds the second range.
    Extend,
    /// Sets the condition Ready.
    MarkReady,
    /// Its ranges differ from this server's.
    Mismatch,
}

pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    if local.cache(&KIND).is_none() {
        return Ok(());
    }
    let wanted: Vec<Value> =
        local.server().service_ranges.iter().map(|range| Value::from(range.to_string())).collect();
    let current = local.get(&KIND, "", NAME);
    match (decide(current.as_ref(), &wanted), current) {
        (Action::Create, _) => {
            let mut object = KIND.named("", NAME);
            object.set(&["spec", "cidrs"], wanted);
            local.create(&KIND, &object, "").await?;
            mark_ready(local).await
        }
        (Action::Extend, Some(mut object)) => {
            object.set(&["spec", "cidrs"], wanted);
            local.update(&KIND, &object, "").await
        }
        (Action::MarkReady, _) => mark_ready(local).await,
        (Action::Mismatch, Some(object)) => {
            report(local, &object, &wanted).await;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Decides the change. Pure.
fn decide(current: Option<&Value>, wanted: &[Value]) -> Action {
    let Some(current) = current else { return Action::Create };
    let cidrs = current.items_at(&["spec", "cidrs"]);
    if cidrs.len() == 1 && wanted.len() == 2 && cidrs[0] == wanted[0] {
        return Action::Extend;
    }
    if meta::is_deleting(current) {
        return Action::Nothing;
    }
    if cidrs != wanted {
        return Action::Mismatch;
    }
    let mut conditions = current.items_at(&["status", "conditions"]).iter();
    let ready = conditions.find(|condition| condition.str_at(&["type"]) == Some("Ready"));
    match ready.and_then(|condition| condition.str_at(&["status"])) {
        None | Some("Unknown") => Action::MarkReady,
        // A condition that is not true was set for a reason.
        Some(_) => Action::Nothing,
    }
}

async fn mark_ready(local: &Local<'_>) -> Result<(), Failure> {
    let mut condition = Value::object();
    condition.set(&["type"], "Ready");
    condition.set(&["status"], "True");
    condition.set(&["message"], "Kubernetes default Service CIDR is ready");
    condition.set(&["lastTransitionTime"], time::format(local.now()));
    let mut object = KIND.named("", NAME);
    object.set(&["status", "conditions"], vec![condition]);
    local.apply_status(&KIND, &object, MANAGER).await
}

/// Reports a mismatch, once at start: it does not change while the server runs.
async fn report(local: &Local<'_>, object: &Value, wanted: &[Value]) {
    if local.server().health.is_ready() {
        return;
    }
    let shown = |ranges: &[Value]| -> String {
        let ranges: Vec<&str> = ranges.iter().filter_map(Value::as_str).collect();
        format!("[{}]", ranges.join(" "))
    };
    let found = shown(object.items_at(&["spec", "cidrs"]));
    let wanted = shown(wanted);
    tracing::warn!(found, wanted, "default ServiceCIDR differs from the configured service range");
    let finding = Finding {
        kind: KIND.kind,
        namespace: String::new(),
        name: NAME.to_owned(),
        reason: "KubernetesDefaultServiceCIDRInconsistent",
        action: "ServiceCIDRConfiguration",
        note: format!(
            "The default ServiceCIDR {found} does not match the controller flag configurations {wanted}"
        ),
    };
    local.event(&finding).await;
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn actions_by_existing_ranges() {
        let ready = |status: &str| {
            let mut condition = value!({"type": "Ready"});
            condition.set(&["status"], status);
            let mut object = value!({"spec": {"cidrs": ["10.0.0.0/24"]}});
            object.set(&["status", "conditions"], vec![condition]);
            object
        };
        let plain = value!({"spec": {"cidrs": ["10.0.0.0/24"]}});
        let mut going = plain.clone();
        going.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        let one = [Value::from("10.0.0.0/24")];
        let two = [Value::from("10.0.0.0/24"), Value::from("fd00::/112")];
        let other = [Value::from("10.1.0.0/24")];
        for (current, wanted, action) in [
            (None, &one[..], Action::Create),
            (Some(&plain), &one, Action::MarkReady),
            (Some(&ready("True")), &one, Action::Nothing),
            (Some(&ready("False")), &one, Action::Nothing),
            (Some(&ready("Unknown")), &one, Action::MarkReady),
            (Some(&plain), &two, Action::Extend),
            (Some(&plain), &other, Action::Mismatch),
            (Some(&going), &one, Action::Nothing),
        ] {
            assert_eq!(decide(current, wanted), action, "{current:?} {wanted:?}");
        }
    }
}
