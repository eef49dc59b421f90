//! Device classes: kinds of devices to ask for.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::validate::{CONFIG_MAX, validate_configuration, validate_items, validate_selectors};
use crate::prepare::same;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};
use crate::validation::text::{list, member};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "deviceclasses",
    storage_prefix: "deviceclasses",
    generation: Generation::SPEC,
    validate_create: |object, errors| validate(object, None, errors),
    validate_update: |object, old, errors| validate(object, Some(old), errors),
    delete_returns_object: true,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}

const SPEC: Field<'static> = Field::new("spec");

/// What did not change was accepted before.
fn validate(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let stored = |key: &str| old.is_some_and(|old| same(object, old, &["spec", key]));
    let selectors = list(spec, "selectors");
    validate_selectors(selectors, stored("selectors"), &SPEC.child("selectors"), errors);
    let config = list(spec, "config");
    validate_items(config, CONFIG_MAX, &SPEC.child("config"), errors, &mut |config, at, errors| {
        validate_configuration(config, stored("config"), at, errors);
    });
    let Some(resource) = member(spec, "extendedResourceName") else { return };
    if !is_extended_resource(resource.as_str().unwrap_or_default()) {
        let why = "must be a valid extended resource name";
        errors.invalid(SPEC.child("extendedResourceName"), resource, why);
    }
}

/// A resource in a domain of its own, which quotas can be about.
fn is_extended_resource(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}
