//! PodSecurity: pods satisfy the level in their namespace's labels.
//!
//! `enforce` refuses pods, `warn` warns about pods and pod templates; `audit` only affects the audit log. There are no
//! exemptions, and a namespace without labels is privileged.

mod baseline;
mod checks;
mod existing;
mod policy;
mod restricted;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use tests::check_all_levels;

use std::collections::HashMap;

use corten_api::{Status, Value, meta};

use super::{Admit, CREATE, Plugin, UPDATE, Validate, Verdict};
use crate::admission::{Attributes, lookup, pod};
use checks::evaluate;
use policy::{Level, Policy};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "PodSecurity",
    operations: CREATE | UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Later(validate),
};

/// Subresources that cannot change the security of a pod.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

fn validate<'a>(attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
    match object.filter(|_| attributes.is_object("", "namespaces")) {
        Some(namespace) => Box::pin(validate_namespace(attributes, namespace)),
        None => Box::pin(std::future::ready(validate_object(attributes, object))),
    }
}

fn validate_object(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(object) = object else { return Ok(()) };
    match attributes.resource() {
        ("", "pods") if !HARMLESS.contains(&attributes.subresource) => validate_pod(attributes, object),
        resource if attributes.subresource.is_empty() => {
            if let Some(template) = template(resource, object) {
                warn(attributes, &policy_of(attributes), template);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The pod template of an object.
fn template<'a>(resource: (&str, &str), object: &'a Value) -> Option<&'a Value> {
    match resource {
        ("", "podtemplates") => object.get("template"),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => object.at(&["spec", "template"]),
        ("batch", "cronjobs") => object.at(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// The policy of the request's namespace. Its labels were validated when they were written; invalid ones count as the
/// strictest level.
fn policy_of(attributes: &Attributes<'_>) -> Policy {
    match lookup::namespace(attributes.backend(), attributes.namespace()) {
        Some(namespace) => Policy::read(|label| namespace.projection.label(label)).0,
        None => Policy::PRIVILEGED,
    }
}

fn validate_pod(attributes: &Attributes<'_>, pod: &Value) -> Result<(), Status> {
    let policy = policy_of(attributes);
    if policy.is_privileged() {
        return Ok(());
    }
    if attributes.updates() && attributes.old.is_some_and(|old| !is_significant(pod, old)) {
        return Ok(());
    }
    let violations = evaluate(policy.enforce, pod);
    if !violations.is_empty() {
        let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, violations.detail());
        return Err(attributes.forbidden(Some(pod), why));
    }
    warn(attributes, &policy, pod);
    Ok(())
}

fn warn(attributes: &Attributes<'_>, policy: &Policy, pod: &Value) {
    let violations = evaluate(policy.warn, pod);
    if !violations.is_empty() {
        attributes.warn(format!("would violate PodSecurity \"{}\": {}", policy.warn, violations.detail()));
    }
}

/// True if an update could change the security of a pod: other images or containers.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let image = |container: &Value| container.str_at(&["image"]).unwrap_or_default().to_owned();
    let list_differs = |list: &str| {
        let (new, old) = (pod.items_at(&["spec", list]), old.items_at(&["spec", list]));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new) != image(old))
    };
    // Of several with one name, the first counts.
    let attached = old.items_at(&["spec", "ephemeralContainers"]).iter().rev();
    let attached: HashMap<&str, &Value> = attached.map(|old| (pod::name(old), old)).collect();
    let is_new = |container: &Value| {
        attached.get(pod::name(container)).is_none_or(|old| image(old) != image(container))
    };
    list_differs("containers")
        || list_differs("initContainers")
        || pod.items_at(&["spec", "ephemeralContainers"]).iter().any(is_new)
}

/// Validates the labels of a namespace, and warns about existing pods that violate a stricter level.
async fn validate_namespace(attributes: &Attributes<'_>, namespace: &Value) -> Result<(), Status> {
    let read = |namespace: &Value| {
        let labels = meta::labels(namespace);
        Policy::read(|label| labels.and_then(|labels| labels.get(label)?.as_str()))
    };
    let (new, errors) = read(namespace);
    let old = attributes.old.filter(|_| attributes.updates()).map(read);
    let known = old.as_ref().is_some_and(|(_, old)| *old == errors);
    if !errors.is_empty() && !known {
        return Err(Status::invalid("", "Namespace", meta::name(namespace), &errors));
    }
    let Some((old, _)) = old else { return Ok(()) };
    let relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
    if new.enforce.level == Level::Privileged || relaxed {
        return Ok(());
    }
    let name = meta::name(namespace).to_owned();
    let pods = lookup::list(attributes.backend(), ("", "pods"), &name);
    // Up to a second of work: not on a thread that serves requests.
    let check = move || existing::warnings(&name, new.enforce, &pods, |pod| pod.tree());
    let warnings = tokio::task::spawn_blocking(check).await;
    for warning in warnings.map_err(|_| Status::internal("existing pods could not be checked"))? {
        attributes.warn(warning);
    }
    Ok(())
}
