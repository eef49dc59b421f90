//! Pod templates. There is no spec: the template is what the generation counts.

use corten_api::Value;

use crate::defaults::pod_template;
use crate::rules::{Generation, RowContext, Rules};
use crate::selector::labels;
use crate::table::{NAME, cells, containers, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "podtemplates",
    storage_prefix: "podtemplates",
    generation: Generation { initial: 1, counts: &[&["template"]] },
    default,
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Containers", "Names of the template's containers."),
        text("Images", "Images of the template's containers."),
        text("Pod Labels", "Labels that pods made from it get."),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let [names, images] = containers(object, &["template", "spec", "containers"]);
    cells![name(object), names, images, labels(object.at(&["template", "metadata", "labels"]))]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    pod_template(object);
}
