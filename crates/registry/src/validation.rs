//! Checks that several resources share, one file per topic.
//!
//! All functions are pure and total (a missing value, or one of a wrong type, counts as empty), and allocate
//! nothing for valid objects.

mod affinity;
pub(crate) mod conditions;
pub(crate) mod container;
mod containers;
pub(crate) mod csi;
pub(crate) mod declarative;
pub(crate) mod diff;
pub(crate) mod endpoint;
mod env;
pub(crate) mod expression;
pub(crate) mod fields;
pub(crate) mod finalizers;
mod handler;
pub(crate) mod int_or_percent;
pub(crate) mod internal_form;
pub(crate) mod ip;
pub(crate) mod label_selector;
pub(crate) mod node_labels;
pub(crate) mod node_selector;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod pod_annotations;
pub(crate) mod pod_context;
mod pod_network;
mod pod_resources;
pub(crate) mod pod_spec;
pub(crate) mod pod_template;
pub(crate) mod pod_warnings;
mod ports;
mod probe;
pub(crate) mod projected_volume;
pub(crate) mod quantities;
pub(crate) mod repeats;
mod requirements;
pub(crate) mod resources;
mod security_context;
mod security_profile;
pub(crate) mod signer_name;
pub(crate) mod text;
mod tolerance;
pub(crate) mod toleration;
mod topology_spread;
pub(crate) mod url;
mod volume;
pub(crate) mod volume_claim;
mod volume_mount;
pub(crate) mod volume_source;
pub(crate) mod volume_warnings;
pub(crate) mod webhook;
mod windows;
pub(crate) mod workload;
