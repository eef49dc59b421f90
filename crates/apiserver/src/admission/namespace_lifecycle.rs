//! NamespaceLifecycle: nothing is created in a namespace that does not exist or is going away, and the
//! namespaces the cluster cannot be without stay.

use corten_api::status::Cause;
use corten_api::{Status, Value, meta};

use crate::call::Call;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) fn create(call: &Call, object: &Value) -> Result<(), Status> {
    let namespace = call.at.namespace.as_str();
    if !call.served.resource.namespaced || namespace.is_empty() {
        return Ok(());
    }
    let found = call.backend.catalog.cache("", "namespaces").and_then(|c| c.get("", namespace));
    let Some(found) = found else { return Err(Status::not_found("", "namespaces", namespace)) };
    // Only a namespace that is going away has a deletion time, so most texts need no reading.
    let marker = b"\"deletionTimestamp\"";
    if !found.json.windows(marker.len()).any(|w| w == marker) || !meta::is_deleting(&found.tree()) {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = Status::forbidden(call.served.group(), call.served.name(), meta::name(object), why);
    status.details.causes = vec![Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    }];
    Err(status)
}

pub(super) fn delete(call: &Call) -> Result<(), Status> {
    if call.served.is_namespaces() && IMMORTAL.contains(&call.at.name.as_str()) {
        return Err(Status::forbidden("", "namespaces", &call.at.name, "this namespace may not be deleted"));
    }
    Ok(())
}
