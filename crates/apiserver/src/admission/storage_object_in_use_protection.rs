//! StorageObjectInUseProtection: volumes, claims and attribute classes are held by a finalizer from the start,
//! which their controllers let go once nobody uses them.

use corten_api::{Status, Value, meta};

use super::Attributes;
use super::plugins::{Admit, Plugin, Validate};

pub(super) const PLUGIN: Plugin =
    Plugin { name: "StorageObjectInUseProtection", admit: Admit::Now(admit), validate: Validate::Nothing };

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
    hold(object, finalizer);
    Ok(())
}

/// Adds a finalizer unless it is there.
pub(super) fn hold(object: &mut Value, finalizer: &str) {
    if !meta::finalizers(object).any(|held| held == finalizer) {
        meta::of(object).entry("finalizers").make_array().push(finalizer.into());
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_finalizer_is_added_once() {
        let mut object = value!({"metadata": {"finalizers": ["a/b"]}});
        hold(&mut object, "x/y");
        hold(&mut object, "x/y");
        assert_eq!(object, value!({"metadata": {"finalizers": ["a/b", "x/y"]}}));
    }
}
