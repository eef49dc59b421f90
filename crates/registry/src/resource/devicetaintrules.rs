//! Device taint rules: taints of devices.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, time};
use jiff::Timestamp;

use super::taints;
use super::validate::{validate_driver_name, validate_label, validate_pool_name, validate_taint};
use crate::defaults::made;
use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, same, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, Request, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, since, str_at, text, time_at};
use crate::validation::conditions::validate_conditions;

pub(crate) const RULES: Rules = Rules {
    group: "resource.k8s.io",
    resource: "devicetaintrules",
    storage_version: "v1beta2",
    storage_prefix: "devicetaintrules",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    default_times: date,
    prepare_update,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    validate_create: |object, errors| validate(object, None, errors),
    validate_update: |object, old, errors| validate(object, Some(old), errors),
    validate_subresource,
    unconditional_update: false,
    status_table: false,
    columns: &[
        NAME,
        text("Key", "The taint's key.").of("resource/v1.DeviceTaint", "key"),
        text("Value", "The taint's value.").of("resource/v1.DeviceTaint", "value"),
        text("Effect", "What the taint does to pods that do not tolerate it.")
            .of("resource/v1.DeviceTaint", "effect"),
        text("TimeAdded", "How long ago the taint was added.").of("resource/v1.DeviceTaint", "timeAdded"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let taint = |key: &str| str_at(object, &["spec", "taint", key]);
    let added = match time_at(object, TIME_ADDED) {
        Some(_) => since(object, TIME_ADDED, context),
        None => String::new(),
    };
    cells![name(object), taint("key"), taint("value"), taint("effect"), added, age(object, context)]
}

const TIME_ADDED: &[&str] = &["spec", "taint", "timeAdded"];

fn date(object: &mut Value, now: Timestamp) {
    if let Some(object) = object.as_object_mut() {
        taints::date(made(made(object, "spec"), "taint"), now);
    }
}

/// A taint with another effect is another taint: its time is now.
fn prepare_update(object: &mut Value, old: &Value, request: &Request<'_>) {
    keep_status(object, old, request);
    if !same(object, old, &["spec", "taint", "effect"]) && same(object, old, TIME_ADDED) {
        object.set(TIME_ADDED, time::format(request.now));
    }
}

const CONDITIONS_MAX: usize = 8;

fn validate(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    const SELECTOR: Field<'static> = Field::new("spec").child("deviceSelector");
    const TAINT: &[&str] = &["spec", "taint"];
    let chosen = |key: &str| object.str_at(&["spec", "deviceSelector", key]);
    if let Some(driver) = chosen("driver") {
        validate_driver_name(driver, &SELECTOR.child("driver"), errors);
    }
    if let Some(pool) = chosen("pool") {
        validate_pool_name(pool, &SELECTOR.child("pool"), errors);
    }
    if let Some(device) = chosen("device") {
        validate_label(device, &SELECTOR.child("device"), errors);
    }
    let taint = object.at(TAINT).unwrap_or(&Value::Null);
    let old = old.map(|old| old.at(TAINT).unwrap_or(&Value::Null));
    validate_taint(taint, old, &Field::new("spec").child("taint"), errors);
}

fn validate_subresource(sub: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    const CONDITIONS: Field<'static> = Field::new("status").child("conditions");
    if sub != "status" {
        return;
    }
    let conditions = object.items_at(&["status", "conditions"]);
    validate_conditions(conditions, &CONDITIONS, errors);
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(CONDITIONS, conditions.len(), CONDITIONS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn taints_are_dated() {
        let request = |second: i64| Request { now: Timestamp::from_second(second).unwrap(), user: None };
        let mut old = value!({"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}});
        (RULES.default_times)(&mut old, request(1).now);
        assert_eq!(old.str_at(TIME_ADDED), Some("1970-01-01T00:00:01Z"));

        let after = |change: fn(&mut Value)| {
            let mut new = old.clone();
            change(&mut new);
            (RULES.default_times)(&mut new, request(2).now);
            RULES.prepare_for_update("", &mut new, &old, &request(2));
            new.str_at(TIME_ADDED).unwrap_or_default().to_owned()
        };
        assert_eq!(after(|_| {}), "1970-01-01T00:00:01Z");
        assert_eq!(after(|o| o.set(&["spec", "taint", "effect"], "NoExecute")), "1970-01-01T00:00:02Z");
        assert_eq!(after(|o| drop(o.remove(TIME_ADDED))), "1970-01-01T00:00:02Z");
    }
}
