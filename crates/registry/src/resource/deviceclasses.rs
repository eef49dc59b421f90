//! Device classes: kinds of devices.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::validate::{
    CONFIG_MAX, selector_budget, validate_configuration, validate_items, validate_selectors,
};
use crate::prepare::same;
use crate::rules::{Generation, NameRule, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};
use crate::validation::text::{complain, list, member};

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "deviceclasses",
    name: NameRule::LongName,
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

/// Unchanged fields are not validated again.
fn validate(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let stored = |key: &str| old.is_some_and(|old| same(object, old, &["spec", key]));
    let selectors = list(spec, "selectors");
    validate_selectors(selectors, stored("selectors"), &selector_budget(), &SPEC.child("selectors"), errors);
    let config = list(spec, "config");
    validate_items(config, CONFIG_MAX, &SPEC.child("config"), errors, &mut |config, at, errors| {
        validate_configuration(config, stored("config"), at, errors);
    });
    let Some(resource) = member(spec, "extendedResourceName") else { return };
    let name = resource.as_str().unwrap_or_default();
    complain(&SPEC.child("extendedResourceName"), name, extended_resource_errors(name), errors);
}

/// The errors of a resource with a domain that quotas can limit.
fn extended_resource_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if !name.contains('/') {
        errors.push("a name must be a domain-prefixed path, such as 'example.com/my-prop'".to_owned());
    } else if name.contains("kubernetes.io/") {
        errors.push("must not have \"kubernetes.io/\" domain".to_owned());
    }
    if name.starts_with("requests.") {
        errors.push("must not have \"requests.\" prefix".to_owned());
    }
    errors.extend(names::qualified_name(&format!("requests.{name}")));
    errors
}
