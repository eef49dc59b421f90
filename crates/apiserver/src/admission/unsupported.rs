//! Warnings about objects that are stored but have no effect yet: admission policies. Their authors must not rely on them for protection.

use corten_api::Value;

use super::Attributes;

/// Warns on every write of such an object.
pub(super) fn warn(attributes: &Attributes<'_>, object: &Value) {
    if let Some(warning) =
        warning(attributes.resource(), object).filter(|_| attributes.subresource.is_empty())
    {
        attributes.warn(warning);
    }
}

fn warning((group, resource): (&str, &str), _: &Value) -> Option<String> {
    let (kind, effect) = match (group, resource) {
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings") => {
            ("MutatingAdmissionPolicies", "it changes and refuses nothing, whatever its failurePolicy")
        }
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies" | "validatingadmissionpolicybindings",
        ) => ("ValidatingAdmissionPolicies", "it refuses nothing, whatever its failurePolicy"),
        _ => return None,
    };
    Some(format!("Corten does not run {kind} yet: this object is stored, but {effect}"))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn writes_of_unsupported_objects_are_warned_about() {
        let admission = |resource| warning(("admissionregistration.k8s.io", resource), &value!({}));
        for resource in [
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ] {
            let said = admission(resource).unwrap_or_default();
            assert!(said.starts_with("Corten does not run "), "{resource}: {said}");
            assert!(said.contains("failurePolicy"), "{resource}: {said}");
        }
        assert_eq!(warning(("apps", "deployments"), &value!({})), None);
    }
}
