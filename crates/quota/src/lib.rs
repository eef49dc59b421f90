//! The usage of objects that quotas count: pods by their resources, services by their ports, claims by their size and devices,
//! all others by number.
//!
//! Pure. The API server charges writes by these rules before they happen, and the quota controller counts existing objects by
//! the same rules, so that the two always agree. The API server enforces the limits.

mod claims;
mod pods;
mod scopes;
mod usage;

pub use claims::{DeviceClasses, storage_class};
pub use corten_api::resource_list::{self, Amount, ResourceList};
pub use pods::must_be_stated;
pub use scopes::{Facts, Scope, is_terminating};
pub use usage::{Item, Measure, Neighbours, is_counted};
