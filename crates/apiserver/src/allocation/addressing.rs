//! The address fields of a service, read from its tree and written back.

use corten_api::{Str, Value};

use super::cidr::Family;

pub(super) const NONE: &str = "None";
pub(super) const SINGLE: &str = "SingleStack";
pub(super) const PREFER: &str = "PreferDualStack";
pub(super) const REQUIRE: &str = "RequireDualStack";

/// Type, addresses and families of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Addressing {
    /// `spec.type`.
    pub(super) kind: Str,
    pub(super) cluster_ip: Str,
    pub(super) cluster_ips: Vec<Str>,
    pub(super) families: Vec<Str>,
    pub(super) policy: Option<Str>,
    pub(super) has_selector: bool,
}

impl Addressing {
    pub(super) fn of(service: &Value) -> Addressing {
        let text = |key: &str| Str::new(service.str_at(&["spec", key]).unwrap_or_default());
        let texts = |key: &str| -> Vec<Str> {
            service.items_at(&["spec", key]).iter().filter_map(Value::as_str).map(Str::new).collect()
        };
        Addressing {
            kind: text("type"),
            cluster_ip: text("clusterIP"),
            cluster_ips: texts("clusterIPs"),
            families: texts("ipFamilies"),
            policy: service.str_at(&["spec", "ipFamilyPolicy"]).map(Str::new),
            has_selector: service
                .at(&["spec", "selector"])
                .and_then(Value::as_object)
                .is_some_and(|selector| !selector.is_empty()),
        }
    }

    /// The fields of a stored service, with those inferred that older versions left out.
    pub(super) fn of_stored(service: &Value, primary: Family) -> Addressing {
        let mut found = Addressing::of(service);
        if found.cluster_ips.is_empty() && !found.cluster_ip.is_empty() {
            found.cluster_ips = vec![found.cluster_ip.clone()];
        }
        if found.is_external_name() || !found.families.is_empty() {
            return found;
        }
        let headless = found.is_headless();
        found.families = if headless && !found.has_selector {
            vec![Str::new_static(primary.name()), Str::new_static(primary.other().name())]
        } else if headless {
            vec![Str::new_static(primary.name())]
        } else {
            found.cluster_ips.iter().map(|ip| Str::new_static(family_of(ip).name())).collect()
        };
        found.policy = match found.families.len() {
            0 => found.policy,
            1 => Some(Str::new_static(SINGLE)),
            _ => Some(Str::new_static(REQUIRE)),
        };
        found
    }

    /// Writes the addresses and families back into the tree.
    pub(super) fn write(&self, service: &mut Value) {
        let mut set = |key: &str, value: Option<Value>| match value {
            Some(value) => service.set(&["spec", key], value),
            None => {
                service.remove(&["spec", key]);
            }
        };
        let list = |items: &[Str]| -> Option<Value> {
            (!items.is_empty())
                .then(|| items.iter().map(|item| Value::from(item.clone())).collect::<Vec<_>>().into())
        };
        set("clusterIP", (!self.cluster_ip.is_empty()).then(|| self.cluster_ip.clone().into()));
        set("clusterIPs", list(&self.cluster_ips));
        set("ipFamilies", list(&self.families));
        set("ipFamilyPolicy", self.policy.clone().map(Value::from));
        if self.is_external_name() {
            // A service without an address has no traffic to direct.
            set("internalTrafficPolicy", None);
        }
    }

    /// The tree of a service with only these fields.
    pub(super) fn tree(&self) -> Value {
        let mut service = Value::object();
        service.set(&["spec", "type"], self.kind.clone());
        self.write(&mut service);
        service
    }

    pub(super) fn is_external_name(&self) -> bool {
        self.kind == "ExternalName"
    }

    pub(super) fn is_headless(&self) -> bool {
        self.cluster_ip == NONE || self.cluster_ips.first().is_some_and(|ip| ip == NONE)
    }

    pub(super) fn policy(&self) -> &str {
        self.policy.as_deref().unwrap_or_default()
    }

    /// The addresses as errors show them.
    pub(super) fn shown_ips(&self) -> Value {
        self.cluster_ips.iter().map(|ip| Value::from(ip.clone())).collect::<Vec<_>>().into()
    }

