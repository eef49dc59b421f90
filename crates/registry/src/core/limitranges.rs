//! Limit ranges.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "limitranges",
    storage_prefix: "limitranges",
    create_on_update: true,
    ..Rules::DEFAULT
};
