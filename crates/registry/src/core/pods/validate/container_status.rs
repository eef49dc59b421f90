//! Validation of containers' statuses: their users, allocated devices and image volumes.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::number::{id, in_range, int};
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, text};

pub(super) fn validate_users(statuses: &[Value], windows: bool, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST_UID: i64 = u32::MAX as i64;
    for (i, status) in statuses.iter().enumerate() {
        let Some(user) = status.get("user").and_then(|user| member(user, "linux")) else { continue };
        let at = at.index(i);
        let at = at.child("user");
        let at = at.child("linux");
        if windows {
            errors.forbidden(at, "cannot be set for a windows pod");
            continue;
        }
        in_range(int(user, "uid"), 0, MOST_UID, &at.child("uid"), errors);
        id(int(user, "gid"), &at.child("gid"), errors);
        for (j, group) in list(user, "supplementalGroups").iter().enumerate() {
            id(group.as_int().unwrap_or(0), &at.child("supplementalGroups").index(j), errors);
        }
    }
}

/// The health of allocated devices: those the container requested, each once.
pub(super) fn validate_allocated(
    status: &Value,
    statuses: &[Value],
    spec: &Value,
    containers: &str,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    for (i, own) in statuses.iter().enumerate() {
        let allocated = list(own, "allocatedResourcesStatus");
        let at = at.index(i);
        let at = at.child("allocatedResourcesStatus");
        if containers == "ephemeralContainers" {
            if !allocated.is_empty() {
                errors.forbidden(at, "must not be specified in container status");
            }
            continue;
        }
        let mut all = list(spec, containers).iter();
        let container = all.find(|container| text(container, "name") == text(own, "name"));
        for (j, resource) in allocated.iter().enumerate() {
            let at = at.index(j);
            if let Some(container) = container {
                validate_allocated_name(status, text(resource, "name"), container, &at.child("name"), errors);
            }
            validate_health(list(resource, "resources"), &at.child("resources"), errors);
        }
    }
}

fn validate_allocated_name(
    status: &Value,
    name: &str,
    container: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (found, why) = match name.strip_prefix("claim:") {
        None => (
            container.at(&["resources", "requests", name]).is_some(),
            "must match one of the container's resource requests",
        ),
        Some(claim) => (
            claims(container, claim) || maps_extended_claim(status, container, claim),
            "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
        ),
    };
    if !found {
        errors.invalid(at, &Value::from(name), why);
    }
}

/// Returns true if a container uses a claim, or the request of one after a slash.
fn claims(container: &Value, wanted: &str) -> bool {
    container.items_at(&["resources", "claims"]).iter().any(|claim| {
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        match wanted.strip_prefix(name) {
            Some("") => request.is_empty(),
            Some(rest) => !request.is_empty() && rest.strip_prefix('/') == Some(request),
            None => false,
        }
    })
}

fn maps_extended_claim(status: &Value, container: &Value, wanted: &str) -> bool {
    let Some(extended) = member(status, "extendedResourceClaimStatus") else { return false };
    let Some((claim, request)) = wanted.split_once('/') else { return false };
    claim == text(extended, "resourceClaimName")
        && !request.is_empty()
        && list(extended, "requestMappings").iter().any(|mapping| {
            let resource = text(mapping, "resourceName");
            text(mapping, "containerName") == text(container, "name")
                && text(mapping, "requestName") == request
                && container.at(&["resources", "requests", resource]).is_some()
        })
}

fn validate_health(resources: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    const MOST_MESSAGE: usize = 1024;
    let repeats = Repeats::of(resources, |item| text(item, "resourceID"));
    for (i, resource) in resources.iter().enumerate() {
        let at = at.index(i);
        let health = text(resource, "health");
        if !matches!(health, "Healthy" | "Unhealthy" | "Unknown") {
            let supported = ["Healthy", "Unhealthy", "Unknown"];
            errors.not_supported(at.child("health"), &Value::from(health), &supported);
        }
        match resource.get("message").and_then(Value::as_str) {
            Some("") => errors.required(at.child("message"), "must be non-empty if specified"),
            Some(message) if message.len() > MOST_MESSAGE => {
                errors.too_long(at.child("message"), MOST_MESSAGE)
            }
            _ => {}
        }
        let own = text(resource, "resourceID");
        if repeats.at(i) {
            errors.duplicate(at.child("resourceID"), &Value::from(own));
        }
    }
}

/// The resolved images of image volumes.
pub(super) fn validate_image_references(statuses: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 256;
    for (i, status) in statuses.iter().enumerate() {
        for (j, mount) in list(status, "volumeMounts").iter().enumerate() {
            let Some(image) = mount.get("volumeStatus").and_then(|status| member(status, "image")) else {
                continue;
            };
            let at = at.index(i);
            let at = at.child("volumeMounts");
            let at = at.index(j);
            let at = at.child("volumeStatus");
            let at = at.child("imageVolumeStatus");
            match text(image, "imageRef") {
                "" => errors.required(at.child("imageRef"), "imageRef must not be empty"),
                reference if reference.len() > MOST => errors.too_long(at.child("imageRef"), MOST),
                _ => {}
            }
        }
    }
}
