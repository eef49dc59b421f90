//! Admission control. The plugins are in `plugins`, one file each; this folder's other files are shared by them.
//!
//! Plugins get objects in their stored form and decide from the caches. First the mutating ones run (`admit`), before
//! preparation; then, with the object as it would be stored, the validating ones (`validate`). A deletion has no object to
//! change: it is only validated. Decisions are functions of trees; apart from lookups, plugins have no effects.

mod certificate_requests;
mod finalizers;
mod lookup;
mod plugins;
mod pod;
mod signers;
mod unsupported;

use corten_api::{Status, Value, meta};
use parking_lot::Mutex;

use crate::call::{Backend, Call};

pub use plugins::{AdmissionPlugins, TolerationSeconds};
use plugins::{Admit, Plugin, QuotaQueues, Validate};

/// The operation of a request.
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
    /// The current object, if it exists.
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

/// The enabled plugins and their state.
pub(crate) struct Admission {
    plugins: Vec<&'static Plugin>,
    quota: QuotaQueues,
    toleration_seconds: TolerationSeconds,
}

impl Admission {
    pub(crate) fn new(plugins: &AdmissionPlugins) -> Admission {
        Admission {
            plugins: plugins.enabled(),
            quota: QuotaQueues::default(),
            toleration_seconds: plugins.toleration_seconds,
        }
    }
}

/// Runs the mutating plugins, before the object is prepared.
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

/// Runs the validating plugins on an object that is ready to be stored, or (`None`) on a deletion.
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
    unsupported::warn(&attributes, object);
    call.warnings.extend(attributes.warnings.into_inner());
    Ok(())
}

/// One write, as plugins get it.
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
    fn resource(&self) -> (&'a str, &'a str) {
        (self.call.served.group(), self.call.served.name())
    }

    /// True if this is a write of a resource's objects, not of a subresource.
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

    /// The name in the request; on creation only the object has it.
    fn name<'n>(&'n self, object: Option<&'n Value>) -> &'n str {
        match (self.call.at.name.as_str(), object) {
            ("", Some(object)) => meta::name(object),
            (name, _) => name,
        }
    }

    /// Adds a warning for the client.
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
