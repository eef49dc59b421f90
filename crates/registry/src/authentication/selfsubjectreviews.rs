//! Self subject reviews: the identity of the caller. Never stored.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "authentication.k8s.io", resource: "selfsubjectreviews", stored: false, ..Rules::DEFAULT };
