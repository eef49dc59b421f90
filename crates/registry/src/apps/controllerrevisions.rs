//! Controller revisions: past states of stateful and daemon sets.

use corten_api::resources::split_api_version;
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, int_at, name, str_at, text};
use crate::validation::fields::{immutable, non_negative};

pub(crate) const RULES: Rules = Rules {
    group: "apps",
    resource: "controllerrevisions",
    prefix_on_update: true,
    storage_prefix: "controllerrevisions",
    validate_create,
    validate_update,
    columns: &[
        NAME,
        text("Controller", "Controller of the object"),
        text("Revision", "Which state it is; higher is later.").of("apps/v1.ControllerRevision", "revision"),
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

fn validate_create(revision: &Value, errors: &mut ErrorList) {
    non_negative(revision, "revision", &Field::ROOT, errors);
    match revision.get("data") {
        None | Some(Value::Null) => errors.required("data", "data is mandatory"),
        Some(Value::Object(_)) => {}
        Some(Value::Raw(text)) if text.starts_with('{') => {}
        Some(_) => errors.required("data", "data must be a valid JSON object"),
    }
}

/// The data of a revision is immutable.
fn validate_update(revision: &Value, old: &Value, errors: &mut ErrorList) {
    non_negative(revision, "revision", &Field::ROOT, errors);
    immutable(revision, old, "data", &Field::ROOT, errors);
}
