//! Conversion between the versions of one resource.
//!
//! Each resource that is served in several versions has a hub: the version it is stored in, which can
//! represent all the others. Every conversion goes through it. Most versions differ in name only;
//! for the others there is one file each. A converted object conforms to its new type and has its
//! `apiVersion`.
//!
//! Only whole objects are converted. `managedFields` are not touched: each entry names its own version.

mod autoscaling;
mod events;
mod resource;

#[cfg(test)]
mod tests;

use thiserror::Error;

use crate::conform::{Extent, TypeError, conform};
use crate::resources::{schema_of, split_api_version};
use crate::value::Value;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConvertError {
    #[error("no conversion of {kind} from {from} to {to}")]
    Unknown { kind: String, from: String, to: String },
    #[error("the converted {kind} is not a valid {to}")]
    Malformed {
        kind: String,
        to: String,
        #[source]
        source: TypeError,
    },
}

/// Changes an object in place.
type Step = fn(&mut Value);

/// A resource with several versions.
#[derive(Debug)]
pub struct Versioned {
    pub kind: &'static str,
    /// The `apiVersion` of the stored form.
    pub hub: &'static str,
    spokes: &'static [Spoke],
}

#[derive(Debug)]
struct Spoke {
    api_version: &'static str,
    to_hub: Step,
    from_hub: Step,
}

const fn same(api_version: &'static str) -> Spoke {
    Spoke { api_version, to_hub: unchanged, from_hub: unchanged }
}

fn unchanged(_: &mut Value) {}

/// Sets a default that later versions of a policy's binding do not have: they require the field.
fn deny_without_parameters(binding: &mut Value) {
    const ACTION: &[&str] = &["spec", "paramRef", "parameterNotFoundAction"];
    let has_reference =
        binding.at(&["spec", "paramRef"]).is_some_and(|reference| reference.as_object().is_some());
    if has_reference && binding.at(ACTION).is_none_or(Value::is_null) {
        binding.set(ACTION, "Deny");
    }
}

/// Every resource served in more than one version.
pub const VERSIONED: &[Versioned] = &[
    Versioned {
        kind: "HorizontalPodAutoscaler",
        hub: "autoscaling/v2",
        spokes: &[Spoke {
            api_version: "autoscaling/v1",
            to_hub: autoscaling::v1_to_v2,
            from_hub: autoscaling::v2_to_v1,
        }],
    },
    Versioned {
        kind: "Event",
        hub: "v1",
        spokes: &[Spoke {
            api_version: "events.k8s.io/v1",
            to_hub: events::events_to_core,
            from_hub: events::core_to_events,
        }],
    },
    Versioned {
        kind: "ResourceClaim",
        hub: "resource.k8s.io/v1",
        spokes: &[
            same("resource.k8s.io/v1beta2"),
            Spoke {
                api_version: "resource.k8s.io/v1beta1",
                to_hub: resource::claim_from_v1beta1,
                from_hub: resource::claim_to_v1beta1,
            },
        ],
    },
    Versioned {
        kind: "ResourceClaimTemplate",
        hub: "resource.k8s.io/v1",
        spokes: &[
            same("resource.k8s.io/v1beta2"),
            Spoke {
                api_version: "resource.k8s.io/v1beta1",
                to_hub: resource::template_from_v1beta1,
                from_hub: resource::template_to_v1beta1,
            },
        ],
    },
    Versioned {
        kind: "ResourceSlice",
        hub: "resource.k8s.io/v1",
        spokes: &[
            same("resource.k8s.io/v1beta2"),
            Spoke {
                api_version: "resource.k8s.io/v1beta1",
                to_hub: resource::slice_from_v1beta1,
                from_hub: resource::slice_to_v1beta1,
            },
        ],
    },
    Versioned {
        kind: "DeviceClass",
        hub: "resource.k8s.io/v1",
        spokes: &[same("resource.k8s.io/v1beta2"), same("resource.k8s.io/v1beta1")],
    },
    Versioned {
        kind: "DeviceTaintRule",
        hub: "resource.k8s.io/v1",
        spokes: &[same("resource.k8s.io/v1beta2"), same("resource.k8s.io/v1alpha3")],
    },
    Versioned {
        kind: "ClusterTrustBundle",
        hub: "certificates.k8s.io/v1",
        spokes: &[same("certificates.k8s.io/v1beta1")],
    },
    // The older version has two more deprecated fields, which a conversion to the newer one must not lose.
    Versioned {
        kind: "PodCertificateRequest",
        hub: "certificates.k8s.io/v1beta1",
        spokes: &[same("certificates.k8s.io/v1")],
    },
    Versioned {
        kind: "MutatingAdmissionPolicy",
        hub: "admissionregistration.k8s.io/v1",
        spokes: &[
            same("admissionregistration.k8s.io/v1beta1"),
            same("admissionregistration.k8s.io/v1alpha1"),
        ],
    },
    Versioned {
        kind: "MutatingAdmissionPolicyBinding",
        hub: "admissionregistration.k8s.io/v1",
        spokes: &[
            same("admissionregistration.k8s.io/v1beta1"),
            Spoke {
                api_version: "admissionregistration.k8s.io/v1alpha1",
                to_hub: deny_without_parameters,
                from_hub: unchanged,
            },
        ],
    },
    Versioned {
        kind: "PodGroup",
        hub: "scheduling.k8s.io/v1beta1",
        spokes: &[same("scheduling.k8s.io/v1alpha3")],
    },
    Versioned {
        kind: "Workload",
        hub: "scheduling.k8s.io/v1beta1",
        spokes: &[same("scheduling.k8s.io/v1alpha3")],
    },
    Versioned {
        kind: "StorageVersionMigration",
        hub: "storagemigration.k8s.io/v1",
        spokes: &[same("storagemigration.k8s.io/v1beta1")],
    },
    Versioned {
        kind: "LeaseCandidate",
        hub: "coordination.k8s.io/v1beta1",
        spokes: &[same("coordination.k8s.io/v1alpha2")],
    },
];

