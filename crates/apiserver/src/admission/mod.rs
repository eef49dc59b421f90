//! What may be written beyond what the object itself says: one file per plugin, in upstream's order.
//!
//! Plugins see objects in their stored form and decide from the caches. First those that change objects are
//! asked (`admit`), before preparation; then, with the object as it would be stored, those that only refuse
//! (`validate`).

mod namespace_lifecycle;

use corten_api::{Status, Value};

use crate::call::Call;

/// What a request does to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// One write, as plugins see it.
pub(crate) struct Attributes<'a> {
    pub call: &'a Call,
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// What is there now, if anything is.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

/// Lets plugins complete and refuse what is to be written, before it is prepared.
pub(crate) async fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.operation == Operation::Create && attributes.subresource.is_empty() {
        namespace_lifecycle::create(attributes.call, object)?;
    }
    Ok(())
}

/// Lets plugins refuse a write of an object that is ready to be stored, or (`None`) a deletion.
pub(crate) async fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    if object.is_none() {
        namespace_lifecycle::delete(attributes.call)?;
    }
    Ok(())
}
