//! Controller revisions: past states of stateful and daemon sets.

use crate::rules::Rules;

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "controllerrevisions",
    storage_prefix: "controllerrevisions",
    ..Rules::DEFAULT
};
