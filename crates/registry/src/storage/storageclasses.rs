//! Storage classes.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "storageclasses",
    storage_prefix: "storageclasses",
    delete_returns_object: true,
    ..Rules::DEFAULT
};
