//! The table of admission plugins: all of upstream's, in its order.
//!
//! A new plugin is a file in `plugins/`, its `mod` and its line in `ORDER`; the folder holds nothing else. Most plugins
//! that are off by default are not implemented: enabling one is an error, disabling one has no effect.
//! NodeRestriction is on by default, unlike upstream: the node authorizer is too, and each restricts nodes only together
//! with the other.

#[cfg(test)]
mod bounds;
mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod cluster_trust_bundle_attest;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod limit_ranger;
mod mutating_admission_policy;
mod mutating_admission_webhook;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod persistent_volume_claim_resize;
mod pod_group_protection;
mod pod_resize_validator;
mod pod_security;
mod pod_topology_labels;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod validating_admission_policy;
mod validating_admission_webhook;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use corten_api::{Status, Value};

use super::configuration::{self, PluginConfigurations};
use super::{Attributes, Operation};

pub use default_toleration_seconds::TolerationSeconds;
pub(super) use resource_quota::Queues as QuotaQueues;

/// The result of an asynchronous plugin.
pub(super) type Verdict<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// The mutating function of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Admit {
    Nothing,
    /// Only looks at the object. Also runs for deletions, which have none, before the webhooks do.
    Look(fn(&Attributes<'_>, Option<&Value>) -> Result<(), Status>),
    Now(fn(&Attributes<'_>, &mut Value) -> Result<(), Status>),
    Later(for<'a> fn(&'a Attributes<'a>, &'a mut Value) -> Verdict<'a>),
    /// Also runs for deletions, which have no object, and for connections.
    Any(for<'a> fn(&'a Attributes<'a>, Option<&'a mut Value>) -> Verdict<'a>),
}

/// The validating function of a plugin, for objects that are ready to be stored, and (`None`) deletions.
#[derive(Clone, Copy)]
pub(super) enum Validate {
    Nothing,
    Now(fn(&Attributes<'_>, Option<&Value>) -> Result<(), Status>),
    Later(for<'a> fn(&'a Attributes<'a>, Option<&'a Value>) -> Verdict<'a>),
    /// Also runs for connections.
    Any(for<'a> fn(&'a Attributes<'a>, Option<&'a Value>) -> Verdict<'a>),
}

pub(super) struct Plugin {
    pub name: &'static str,
    /// The operations for which it runs, as bits.
    pub operations: u8,
    pub admit: Admit,
    pub validate: Validate,
}

const CREATE: u8 = Operation::Create.bit();
const UPDATE: u8 = Operation::Update.bit();
const DELETE: u8 = Operation::Delete.bit();
const CONNECT: u8 = Operation::Connect.bit();
const ALL: u8 = CREATE | UPDATE | DELETE | CONNECT;

impl Plugin {
    pub(super) fn handles(&self, operation: Operation) -> bool {
        self.operations & operation.bit() != 0
    }
}

/// A plugin of the table.
enum Entry {
    /// Implemented, and enabled by default.
    On(&'static Plugin),
    /// Implemented, and disabled by default.
    Off(&'static Plugin),
    /// Disabled by default; not implemented.
    Optional(&'static str),
}

use Entry::{Off, On, Optional};

static ORDER: &[Entry] = &[
    Optional("AlwaysAdmit"),
    Optional("NamespaceAutoProvision"),
    On(&namespace_lifecycle::PLUGIN),
    Optional("NamespaceExists"),
    Optional("LimitPodHardAntiAffinityTopology"),
    On(&limit_ranger::PLUGIN),
    On(&service_account::PLUGIN),
    On(&node_restriction::PLUGIN),
    On(&taint_nodes_by_condition::PLUGIN),
    Optional("AlwaysPullImages"),
    Optional("ImagePolicyWebhook"),
    On(&pod_security::PLUGIN),
    Optional("PodNodeSelector"),
    On(&priority::PLUGIN),
    On(&default_toleration_seconds::PLUGIN),
    Optional("PodTolerationRestriction"),
    Optional("EventRateLimit"),
    Optional("ExtendedResourceToleration"),
    On(&default_storage_class::PLUGIN),
    On(&storage_object_in_use_protection::PLUGIN),
    On(&pod_group_protection::PLUGIN),
    Optional("OwnerReferencesPermissionEnforcement"),
    On(&persistent_volume_claim_resize::PLUGIN),
    On(&runtime_class::PLUGIN),
    On(&certificate_approval::PLUGIN),
    On(&certificate_signing::PLUGIN),
    On(&cluster_trust_bundle_attest::PLUGIN),
    On(&certificate_subject_restriction::PLUGIN),
    On(&default_ingress_class::PLUGIN),
    Off(&deny_service_external_ips::PLUGIN),
    On(&pod_topology_labels::PLUGIN),
    On(&node_declared_feature_validator::PLUGIN),
    On(&pod_resize_validator::PLUGIN),
    On(&mutating_admission_policy::PLUGIN),
    On(&mutating_admission_webhook::PLUGIN),
    On(&validating_admission_policy::PLUGIN),
    On(&validating_admission_webhook::PLUGIN),
    On(&resource_quota::PLUGIN),
    Optional("AlwaysDeny"),
];

impl Entry {
    fn name(&self) -> &'static str {
        match self {
            On(plugin) | Off(plugin) => plugin.name,
            Optional(name) => name,
        }
    }
}

/// The enabled plugins: the default ones, as changed by `--enable-admission-plugins` and `--disable-admission-plugins`.
#[derive(Debug, Clone, Default)]
pub struct AdmissionPlugins {
    enabled: Vec<String>,
    disabled: Vec<String>,
    pub toleration_seconds: TolerationSeconds,
    /// Of webhooks and policies.
    pub(super) configurations: PluginConfigurations,
}

impl AdmissionPlugins {
    /// Validates the lists of the two flags.
    pub fn new(enable: &[String], disable: &[String]) -> Result<AdmissionPlugins, String> {
        let clean = |list: &[String]| -> Vec<String> {
            list.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        };
        let (enable, disable) = (clean(enable), clean(disable));
        for name in &enable {
            match find("--enable-admission-plugins", name)? {
                On(_) | Off(_) => {}
                Optional(_) => {
                    return Err(format!(
                        "--enable-admission-plugins: {name}, which is off by default, is not available yet"
                    ));
                }
            }
            if disable.contains(name) {
                return Err(format!(
                    "{name} is in both --enable-admission-plugins and --disable-admission-plugins"
                ));
            }
        }
        for name in &disable {
            find("--disable-admission-plugins", name)?;
        }
        let toleration_seconds = TolerationSeconds::default();
        let configurations = PluginConfigurations::default();
        Ok(AdmissionPlugins { enabled: enable, disabled: disable, toleration_seconds, configurations })
    }

    /// Reads the file of `--admission-control-config-file`.
    pub fn configure(&mut self, file: &Path) -> Result<(), String> {
        self.configurations = configuration::read(file)?;
        Ok(())
    }

    /// The enabled plugins, in their order.
    pub(super) fn enabled(&self) -> Vec<&'static Plugin> {
        let on = |entry: &'static Entry| match entry {
            On(plugin) if !self.disabled.iter().any(|name| name == plugin.name) => Some(*plugin),
            Off(plugin) if self.enabled.iter().any(|name| name == plugin.name) => Some(*plugin),
            _ => None,
        };
        ORDER.iter().filter_map(on).collect()
    }
}

fn find(flag: &str, name: &str) -> Result<&'static Entry, String> {
    ORDER.iter().find(|entry| entry.name() == name).ok_or_else(|| {
        let known: Vec<&str> = ORDER.iter().map(Entry::name).collect();
        format!("{flag}: there is no plugin called {name}; plugins are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, String> {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let plugins = AdmissionPlugins::new(&owned(enable), &owned(disable))?;
        Ok(plugins.enabled().iter().map(|plugin| plugin.name).collect())
    }

    #[test]
    fn default_plugins_are_enabled_in_order() {
        let on = names(&[], &[]).unwrap();
        assert_eq!(on.first(), Some(&"NamespaceLifecycle"));
        assert_eq!(on.last(), Some(&"ResourceQuota"));
        assert_eq!(on.len(), 26, "{on:?}");
        assert_eq!(names(&["PodSecurity", ""], &[]).unwrap(), on);
        assert!(!on.contains(&"DenyServiceExternalIPs"));
        assert!(names(&["DenyServiceExternalIPs"], &[]).unwrap().contains(&"DenyServiceExternalIPs"));
    }

    #[test]
    fn flags_disable_plugins_and_reject_unknown_ones() {
        let off = names(&[], &["ServiceAccount", "MutatingAdmissionWebhook", "AlwaysDeny"]).unwrap();
        assert!(!off.contains(&"ServiceAccount"));
        assert_eq!(off.len(), 24);
        let table = [
            (["Nonsense"], [""], "--enable-admission-plugins: there is no plugin called Nonsense; "),
            ([""], ["nonsense"], "--disable-admission-plugins: there is no plugin called nonsense; "),
            (["AlwaysPullImages"], [""], "AlwaysPullImages, which is off by default, is not available yet"),
            (["Priority"], ["Priority"], "Priority is in both"),
        ];
        for (enable, disable, expected) in table {
            let error = names(&enable, &disable).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
