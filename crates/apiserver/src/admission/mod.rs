//! What may be written beyond what the object itself says: one file per plugin, in upstream's order.
//!
//! Plugins see the object in its stored form and decide from the caches; they never write.

mod namespace_lifecycle;

use corten_api::{Status, Value};

use crate::call::Call;

/// Asks every plugin about a new object.
pub(crate) fn create(call: &Call, object: &Value) -> Result<(), Status> {
    namespace_lifecycle::create(call, object)
}

/// Asks every plugin about a deletion.
pub(crate) fn delete(call: &Call) -> Result<(), Status> {
    namespace_lifecycle::delete(call)
}
