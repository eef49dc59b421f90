//! Local subject access reviews: may they, in this namespace? Answered and forgotten.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "localsubjectaccessreviews",
    stored: false,
    ..Rules::DEFAULT
};
