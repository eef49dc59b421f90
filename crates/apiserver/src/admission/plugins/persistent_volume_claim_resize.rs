//! PersistentVolumeClaimResize: only a bound claim can be expanded, and only if its storage class allows it.

use corten_api::quantity::Quantity;
use corten_api::{Status, Value};
use corten_quota::storage_class;

use super::{Admit, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, lookup};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "PersistentVolumeClaimResize",
    operations: UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let (Some(claim), Some(old)) = (object, attributes.old) else { return Ok(()) };
    if !attributes.is_object("", "persistentvolumeclaims") || !attributes.updates() {
        return Ok(());
    }
    let expands = |class: &str| {
        let class = lookup::get(attributes.backend(), ("storage.k8s.io", "storageclasses"), "", class);
        class.is_some_and(|class| class.parsed().bool_at(&["allowVolumeExpansion"]).unwrap_or(false))
    };
    check(claim, old, expands).map_err(|why| attributes.forbidden(Some(claim), why))
}

pub(super) fn check(claim: &Value, old: &Value, expands: impl Fn(&str) -> bool) -> Result<(), &'static str> {
    if size(claim) <= size(old) {
        return Ok(());
    }
    if old.str_at(&["status", "phase"]) != Some("Bound") {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let class = storage_class(claim);
    if class.is_empty() || class != storage_class(old) || !expands(class) {
        return Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        );
    }
    Ok(())
}

fn size(claim: &Value) -> Quantity {
    let text = claim.str_at(&["spec", "resources", "requests", "storage"]);
    text.and_then(|text| Quantity::parse(text).ok()).unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn bound_claims_of_expandable_classes_may_grow() {
        let claim = |size: &str, class: &str, phase: &str| {
            value!({
                "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}},
                "status": {"phase": phase},
            })
        };
        let table = [
            ("1Gi", "2Gi", "grows", "Bound", ""),
            ("2Gi", "1Gi", "fixed", "Pending", ""),
            ("1Gi", "1024Mi", "fixed", "Pending", ""),
            ("1Gi", "2Gi", "grows", "Pending", "Only bound persistent volume claims can be expanded"),
            (
                "1Gi",
                "2Gi",
                "fixed",
                "Bound",
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
            ),
            (
                "1Gi",
                "2Gi",
                "",
                "Bound",
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
            ),
        ];
        for (old, new, class, phase, expected) in table {
            let outcome =
                check(&claim(new, class, phase), &claim(old, class, phase), |class| class == "grows");
            assert_eq!(outcome.err().unwrap_or_default(), expected, "{old} {new} {class} {phase}");
        }
    }
}
