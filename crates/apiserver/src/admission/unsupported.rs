//! Warnings about objects that are stored but have no effect yet: API services of other servers.

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

fn warning((group, resource): (&str, &str), object: &Value) -> Option<String> {
    let (kind, effect) = match (group, resource) {
        ("apiregistration.k8s.io", "apiservices") if object.at(&["spec", "service"]).is_some() => {
            ("APIServices of other servers", "no request for its group reaches its service")
        }
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
        let service =
            |spec: Value| warning(("apiregistration.k8s.io", "apiservices"), &value!({"spec": (spec)}));
        assert!(service(value!({"service": {"name": "s", "namespace": "n"}})).is_some());
        assert_eq!(service(value!({"group": "apps"})), None, "served here");
        assert_eq!(warning(("apps", "deployments"), &value!({})), None);
    }
}
