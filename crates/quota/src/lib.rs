//! What objects use, as quotas count it: pods by what they take, services by their ports, claims by their size and
//! devices, everything else by number.
//!
//! Pure. The API server charges writes by it before they happen, and the quota controller counts what is there by
//! the same rules, so that the two never disagree. Whether something is too much is for the API server to say.

mod claims;
mod pods;
pub mod resource_list;
mod scopes;
mod usage;

pub use claims::{DeviceClasses, storage_class};
pub use pods::must_be_stated;
pub use resource_list::{Amount, ResourceList};
pub use scopes::{Facts, Scope, is_terminating};
pub use usage::{Item, Measure, Neighbours, is_counted};
