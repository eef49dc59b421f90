//! Pod templates.

use crate::rules::{Generation, Rules};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "podtemplates",
    storage_prefix: "podtemplates",
    generation: Generation { initial: 1, counts: &[&["template"]] },
    delete_returns_object: true,
    ..Rules::DEFAULT
};
