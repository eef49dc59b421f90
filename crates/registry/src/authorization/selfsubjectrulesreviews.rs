//! Self subject rules reviews: what may I do here? Answered and forgotten.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "selfsubjectrulesreviews",
    stored: false,
    ..Rules::DEFAULT
};