    /// Makes `clusterIP` and `clusterIPs` agree where the intent is clear.
    pub(super) fn agree(&mut self, old: Option<&Addressing>) {
        let Some(old) = old else {
            if !self.cluster_ip.is_empty() && self.cluster_ips.is_empty() {
                self.cluster_ips = vec![self.cluster_ip.clone()];
            }
            return;
        };
        let same_ip = self.cluster_ip == old.cluster_ip;
        if same_ip && self.cluster_ips.is_empty() {
            // The client knows only the field `clusterIP`.
            self.cluster_ips.clone_from(&old.cluster_ips);
        }
        if !same_ip && self.cluster_ips == old.cluster_ips {
            self.cluster_ips =
                if self.cluster_ip.is_empty() { Vec::new() } else { vec![self.cluster_ip.clone()] };
        }
    }

    /// Sets the addresses that an update leaves out to the old ones, so that a manifest can be applied again.
    pub(super) fn keep_omitted(&mut self, old: &Addressing) {
        if self.is_external_name() || old.is_external_name() {
            return;
        }
        if self.cluster_ip.is_empty() {
            self.cluster_ip = old.cluster_ip.clone();
        }
        if self.cluster_ips.is_empty() {
            self.cluster_ips.clone_from(&old.cluster_ips);
        }
    }

    /// True if an update does not change the families of a `PreferDualStack` service: such a service never gains or loses an
    /// address only because the cluster changed.
    pub(super) fn stays_as_preferred(&self, old: &Addressing) -> bool {
        self.policy() == PREFER
            && old.policy.as_ref().is_none_or(|policy| policy == PREFER)
            && self.kind == old.kind
            && matches!(self.kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer")
            && self.cluster_ips == old.cluster_ips
            && self.families == old.families
    }
}

/// The family of an address's text; as upstream, text that is not an address counts as IPv4.
pub(super) fn family_of(ip: &str) -> Family {
    if ip.contains(':') { Family::V6 } else { Family::V4 }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_tree_is_written_back_unchanged() {
        let service = value!({"spec": {
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "selector": {"a": "b"},
        }});
        let mut written = service.clone();
        Addressing::of(&service).write(&mut written);
        assert_eq!(written, service);
        let bare = value!({"spec": {"type": "ExternalName"}});
        let mut written = bare.clone();
        Addressing::of(&bare).write(&mut written);
        assert_eq!(written, bare);
    }

    #[test]
    fn old_services_are_completed() {
        for (spec, families, policy) in [
            (value!({"clusterIP": "10.0.0.1"}), &["IPv4"][..], SINGLE),
            (value!({"clusterIPs": ["fd00::1", "10.0.0.1"]}), &["IPv6", "IPv4"], REQUIRE),
            (value!({"clusterIP": "None"}), &["IPv6", "IPv4"], REQUIRE),
            (value!({"clusterIP": "None", "selector": {"a": "b"}}), &["IPv6"], SINGLE),
        ] {
            let mut service = Value::object();
            service.set(&["spec"], spec.clone());
            let found = Addressing::of_stored(&service, Family::V6);
            assert_eq!(found.families, families, "{spec:?}");
            assert_eq!(found.policy(), policy, "{spec:?}");
        }
    }

    #[test]
    fn cluster_ip_and_cluster_ips_agree() {
        let at = |ip: &str, ips: &[&str]| Addressing {
            cluster_ip: ip.into(),
            cluster_ips: ips.iter().copied().map(Str::new).collect(),
            ..Addressing::default()
        };
        let old = at("10.0.0.1", &["10.0.0.1", "fd00::1"]);
        for (old, new, expected) in [
            (None, at("10.0.0.1", &[]), at("10.0.0.1", &["10.0.0.1"])),
            (None, at("", &["10.0.0.1"]), at("", &["10.0.0.1"])),
            (Some(&old), at("10.0.0.1", &[]), old.clone()),
            (Some(&old), at("", &["10.0.0.1", "fd00::1"]), at("", &[])),
            (Some(&old), at("10.0.0.2", &["10.0.0.1", "fd00::1"]), at("10.0.0.2", &["10.0.0.2"])),
            (Some(&old), at("10.0.0.2", &["10.0.0.3"]), at("10.0.0.2", &["10.0.0.3"])),
        ] {
            let mut found = new.clone();
            found.agree(old);
            assert_eq!(found, expected, "{new:?}");
        }
    }
}
