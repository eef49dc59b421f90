//! PodTopologyLabels: a pod gets the zone and region labels of its node when it is bound.

use corten_api::{Status, Str, Value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::{Attributes, lookup, pod};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "PodTopologyLabels",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.resource() != ("", "pods") || !attributes.creates() {
        return Ok(());
    }
    let node = match attributes.subresource {
        "" => pod::node_name(object),
        "binding" if object.str_at(&["target", "kind"]) == Some("Node") => {
            object.str_at(&["target", "name"]).unwrap_or_default()
        }
        _ => "",
    };
    if node.is_empty() {
        return Ok(());
    }
    let Some(node) = lookup::node(attributes.backend(), node) else { return Ok(()) };
    for label in LABELS {
        if let Some(value) = node.projection.label(label) {
            object.set(&["metadata", "labels", label], Str::new(value));
        }
    }
    Ok(())
}
