//! Resource slices: devices a driver offers.

use corten_api::Value;

use crate::rules::{Generation, RowContext, Rules, Selectable};
use crate::table::{AGE, NAME, age, cells, field, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "resourceslices",
    storage_prefix: "resourceslices",
    generation: Generation::SPEC,
    delete_returns_object: true,
    selectable: &[
        Selectable { label: "spec.nodeName", value: |o| field(o, &["spec", "nodeName"]) },
        Selectable { label: "spec.driver", value: |o| field(o, &["spec", "driver"]) },
        Selectable { label: "spec.pool.name", value: |o| field(o, &["spec", "pool", "name"]) },
    ],
    columns: &[
        NAME,
        text("Node", "The node that has the devices."),
        text("Driver", "The driver that manages them."),
        text("Pool", "The pool they belong to."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        str_at(object, &["spec", "nodeName"]),
        str_at(object, &["spec", "driver"]),
        str_at(object, &["spec", "pool", "name"]),
        age(object, context),
    ]
}
