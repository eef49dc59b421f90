//! Priority classes. The generation is one for good.

use corten_api::Value;

use crate::defaults::fill_absent;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, boolean, cells, int_at, integer, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    storage_prefix: "priorityclasses",
    generation: Generation { initial: 1, counts: &[] },
    default,
    columns: &[
        NAME,
        integer("Value", "The priority pods of this class get."),
        boolean("Global-Default", "Whether pods without a class get this one."),
        AGE,
        text("PreemptionPolicy", "Whether such pods may push others out."),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        int_at(object, &["value"]),
        object.bool_at(&["globalDefault"]).unwrap_or(false),
        age(object, context),
        str_at(object, &["preemptionPolicy"]),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_absent(object, "preemptionPolicy", "PreemptLowerPriority");
}
