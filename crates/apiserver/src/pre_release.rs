//! Deprecation warnings of alpha and beta versions.
//!
//! Upstream deprecates such a version three releases after it appeared, or when its successor does, and stops serving it
//! after three more.

/// Version, kind, the minor release that deprecates it, and true if the same kind in `v1` replaces it.
const DEPRECATED: &[(&str, &str, u32, bool)] = &[
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicy", 35, false),
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicyBinding", 35, false),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy", 37, true),
    ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding", 37, true),
    ("certificates.k8s.io/v1beta1", "ClusterTrustBundle", 37, true),
    ("certificates.k8s.io/v1beta1", "PodCertificateRequest", 37, true),
    ("coordination.k8s.io/v1alpha2", "LeaseCandidate", 35, false),
    ("coordination.k8s.io/v1beta1", "LeaseCandidate", 36, false),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule", 36, false),
    ("resource.k8s.io/v1beta1", "DeviceClass", 35, false),
    ("resource.k8s.io/v1beta1", "ResourceClaim", 35, false),
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate", 35, false),
    ("resource.k8s.io/v1beta1", "ResourceSlice", 35, false),
    ("resource.k8s.io/v1beta2", "DeviceClass", 36, false),
    ("resource.k8s.io/v1beta2", "ResourceClaim", 36, false),
    ("resource.k8s.io/v1beta2", "ResourceClaimTemplate", 36, false),
    ("resource.k8s.io/v1beta2", "ResourceSlice", 36, false),
    ("storagemigration.k8s.io/v1beta1", "StorageVersionMigration", 37, true),
];
const SERVED_FOR: u32 = 3;

/// The warning of a built-in kind in a version that is deprecated.
pub(crate) fn deprecation(api_version: &str, kind: &str) -> Option<String> {
    let (_, _, since, replaced) = DEPRECATED.iter().find(|row| (row.0, row.1) == (api_version, kind))?;
    let until = since + SERVED_FOR;
    let group = api_version.split('/').next().unwrap_or_default();
    let instead = if *replaced { format!("; use {group}/v1 {kind}") } else { String::new() };
    Some(format!("{api_version} {kind} is deprecated in v1.{since}+, unavailable in v1.{until}+{instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_versions_have_a_warning() {
        let of = |version, kind| deprecation(version, kind).unwrap_or_default();
        assert_eq!(
            of("resource.k8s.io/v1beta1", "DeviceClass"),
            "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+"
        );
        assert_eq!(
            of("storagemigration.k8s.io/v1beta1", "StorageVersionMigration"),
            "storagemigration.k8s.io/v1beta1 StorageVersionMigration is deprecated in v1.37+, unavailable in v1.40+; \
             use storagemigration.k8s.io/v1 StorageVersionMigration"
        );
        assert_eq!(of("resource.k8s.io/v1", "DeviceClass"), "");
        assert_eq!(of("scheduling.k8s.io/v1beta1", "Workload"), "");
    }

    #[test]
    fn every_deprecated_version_is_served() {
        for (version, kind, ..) in DEPRECATED {
            let (group, version) = corten_api::resources::split_api_version(version);
            assert!(corten_api::resources::schema_of(group, version, kind).is_some(), "{version} {kind}");
        }
    }
}
