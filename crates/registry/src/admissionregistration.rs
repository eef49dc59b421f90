//! `admissionregistration.k8s.io`.

mod defaults;
mod expressions;
pub(crate) mod mutatingadmissionpolicies;
pub(crate) mod mutatingadmissionpolicybindings;
pub(crate) mod mutatingwebhookconfigurations;
mod params;
mod policies;
mod validate;
pub(crate) mod validatingadmissionpolicies;
pub(crate) mod validatingadmissionpolicybindings;
pub(crate) mod validatingwebhookconfigurations;
mod webhooks;
