//! PodGroupProtection: a pod group gets a finalizer on creation, which its controller removes once no
//! pod belongs to it.

use corten_api::{Status, Value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::{Attributes, finalizers};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "PodGroupProtection",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.is_object("scheduling.k8s.io", "podgroups") && attributes.creates() {
        finalizers::add(object, FINALIZER);
    }
    Ok(())
}
