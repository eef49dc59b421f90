//! The volume for a claim: the pre-bound one, or the smallest that matches.

use std::sync::Arc;

use corten_api::selector::LabelSelector;
use corten_api::{Value, meta};
use corten_client::Object;

use super::binding::is_for;
use crate::storage::{VolumeView, access_modes, class_of_claim, is_block, quantity};

/// The best of some volumes. Those with the fewest access modes beyond the requested ones come first. A claim with
/// `delayed` binding gets only a pre-bound volume: the scheduler chooses any other together with the node.
pub(super) fn best(claim: &Value, volumes: &[Arc<Object>], delayed: bool) -> Option<Arc<Object>> {
    let wanted_modes = access_modes(claim);
    // A selector that cannot be parsed selects nothing.
    let selector = match claim.at(&["spec", "selector"]) {
        Some(selector) => Some(LabelSelector::from_object(Some(selector)).ok()?),
        None => None,
    };
    let class = class_of_claim(claim).unwrap_or_default();
    let mut best: Option<(Arc<Object>, Arc<VolumeView>)> = None;
    for volume in volumes {
        let view = volume.view::<VolumeView>();
        let is_meant = is_for(&view, claim);
        let is_free = !delayed
            && view.claim.is_none()
            && view.phase == "Available"
            && view.class == class
            && selector.as_ref().is_none_or(|selector| volume.is_selected_by(selector));
        let fits = view.access_modes.is_superset(&wanted_modes)
            && view.capacity >= quantity(claim, &["spec", "resources", "requests", "storage"])
            && view.block == is_block(claim)
            && view.attributes_class == attributes_class(claim)
            && !volume.deleting;
        if !fits || !(is_meant || is_free) {
            continue;
        }
        let rank = |view: &VolumeView| {
            (view.access_modes.len(), view.access_modes.clone(), !is_for(view, claim), view.capacity)
        };
        if best.as_ref().is_none_or(|(_, known)| rank(&view) < rank(known)) {
            best = Some((volume.clone(), view));
        }
    }
    best.map(|(volume, _)| volume)
}

fn attributes_class(claim: &Value) -> &str {
    claim.str_at(&["spec", "volumeAttributesClassName"]).unwrap_or_default()
}

/// The reason why a claim cannot be bound to the volume it names.
pub(super) fn objection(claim: &Value, volume: &Value, view: &VolumeView) -> Option<String> {
    let asked = quantity(claim, &["spec", "resources", "requests", "storage"]);
    let size = |quantity: Option<corten_api::quantity::Quantity>| quantity.map_or(0, |q| q.value());
    let fixed = if meta::is_deleting(volume) {
        return Some(format!("the volume is marked for deletion \"{}\"", meta::name(volume)));
    } else if size(view.capacity) < size(asked) {
        "requested PV is too small"
    } else if view.class != class_of_claim(claim).unwrap_or_default() {
        "storageClassName does not match"
    } else if view.attributes_class != attributes_class(claim) {
        "volumeAttributesClassName does not match"
    } else if view.block != is_block(claim) {
        "incompatible volumeMode"
    } else if !view.access_modes.is_superset(&access_modes(claim)) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(fixed.to_owned())
}
