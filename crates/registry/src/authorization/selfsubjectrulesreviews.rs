//! Self subject rules reviews: the permissions of the caller in a namespace. Never stored.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "selfsubjectrulesreviews",
    stored: false,
    ..Rules::DEFAULT
};
