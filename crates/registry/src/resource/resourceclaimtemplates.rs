//! Resource claim templates.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    storage_prefix: "resourceclaimtemplates",
    delete_returns_object: true,
    ..Rules::DEFAULT
};
