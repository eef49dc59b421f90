//! NamespaceLifecycle: no object is created in a namespace that does not exist or is terminating, and system namespaces
//! cannot be deleted.

use corten_api::status::Cause;
use corten_api::{Status, Value};

use super::{Admit, CREATE, DELETE, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, Operation, lookup};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "NamespaceLifecycle",
    operations: CREATE | UPDATE | DELETE,
    admit: Admit::Look(admit),
    validate: Validate::Nothing,
};

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Reviews may name any namespace: an error would disclose which namespaces exist.
const REVIEWS: (&str, &str) = ("authorization.k8s.io", "localsubjectaccessreviews");

fn admit(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    if attributes.operation == Operation::Delete
        && attributes.call.served.is_namespaces()
        && IMMORTAL.contains(&attributes.name(None))
    {
        return Err(attributes.forbidden(None, "this namespace may not be deleted"));
    }
    let namespace = attributes.namespace();
    if !attributes.creates()
        || namespace.is_empty()
        || attributes.call.served.is_namespaces()
        || attributes.resource() == REVIEWS
    {
        return Ok(());
    }
    let Some(found) = lookup::namespace(attributes.backend(), namespace) else {
        return Err(Status::not_found("", "namespaces", namespace));
    };
    match lookup::field(attributes.backend(), ("", "namespaces"), &found, "status.phase") {
        "Terminating" => Err(terminating(attributes, object, namespace)),
        _ => Ok(()),
    }
}

fn terminating(attributes: &Attributes<'_>, object: Option<&Value>, namespace: &str) -> Status {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut status = attributes.forbidden(object, why);
    status.details.causes = vec![Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    }];
    status
}
