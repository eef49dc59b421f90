//! DefaultIngressClass: an ingress without a class gets the default one, if there is one.

use corten_api::{Status, Value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::{Attributes, lookup, pod};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "DefaultIngressClass",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

/// The deprecated annotation of an ingress's class.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if !attributes.is_object("networking.k8s.io", "ingresses") || !attributes.creates() || has_class(object) {
        return Ok(());
    }
    let classes = lookup::list(attributes.backend(), ("networking.k8s.io", "ingressclasses"), "");
    let is_default = |class: &Value| pod::annotation(class, DEFAULT_ANNOTATION) == Some("true");
    if let Some(class) = lookup::newest(&classes, is_default) {
        object.set(&["spec", "ingressClassName"], class.name.clone());
    }
    Ok(())
}

fn has_class(ingress: &Value) -> bool {
    pod::annotation(ingress, CLASS_ANNOTATION).is_some()
        || ingress.at(&["spec", "ingressClassName"]).is_some()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_class_is_in_the_spec_or_in_an_annotation() {
        assert!(!has_class(&value!({"spec": {}})));
        assert!(has_class(&value!({"spec": {"ingressClassName": "x"}})));
        assert!(has_class(&value!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}})));
    }
}
