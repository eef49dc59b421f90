//! Custom resources: the resources that CustomResourceDefinitions define.
//!
//! `definitions` follows the stored definitions; `resource` is the serving state of one of them, its cache included;
//! `version` the compiled type of one version. Requests on custom resources take the path of all others: the verbs ask
//! [`Version`] for what [`corten_registry::Rules`] tell about built-in resources. `conversion` converts between versions,
//! `conditions` decides a definition's status, `names` which definitions a change concerns, and `controller` writes the
//! status and removes the objects of deleted definitions.
//!
//! *Invariant:* requests see custom resources in the version they name. Only the text in the store is of the stored version.

mod compiled_types;
mod conditions;
mod controller;
mod conversion;
mod definition;
mod definitions;
mod growth;
mod names;
mod resource;
mod version;
mod webhook;

pub(crate) use conditions::mark_deleted;
pub(crate) use controller::run;
pub(crate) use conversion::{Converter, convert_all, served_tree, to_served, to_stored};
pub(crate) use definition::compare_versions;
pub(crate) use definitions::Definitions;
pub(crate) use growth::Grown;
pub(crate) use resource::StoredForm;
pub(crate) use version::{Compiled, Version, scale_row};

/// The group and resource of definitions.
pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const RESOURCE: &str = "customresourcedefinitions";
