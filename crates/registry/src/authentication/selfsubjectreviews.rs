//! Self subject reviews: who am I? Answered and forgotten.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "authentication.k8s.io", resource: "selfsubjectreviews", stored: false, ..Rules::DEFAULT };