impl Versioned {
    /// Every `apiVersion` of the resource, the hub first.
    pub fn api_versions(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.hub).chain(self.spokes.iter().map(|s| s.api_version))
    }

    pub(crate) fn has(&self, api_version: &str) -> bool {
        self.api_versions().any(|v| v == api_version)
    }

    fn spoke(&self, api_version: &str) -> Option<&'static Spoke> {
        self.spokes.iter().find(|s| s.api_version == api_version)
    }
}

/// The versions of a kind, if there are several. Any of its `apiVersion`s finds them.
pub fn versioned(api_version: &str, kind: &str) -> Option<&'static Versioned> {
    VERSIONED.iter().find(|v| v.kind == kind && v.has(api_version))
}

/// The `apiVersion` an object is stored in.
pub fn storage_version<'a>(api_version: &'a str, kind: &str) -> &'a str {
    versioned(api_version, kind).map_or(api_version, |v| v.hub)
}

/// Converts a whole object. From a version to itself nothing changes.
pub fn convert(kind: &str, from: &str, to: &str, value: &mut Value) -> Result<(), ConvertError> {
    if from == to {
        return Ok(());
    }
    let unknown = || ConvertError::Unknown { kind: kind.into(), from: from.into(), to: to.into() };
    let versions = versioned(from, kind).filter(|v| v.has(to)).ok_or_else(unknown)?;
    if let Some(spoke) = versions.spoke(from) {
        (spoke.to_hub)(value);
    }
    if let Some(spoke) = versions.spoke(to) {
        (spoke.from_hub)(value);
    }
    value.set(&["apiVersion"], to);
    let (group, version) = split_api_version(to);
    let schema = schema_of(group, version, kind).ok_or_else(unknown)?;
    conform(value, &schema, Extent::Whole, &mut Vec::new()).map_err(|source| ConvertError::Malformed {
        kind: kind.into(),
        to: to.into(),
        source,
    })
}

/// Moves a member from one path to another, if it is present.
fn rename(value: &mut Value, from: &[&str], to: &[&str]) {
    if let Some(moved) = value.remove(from) {
        value.set(to, moved);
    }
}
