//! Subject access reviews: the access of a user. Never stored.

use crate::authorization::validate::validate_subject_access;
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "subjectaccessreviews",
    stored: false,
    validate_create: validate_subject_access,
    ..Rules::DEFAULT
};
