//! Component statuses: health of the control plane, made up when asked for.

use crate::rules::Rules;

pub(crate) const RULES: Rules =
    Rules { group: "", resource: "componentstatuses", stored: false, ..Rules::DEFAULT };
