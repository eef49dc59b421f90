//! Service accounts.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "serviceaccounts",
    storage_prefix: "serviceaccounts",
    delete_returns_object: true,
    ..Rules::DEFAULT
};
