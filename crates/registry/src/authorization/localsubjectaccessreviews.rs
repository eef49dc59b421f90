//! Local subject access reviews: the access of a user in a namespace. Never stored.

use crate::authorization::validate::validate_local_subject_access;
use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "authorization.k8s.io",
    resource: "localsubjectaccessreviews",
    stored: false,
    validate_create: validate_local_subject_access,
    ..Rules::DEFAULT
};
