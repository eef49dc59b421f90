//! Volume attributes classes.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "volumeattributesclasses",
    storage_prefix: "volumeattributesclasses",
    delete_returns_object: true,
    ..Rules::DEFAULT
};
