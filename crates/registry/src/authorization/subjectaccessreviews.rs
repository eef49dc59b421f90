//! Subject access reviews: may they? Answered and forgotten.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "subjectaccessreviews",
    stored: false,
    ..Rules::DEFAULT
};
