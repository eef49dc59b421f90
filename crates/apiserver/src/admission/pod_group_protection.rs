//! PodGroupProtection: a pod group is held by a finalizer from the start, which its controller lets go once no
//! pod belongs to it.

use corten_api::{Status, Value};

use super::Attributes;
use super::plugins::{Admit, Plugin, Validate};
use super::storage_object_in_use_protection::hold;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "PodGroupProtection", admit: Admit::Now(admit), validate: Validate::Nothing };

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.is_object("scheduling.k8s.io", "podgroups") && attributes.creates() {
        hold(object, FINALIZER);
    }
    Ok(())
}
