//! Controller revisions: past states of stateful and daemon sets.

use corten_api::Value;
use corten_api::resources::split_api_version;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, int_at, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "controllerrevisions",
    storage_prefix: "controllerrevisions",
    columns: &[
        NAME,
        text("Controller", "The set this is a past state of."),
        text("Revision", "Which state it is; higher is later."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), controller(object), int_at(object, &["revision"]), age(object, context)]
}

/// The controlling owner, as `kind.group/name`.
fn controller(object: &Value) -> String {
    let owners = object.items_at(&["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|o| o.bool_at(&["controller"]) == Some(true)) else {
        return NONE.to_owned();
    };
    let (kind, name) = (str_at(owner, &["kind"]), str_at(owner, &["name"]));
    let kind = match split_api_version(str_at(owner, &["apiVersion"])) {
        ("", _) => kind.to_lowercase(),
        (group, _) => format!("{kind}.{group}").to_lowercase(),
    };
    if kind.is_empty() { name.to_owned() } else { format!("{kind}/{name}") }
}
