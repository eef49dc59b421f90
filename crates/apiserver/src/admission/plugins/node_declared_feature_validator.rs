//! NodeDeclaredFeatureValidator: an update of a bound pod needs only features that its node declares.

use corten_api::quantity::Quantity;
use corten_api::{Status, Value, meta};

use super::{Admit, CREATE, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, lookup, pod};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "NodeDeclaredFeatureValidator",
    operations: CREATE | UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let (Some(pod), Some(old)) = (object, attributes.old) else { return Ok(()) };
    let changes = attributes.updates()
        && attributes.resource() == ("", "pods")
        && matches!(attributes.subresource, "" | "resize")
        && meta::generation(pod) != meta::generation(old);
    let name = pod::node_name(pod);
    if !changes || name.is_empty() {
        return Ok(());
    }
    let needed = needed(pod, old);
    if needed.is_empty() {
        return Ok(());
    }
    let Some(node) = lookup::node(attributes.backend(), name) else {
        return Err(attributes.forbidden(object, format!("node {name:?} not found")));
    };
    let missing = missing(&needed, node.parsed());
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(", ");
    let why = format!("pod update requires features {list} which are not available on node {name:?}");
    Err(attributes.forbidden(object, why))
}

/// The node features that an update needs.
pub(super) fn needed(new: &Value, old: &Value) -> Vec<&'static str> {
    let rules = [
        ("InPlacePodLevelResourcesVerticalScaling", resizes_pod(new, old)),
        ("InPlacePodVerticalScalingInitContainers", resizes_init_containers(new, old)),
        ("InPlacePodVerticalScalingMemoryBackedVolumes", resizes_memory_volumes(new, old)),
    ];
    rules.into_iter().filter(|(_, applies)| *applies).map(|(feature, _)| feature).collect()
}

fn missing(needed: &[&'static str], node: &Value) -> Vec<&'static str> {
    let declared = node.items_at(&["status", "declaredFeatures"]);
    let has = |feature: &str| declared.iter().any(|declared| declared.as_str() == Some(feature));
    needed.iter().copied().filter(|feature| !has(feature)).collect()
}

fn resizes_pod(new: &Value, old: &Value) -> bool {
    new.at(&["spec", "resources"]) != old.at(&["spec", "resources"])
}

fn resizes_init_containers(new: &Value, old: &Value) -> bool {
    let containers = |pod: &'_ Value| pod.items_at(&["spec", "initContainers"]).to_vec();
    let is_sidecar = |container: &Value| container.str_at(&["restartPolicy"]) == Some("Always");
    let differs =
        |(new, old): (&Value, &Value)| !is_sidecar(old) && new.get("resources") != old.get("resources");
    containers(new).iter().zip(&containers(old)).any(differs)
}

fn resizes_memory_volumes(new: &Value, old: &Value) -> bool {
    let (new, old) = (new.items_at(&["spec", "volumes"]), old.items_at(&["spec", "volumes"]));
    let size = |volume: &Value| Quantity::parse(volume.str_at(&["emptyDir", "sizeLimit"])?).ok();
    new.len() == old.len()
        && new.iter().zip(old).any(|(new, old)| {
            pod::name(new) == pod::name(old)
                && new.str_at(&["emptyDir", "medium"]) == Some("Memory")
                && size(new).zip(size(old)).is_some_and(|(new, old)| new != old)
        })
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn updates_need_features() {
        let old = value!({"spec": {
            "initContainers": [{"name": "i", "resources": {}}, {"name": "s", "restartPolicy": "Always"}],
            "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        }});
        assert!(needed(&old, &old).is_empty());
        let mut pod = old.clone();
        pod.set(&["spec", "resources", "requests", "cpu"], "1");
        assert_eq!(needed(&pod, &old), ["InPlacePodLevelResourcesVerticalScaling"]);
        let init = |name: &str| value!({"name": name, "resources": {"requests": {"cpu": "1"}}});
        let mut pod = old.clone();
        let sidecar =
            value!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        pod.set(&["spec", "initContainers"], vec![init("i"), sidecar.clone()]);
        assert_eq!(needed(&pod, &old), ["InPlacePodVerticalScalingInitContainers"]);
        pod.set(&["spec", "initContainers"], vec![value!({"name": "i", "resources": {}}), sidecar]);
        assert!(needed(&pod, &old).is_empty(), "sidecars are resized as ever");
        let mut pod = old.clone();
        pod.set(
            &["spec", "volumes"],
            vec![value!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}})],
        );
        assert_eq!(needed(&pod, &old), ["InPlacePodVerticalScalingMemoryBackedVolumes"]);
    }

    #[test]
    fn nodes_declare_features() {
        let node = value!({"status": {"declaredFeatures": ["A"]}});
        assert_eq!(missing(&["A", "B"], &node), ["B"]);
    }
}
