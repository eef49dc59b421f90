//! The rules of each resource: its storage, preparation, validation, selectable fields,
//! columns and rows.
//!
//! One file per resource, all of the same shape: its [`Rules`], the row, then the functions they need.
//! Adding a resource means one such file and one line in the table below.
//!
//! Never in here: I/O, other objects, the clock. Functions get the parts of a request that they need.

mod defaults;
mod prepare;
mod rules;
mod scale;
mod selector;
mod table;
#[cfg(test)]
mod tests;
mod validate;
mod validation;

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod lifecycle;
mod metrics;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use authentication::tokenrequests::validate_token_request;
pub use core::pods::references::{UnknownVolume, api_reference, references_secrets};
pub use core::services::service_addresses_fit;
pub use corten_api::duration::human_duration;
pub use rules::{
    Column, GarbageCollection, Generation, Grace, Listing, Path, Request, RowContext, Rules, Scale,
    Selectable,
};
pub use scale::{SCALE_COLUMNS, scale_row};
pub use validation::ip::parse_sloppy as parse_address;

/// Every built-in resource.
static ALL: &[&Rules] = &[
    &core::bindings::RULES,
    &core::componentstatuses::RULES,
    &core::configmaps::RULES,
    &core::endpoints::RULES,
    &core::events::RULES,
    &core::limitranges::RULES,
    &core::namespaces::RULES,
    &core::nodes::RULES,
    &core::persistentvolumeclaims::RULES,
    &core::persistentvolumes::RULES,
    &core::pods::RULES,
    &core::podtemplates::RULES,
    &core::replicationcontrollers::RULES,
    &core::resourcequotas::RULES,
    &core::secrets::RULES,
    &core::serviceaccounts::RULES,
    &core::services::RULES,
    &apps::controllerrevisions::RULES,
    &apps::daemonsets::RULES,
    &apps::deployments::RULES,
    &apps::replicasets::RULES,
    &apps::statefulsets::RULES,
    &events::events::RULES,
    &authentication::selfsubjectreviews::RULES,
    &authentication::tokenreviews::RULES,
    &authorization::localsubjectaccessreviews::RULES,
    &authorization::selfsubjectaccessreviews::RULES,
    &authorization::selfsubjectrulesreviews::RULES,
    &authorization::subjectaccessreviews::RULES,
    &autoscaling::horizontalpodautoscalers::RULES,
    &batch::cronjobs::RULES,
    &batch::jobs::RULES,
    &certificates::certificatesigningrequests::RULES,
    &certificates::clustertrustbundles::RULES,
    &certificates::podcertificaterequests::RULES,
    &networking::ingressclasses::RULES,
    &networking::ingresses::RULES,
    &networking::ipaddresses::RULES,
    &networking::networkpolicies::RULES,
    &networking::servicecidrs::RULES,
    &policy::poddisruptionbudgets::RULES,
    &rbac::clusterrolebindings::RULES,
    &rbac::clusterroles::RULES,
    &rbac::rolebindings::RULES,
    &rbac::roles::RULES,
    &storage::csidrivers::RULES,
    &storage::csinodes::RULES,
    &storage::csistoragecapacities::RULES,
    &storage::storageclasses::RULES,
    &storage::volumeattachments::RULES,
    &storage::volumeattributesclasses::RULES,
    &admissionregistration::mutatingadmissionpolicies::RULES,
    &admissionregistration::mutatingadmissionpolicybindings::RULES,
    &admissionregistration::mutatingwebhookconfigurations::RULES,
    &admissionregistration::validatingadmissionpolicies::RULES,
    &admissionregistration::validatingadmissionpolicybindings::RULES,
    &admissionregistration::validatingwebhookconfigurations::RULES,
    &apiregistration::apiservices::RULES,
    &apiextensions::customresourcedefinitions::RULES,
    &scheduling::compositepodgroups::RULES,
    &scheduling::podgroups::RULES,
    &scheduling::priorityclasses::RULES,
    &scheduling::workloads::RULES,
    &coordination::leasecandidates::RULES,
    &coordination::leases::RULES,
    &node::runtimeclasses::RULES,
    &discovery::endpointslices::RULES,
    &resource::deviceclasses::RULES,
    &resource::devicetaintrules::RULES,
    &resource::resourceclaims::RULES,
    &resource::resourceclaimtemplates::RULES,
    &resource::resourcepoolstatusrequests::RULES,
    &resource::resourceslices::RULES,
    &flowcontrol::flowschemas::RULES,
    &flowcontrol::prioritylevelconfigurations::RULES,
    &apiserverinternal::storageversions::RULES,
    &storagemigration::storageversionmigrations::RULES,
    &lifecycle::evictionrequests::RULES,
    &lifecycle::evictions::RULES,
    &metrics::nodes::RULES,
    &metrics::pods::RULES,
];

/// The rules that all custom resources share. Their types, columns and selectable fields come from their definitions.
pub static CUSTOM_RESOURCE: Rules = Rules {
    qualified_finalizers: false,
    unconditional_update: false,
    warnings: validation::finalizers::warnings,
    ..Rules::DEFAULT
};

/// The rules of all built-in resources.
pub fn all() -> &'static [&'static Rules] {
    ALL
}

/// The rules of one resource, by wire group and plural name.
pub fn rules(group: &str, resource: &str) -> Option<&'static Rules> {
    static BY_NAME: OnceLock<HashMap<(&str, &str), &Rules>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| ALL.iter().map(|r| ((r.group, r.resource), *r)).collect());
    by_name.get(&(group, resource)).copied()
}
