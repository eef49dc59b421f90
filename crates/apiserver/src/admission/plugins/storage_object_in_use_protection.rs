//! StorageObjectInUseProtection: volumes, claims and attribute classes get a finalizer on creation,
//! which their controllers remove once no object uses them.

use corten_api::{Status, Value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::{Attributes, finalizers};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "StorageObjectInUseProtection",
    operations: CREATE,
    admit: Admit::Now(admit),
    validate: Validate::Nothing,
};

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if !attributes.creates() || !attributes.subresource.is_empty() {
        return Ok(());
    }
    let finalizer = match attributes.resource() {
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return Ok(()),
    };
    finalizers::add(object, finalizer);
    Ok(())
}
