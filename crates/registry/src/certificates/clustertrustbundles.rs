//! Cluster trust bundles.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "certificates.k8s.io",
    resource: "clustertrustbundles",
    storage_version: "v1beta1",
    storage_prefix: "clustertrustbundles",
    name: NameRule::PathSegment,
    unconditional_update: false,
    ..Rules::DEFAULT
};
