//! Token reviews: whose token is this? Answered and forgotten.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "authentication.k8s.io", resource: "tokenreviews", stored: false, ..Rules::DEFAULT };
