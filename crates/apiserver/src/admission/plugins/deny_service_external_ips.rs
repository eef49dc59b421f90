//! DenyServiceExternalIPs: a Service cannot get new external IPs. Off by default.

use corten_api::{ByContent, Status, Value, set_of};

use super::{Admit, CREATE, Plugin, UPDATE, Validate};
use crate::admission::Attributes;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "DenyServiceExternalIPs",
    operations: CREATE | UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(service) = object.filter(|_| attributes.is_object("", "services")) else { return Ok(()) };
    if is_subset(service, attributes.old) {
        return Ok(());
    }
    Err(attributes.forbidden(object, "Use of external IPs is denied by admission control"))
}

/// True if the old service has every external IP of the new one, as text.
pub(super) fn is_subset(new: &Value, old: Option<&Value>) -> bool {
    let had = set_of(old.map(|old| old.items_at(EXTERNAL_IPS)).unwrap_or_default());
    new.items_at(EXTERNAL_IPS).iter().all(|address| had.contains(&ByContent(address)))
}

const EXTERNAL_IPS: &[&str] = &["spec", "externalIPs"];

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn existing_external_ips_may_stay_and_be_removed() {
        let service = |addresses: Value| value!({"spec": {"externalIPs": (addresses)}});
        let (one, two) = (service(value!(["192.0.2.1"])), service(value!(["192.0.2.1", "192.0.2.2"])));
        let none = value!({"spec": {}});
        assert!(is_subset(&none, None));
        assert!(is_subset(&none, Some(&two)));
        assert!(is_subset(&one, Some(&two)));
        assert!(is_subset(&two, Some(&two)));
        assert!(!is_subset(&one, None));
        assert!(!is_subset(&one, Some(&none)));
        assert!(!is_subset(&two, Some(&one)));
    }
}
