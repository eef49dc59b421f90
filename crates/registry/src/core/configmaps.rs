//! Config maps.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "", resource: "configmaps", storage_prefix: "configmaps", ..Rules::DEFAULT };
