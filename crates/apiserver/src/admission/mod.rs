//! What may be written beyond what the object itself says: one file per plugin, in upstream's order.
//!
//! Plugins see objects in their stored form and decide from the caches. First those that change objects are
//! asked (`admit`), before preparation; then, with the object as it would be stored, those that only refuse
//! (`validate`). A deletion has no object to change: it is only validated. What a plugin decides is a
//! function of trees; looking things up is all it does besides.

mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod cluster_trust_bundle_attest;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod limit_ranger;
mod lookup;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod not_run;
mod persistent_volume_claim_resize;
mod plugins;
mod pod;
mod pod_group_protection;
mod pod_resize_validator;
mod pod_security;
mod pod_topology_labels;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod signers;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;

use corten_api::{Status, Value, meta};
use parking_lot::Mutex;

use crate::call::{Backend, Call};

pub use default_toleration_seconds::TolerationSeconds;
pub use plugins::AdmissionPlugins;
use plugins::{Admit, Plugin, Validate};

/// What a request does to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// One write, as the verbs describe it.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// What is there now, if anything is.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

impl<'a> Write<'a> {
    pub(crate) fn create(subresource: &'a str, dry_run: bool) -> Write<'a> {
        Write { operation: Operation::Create, subresource, old: None, dry_run }
    }

    pub(crate) fn update(subresource: &'a str, old: &'a Value, dry_run: bool) -> Write<'a> {
        Write { operation: Operation::Update, subresource, old: Some(old), dry_run }
    }

    pub(crate) fn delete(old: &'a Value, dry_run: bool) -> Write<'a> {
        Write { operation: Operation::Delete, subresource: "", old: Some(old), dry_run }
    }
}

/// The plugins that are on, and what they keep between requests.
pub(crate) struct Admission {
    plugins: Vec<&'static Plugin>,
    quota: resource_quota::Queues,
    toleration_seconds: TolerationSeconds,
}

impl Admission {
    pub(crate) fn new(plugins: &AdmissionPlugins) -> Admission {
        Admission {
            plugins: plugins.enabled(),
            quota: resource_quota::Queues::default(),
            toleration_seconds: plugins.toleration_seconds,
        }
    }
}

/// Lets plugins complete and refuse what is to be written, before it is prepared.
pub(crate) async fn admit(call: &mut Call, write: Write<'_>, object: &mut Value) -> Result<(), Status> {
    let attributes = Attributes::new(call, write);
    for plugin in &call.backend.admission.plugins {
        match plugin.admit {
            Admit::Nothing => {}
            Admit::Now(admit) => admit(&attributes, object)?,
            Admit::Later(admit) => admit(&attributes, object).await?,
        }
    }
    call.warnings.extend(attributes.warnings.into_inner());
    Ok(())
}

/// Lets plugins refuse a write of an object that is ready to be stored, or (`None`) a deletion.
pub(crate) async fn validate(
    call: &mut Call,
    write: Write<'_>,
    object: Option<&Value>,
) -> Result<(), Status> {
    let attributes = Attributes::new(call, write);
    for plugin in &call.backend.admission.plugins {
        match plugin.validate {
            Validate::Nothing => {}
            Validate::Now(validate) => validate(&attributes, object)?,
            Validate::Later(validate) => validate(&attributes, object).await?,
        }
    }
    not_run::warn(&attributes, object);
    call.warnings.extend(attributes.warnings.into_inner());
    Ok(())
}

/// One write, as plugins see it.
struct Attributes<'a> {
    call: &'a Call,
    operation: Operation,
    subresource: &'a str,
    old: Option<&'a Value>,
    dry_run: bool,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Attributes<'a> {
    fn new(call: &'a Call, write: Write<'a>) -> Attributes<'a> {
        let Write { operation, subresource, old, dry_run } = write;
        Attributes { call, operation, subresource, old, dry_run, warnings: Mutex::default() }
    }

    fn backend(&self) -> &'a Backend {
        &self.call.backend
    }

    /// Group and name of the resource.
    fn resource(&self) -> (&'static str, &'static str) {
        (self.call.served.group(), self.call.served.name())
    }

    /// Whether this is about the objects of a resource themselves, not a subresource.
    fn is_object(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.resource() == (group, resource)
    }

    fn creates(&self) -> bool {
        self.operation == Operation::Create
    }

    fn updates(&self) -> bool {
        self.operation == Operation::Update
    }

    /// Empty for cluster-scoped resources.
    fn namespace(&self) -> &'a str {
        &self.call.at.namespace
    }

    /// The name the request is about: on creation only the object has it.
    fn name<'n>(&'n self, object: Option<&'n Value>) -> &'n str {
        match (self.call.at.name.as_str(), object) {
            ("", Some(object)) => meta::name(object),
            (name, _) => name,
        }
    }

    /// Says something to the client that does not stop the request.
    fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }

    /// The refusal of a plugin.
    fn forbidden(&self, object: Option<&Value>, why: impl std::fmt::Display) -> Status {
        let name = match (self.name(object), object.map(meta::generate_name)) {
            ("", Some(prefix)) if !prefix.is_empty() => prefix,
            ("", _) => "Unknown",
            (name, _) => name,
        };
        let (group, resource) = self.resource();
        Status::forbidden(group, resource, name, why)
    }
}
