//! Resources a pod has as a whole, and the claims its containers share.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::internal_form;
use crate::validation::pod_annotations::{MIRROR, annotation};
use crate::validation::pod_context::{PodContext, WHOLE_POD, is_sidecar};
use crate::validation::repeats::Repeats;
use crate::validation::requirements::validate_requirements;
use crate::validation::resources::{amount, entries, is_huge_page, spelled, validate_resource_name};
use crate::validation::text::{complain, list, member, text};

pub(crate) fn validate_resource_claims(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let claims = list(context.spec, "resourceClaims");
    let mirror = context.pod_metadata.is_some_and(|metadata| annotation(metadata, MIRROR).is_some());
    let repeats = Repeats::of(claims, |claim| text(claim, "name"));
    for (i, claim) in claims.iter().enumerate() {
        if mirror {
            errors.forbidden(WHOLE_POD, "static pods do not support resource claims");
            continue;
        }
        validate_resource_claim(claim, repeats.at(i), &at.index(i), errors);
    }
}

fn validate_resource_claim(claim: &Value, is_repeated: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let name = text(claim, "name");
    if name.is_empty() {
        errors.required(at.child("name"), "");
    } else if is_repeated {
        errors.duplicate(at.child("name"), &Value::from(name));
    } else {
        complain(&at.child("name"), name, names::dns1123_label(name), errors);
    }
    let sources = ["resourceClaimName", "resourceClaimTemplateName"];
    let why = match sources.into_iter().filter(|key| member(claim, key).is_some()).count() {
        1 => None,
        0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
    };
    if let Some(why) = why {
        errors.invalid_shown(at, internal_form::compact("PodResourceClaim", claim), why);
    }
    for key in sources {
        if let Some(source) = claim.get(key).and_then(Value::as_str) {
            complain(&at.child(key), source, names::dns1123_subdomain(source), errors);
        }
    }
}

/// The pod's resources cover those of its containers.
pub(crate) fn validate_pod_resources(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(resources) = member(context.spec, "resources") else { return };
    let at = at.child("resources");
    if context.os() == Some("windows") {
        errors.forbidden(at, "may not be set for a windows pod");
        return;
    }
    if member(resources, "claims").is_some() {
        errors.forbidden(at.child("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_requirements(context, resources, validate_pod_resource_name, &at, errors);
    validate_covers(context.spec, resources, "requests", &at, errors);
    validate_covers(context.spec, resources, "limits", &at, errors);
    validate_container_limits(context.spec, resources, &at, errors);
}

fn validate_pod_resource_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if validate_resource_name(name, at, errors) && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.not_supported(at, &Value::from(name), &["cpu", "hugepages-", "memory"]);
    }
}

/// Requests, and limits of huge pages: the sum of the containers is at most the pod's value.
fn validate_covers(spec: &Value, resources: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    for (name, own) in entries(resources.get(key)) {
        if key == "limits" && !is_huge_page(name) {
            continue;
        }
        let Some(together) = together(spec, key, name).filter(|together| *together > amount(own)) else {
            continue;
        };
        let why = format!("must be greater than or equal to aggregate container {key} of {together}");
        errors.invalid(at.child(key).key(name), &spelled(own), why);
    }
}

/// The maximum of a resource that containers have at the same time: the regular ones and sidecars, or an init container
/// and the sidecars before it.
fn together(spec: &Value, key: &str, name: &str) -> Option<Quantity> {
    let of = |container: &Value| container.at(&["resources", key, name]).map(amount);
    let mut any = false;
    let mut running = Quantity::ZERO;
    for held in list(spec, "containers").iter().filter_map(of) {
        any = true;
        running.add(held);
    }
    let (mut sidecars, mut starting) = (Quantity::ZERO, Quantity::ZERO);
    for container in list(spec, "initContainers") {
        let Some(held) = of(container) else { continue };
        any = true;
        let mut needed = sidecars;
        needed.add(held);
        if is_sidecar(container) {
            running.add(held);
            sidecars = needed;
        }
        starting = starting.max(needed);
    }
    any.then(|| if starting > running { starting } else { running })
}

/// No container's limit exceeds the pod's. Upstream's path is that of the pod's resources.
fn validate_container_limits(spec: &Value, resources: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("containers");
    for (i, container) in list(spec, "containers").iter().enumerate() {
        for (name, limit) in entries(container.at(&["resources", "limits"])) {
            let Some(most) = resources.at(&["limits", name]) else { continue };
            if amount(limit) > amount(most) {
                let most = spelled(most);
                let why = format!(
                    "must be less than or equal to pod limits of {}",
                    most.as_str().unwrap_or_default()
                );
                errors.invalid(at.index(i).key(name).child("limits"), &spelled(limit), why);
            }
        }
    }
}
