//! Secrets.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "", resource: "secrets", storage_prefix: "secrets", ..Rules::DEFAULT };
