//! Token reviews: the identity of a token. Never stored.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "authentication.k8s.io", resource: "tokenreviews", stored: false, ..Rules::DEFAULT };
