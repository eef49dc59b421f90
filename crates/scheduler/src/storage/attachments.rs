//! The volumes attached to nodes, by VolumeAttachments.

use std::collections::{BTreeMap, HashMap};

use corten_api::{Str, Value};

#[derive(Default)]
pub(super) struct Attachments {
    /// The node of each attachment.
    nodes: HashMap<Str, Str>,
    /// By node and attachment: driver and volume.
    by_node: HashMap<Str, BTreeMap<Str, (Str, Str)>>,
}

impl Attachments {
    /// Updates or removes an attachment.
    pub(super) fn set(&mut self, name: &Str, attachment: Option<&Value>) {
        if let Some(node) = self.nodes.remove(name)
            && let Some(known) = self.by_node.get_mut(&node)
        {
            known.remove(name);
            if known.is_empty() {
                self.by_node.remove(&node);
            }
        }
        let Some(attachment) = attachment else { return };
        let text = |path: &[&str]| attachment.str_at(path).filter(|text| !text.is_empty()).map(Str::new);
        let volume = text(&["spec", "source", "persistentVolumeName"]);
        let (Some(node), Some(driver), Some(volume)) =
            (text(&["spec", "nodeName"]), text(&["spec", "attacher"]), volume)
        else {
            return;
        };
        self.nodes.insert(name.clone(), node.clone());
        self.by_node.entry(node).or_default().insert(name.clone(), (driver, volume));
    }

    /// Drivers and volumes attached to a node.
    pub(super) fn of(&self, node: &str) -> impl Iterator<Item = (&Str, &Str)> {
        let all = self.by_node.get(node).into_iter().flat_map(BTreeMap::values);
        all.map(|(driver, volume)| (driver, volume))
    }
}
