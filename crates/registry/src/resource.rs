//! `resource.k8s.io`.

mod claims;
pub(crate) mod deviceclasses;
pub(crate) mod devicetaintrules;
mod expressions;
pub(crate) mod resourceclaims;
pub(crate) mod resourceclaimtemplates;
pub(crate) mod resourcepoolstatusrequests;
pub(crate) mod resourceslices;
mod taints;
mod validate;
