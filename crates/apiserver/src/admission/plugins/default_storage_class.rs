//! DefaultStorageClass: a claim without a class gets the default one, if there is one.

use corten_api::{Status, Value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::{Attributes, lookup, pod};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "DefaultStorageClass",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

/// The deprecated annotation of a claim's class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if !attributes.is_object("", "persistentvolumeclaims") || !attributes.creates() || has_class(object) {
        return Ok(());
    }
    let classes = lookup::list(attributes.backend(), ("storage.k8s.io", "storageclasses"), "");
    if let Some(class) = lookup::newest(&classes, is_default) {
        object.set(&["spec", "storageClassName"], class.name.clone());
    }
    Ok(())
}

fn has_class(claim: &Value) -> bool {
    pod::annotation(claim, CLASS_ANNOTATION).is_some() || claim.at(&["spec", "storageClassName"]).is_some()
}

fn is_default(class: &Value) -> bool {
    DEFAULT_ANNOTATIONS.into_iter().any(|key| pod::annotation(class, key) == Some("true"))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn an_empty_class_is_a_class() {
        assert!(!has_class(&value!({"spec": {}})));
        assert!(has_class(&value!({"spec": {"storageClassName": ""}})));
        assert!(has_class(
            &value!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}})
        ));
    }

    #[test]
    fn default_classes_are_annotated() {
        for key in DEFAULT_ANNOTATIONS {
            let mut class = value!({});
            class.set(&["metadata", "annotations", key], "true");
            assert!(is_default(&class));
            class.set(&["metadata", "annotations", key], "yes");
            assert!(!is_default(&class));
        }
    }
}
