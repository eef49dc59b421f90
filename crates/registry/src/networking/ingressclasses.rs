//! Ingress classes: the controllers of ingresses. The default one is marked.

pub(super) mod validate;

use corten_api::Value;

use crate::defaults::{child, fill_absent, made};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "ingressclasses",
    prefix_on_update: true,
    storage_prefix: "ingressclasses",
    generation: Generation::SPEC,
    default,
    validate_create: validate::create,
    validate_update: validate::update,
    columns: &[
        NAME,
        text("Controller", "Controller that is responsible for handling this class"),
        text("Parameters", "A reference to a resource with additional parameters"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    const DEFAULT: &[&str] = &["metadata", "annotations", "ingressclass.kubernetes.io/is-default-class"];
    let mut shown = str_at(object, &["metadata", "name"]).to_owned();
    if object.str_at(DEFAULT) == Some("true") {
        shown.push_str(" (default)");
    }
    let parameters = object.at(&["spec", "parameters"]).filter(|p| !p.is_null()).map(|parameters| {
        let (kind, name) = (str_at(parameters, &["kind"]), str_at(parameters, &["name"]));
        match parameters.str_at(&["apiGroup"]) {
            Some(group) => format!("{kind}.{group}/{name}"),
            None => format!("{kind}/{name}"),
        }
    });
    cells![
        shown,
        str_at(object, &["spec", "controller"]),
        parameters.unwrap_or_else(|| NONE.to_owned()),
        age(object, context),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    if let Some(parameters) = child(made(object, "spec"), "parameters") {
        fill_absent(parameters, "scope", "Cluster");
    }
}
