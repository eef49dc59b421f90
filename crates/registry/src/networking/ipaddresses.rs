//! IP addresses: which service holds which. The name is the address.

use crate::rules::{NameRule, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "ipaddresses",
    storage_prefix: "ipaddresses",
    name: NameRule::PathSegment,
    ..Rules::DEFAULT
};
