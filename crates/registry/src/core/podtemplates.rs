//! Pod templates. There is no spec: the generation counts changes of the template.

use corten_api::{Field, Value};

use crate::defaults::pod_template;
use crate::rules::{Generation, RowContext, Rules};
use crate::selector::labels;
use crate::table::{NAME, cells, containers, name, text};
use crate::validation::pod_template::{
    pod_template_warnings, validate_pod_template_spec, validate_pod_template_spec_update,
};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "podtemplates",
    storage_prefix: "podtemplates",
    generation: Generation { initial: 1, counts: &[&["template"]] },
    default,
    validate_create: |object, errors| validate_pod_template_spec(template(object), &TEMPLATE, errors),
    validate_update: |object, old, errors| {
        validate_pod_template_spec_update(template(object), template(old), &TEMPLATE, errors);
    },
    warnings,
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Containers", "Names of each container in the template."),
        text("Images", "Images referenced by each container in the template."),
        text("Pod Labels", "The labels for the pod template."),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let [names, images] = containers(object, &["template", "spec", "containers"]);
    cells![name(object), names, images, labels(object.at(&["template", "metadata", "labels"]))]
}

const TEMPLATE: Field<'static> = Field::new("template");

fn template(object: &Value) -> &Value {
    object.get("template").unwrap_or(&Value::Null)
}

/// As upstream: an update has warnings only if it changes the generation.
fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let generation = |object: &Value| object.int_at(&["metadata", "generation"]);
    if old.is_some_and(|old| generation(old) == generation(object)) {
        return Vec::new();
    }
    pod_template_warnings(template(object), old.map(template), &TEMPLATE)
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    pod_template(object);
}
