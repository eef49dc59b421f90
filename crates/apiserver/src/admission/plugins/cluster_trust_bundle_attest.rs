//! ClusterTrustBundleAttest: only users with the verb `attest` on a signer publish its trust anchors.

use corten_api::{Status, Value, meta};

use super::{Admit, CREATE, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, signers};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "ClusterTrustBundleAttest",
    operations: CREATE | UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let is_bundle = attributes.resource() == ("certificates.k8s.io", "clustertrustbundles");
    let Some(bundle) = object.filter(|_| is_bundle) else { return Ok(()) };
    let signer = bundle.str_at(&["spec", "signerName"]).unwrap_or_default();
    let same = attributes.updates() && attributes.old.is_some_and(|old| is_bookkeeping(bundle, old));
    if signer.is_empty() || same || signers::may(attributes, "attest", signer) {
        return Ok(());
    }
    let why = format!("user not permitted to attest for signerName {signer:?}");
    Err(attributes.forbidden(object, why))
}

/// True if an update changes only fields that the garbage collector and field management write.
pub(super) fn is_bookkeeping(new: &Value, old: &Value) -> bool {
    let substance = |bundle: &Value| {
        let mut bundle = bundle.clone();
        for field in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            meta::of(&mut bundle).remove(field);
        }
        bundle
    };
    substance(new) == substance(old)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn bookkeeping_needs_no_attestation() {
        let old = value!({"metadata": {"name": "b"}, "spec": {"trustBundle": "x"}});
        let collected =
            value!({"metadata": {"name": "b", "finalizers": ["f"]}, "spec": {"trustBundle": "x"}});
        assert!(is_bookkeeping(&collected, &old));
        assert!(!is_bookkeeping(&value!({"metadata": {"name": "b"}, "spec": {"trustBundle": "y"}}), &old));
    }
}
