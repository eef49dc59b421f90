//! Self subject access reviews: the access of the caller. Never stored.

use crate::authorization::validate::validate_access;
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "selfsubjectaccessreviews",
    stored: false,
    validate_create: validate_access,
    ..Rules::DEFAULT
};
