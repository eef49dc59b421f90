//! Expressions that select devices: they compile, give a bool, and their estimated cost is below the limit.
//!
//! `device` has a driver, attributes and capacities; attributes and capacities are maps of maps, by domain and by name.
//! The bounds of a ResourceSlice limit the sizes of all of them, so costs are known without a schema.

use std::sync::{Arc, LazyLock};

use corten_api::status::ErrorList;
use corten_api::{Field, Value};
use corten_cel::cost::{self, Range, Sizes};
use corten_cel::library::regex::Budget;
use corten_cel::parser::BINDINGS;
use corten_cel::schema::{Format, Property, Schema};
use corten_cel::{Environment, Type, Version};

/// Maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 10 * 1024;
/// Maximum estimated cost of an expression.
const MAX_COST: u64 = 1_000_000;
/// New expressions may use the features of this version, so that the server can be rolled back.
const COMPATIBILITY: Version = Version(36);

const DOMAIN_MAX_LENGTH: u64 = 63;
const ID_MAX_LENGTH: u64 = 32;
const DRIVER_MAX_LENGTH: u64 = 63;
const ATTRIBUTE_MAX_LENGTH: u64 = 64;
/// Maximum number of attributes and capacities of a device.
const ENTRIES_MAX: u64 = 32;

/// A selector of devices. Its constant patterns take part of the budget.
pub(super) fn validate_selector(expression: &str, patterns: &Budget, at: &Field<'_>, errors: &mut ErrorList) {
    if expression.len() > MAX_LENGTH {
        return errors.too_long(at, MAX_LENGTH);
    }
    let environment = &*ENVIRONMENT;
    let mut refuse = |why: String| errors.invalid(at, &Value::from(expression), why);
    let checked = match environment.check(expression) {
        Ok(checked) => checked,
        Err(issues) => return refuse(format!("compilation failed: {issues}")),
    };
    // The type of an attribute is not known before evaluation.
    let output = checked.output();
    if !matches!(output, Type::Bool | Type::Any) {
        return refuse(format!("must evaluate to bool or the unknown type, not {}", runtime_name(output)));
    }
    if let Err(why) = environment.program_within(&checked, patterns) {
        errors.internal(at, format!("program instantiation failed: {why}"));
    } else if cost::estimate(&checked, &DeviceSizes).max > MAX_COST {
        errors.forbidden(at, "too complex, exceeds cost limit");
    }
}

/// The name of a type at run time, which messages about outputs show.
fn runtime_name(ty: &Type) -> String {
    match ty {
        Type::Any => "google.protobuf.Any".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::Null => "null_type".to_owned(),
        Type::List(item) => format!("list({})", runtime_name(item)),
        Type::Map(entry) => format!("map({}, {})", runtime_name(&entry[0]), runtime_name(&entry[1])),
        other => other.to_string(),
    }
}

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let base = Environment::at(COMPATIBILITY).with_library(&[], BINDINGS);
    base.with_variables(device().to_type("kubernetes.DRADevice").map(|ty| ("device".into(), ty)))
});

/// The fields of a device.
fn device() -> Arc<Schema> {
    let by_domain = |value: &str| {
        let by_name = Schema::map(Arc::new(Schema::named(Type::parse(value))), None);
        Schema::map(Arc::new(by_name), None)
    };
    let field = |name: &str, schema| Property {
        name: name.into(),
        schema: Arc::new(schema),
        required: true,
        has_default: false,
    };
    Arc::new(Schema::object(vec![
        field("allowMultipleAllocations", Schema::boolean()),
        field("attributes", by_domain("any")),
        field("capacity", by_domain("kubernetes.Quantity")),
        field("driver", Schema::string(Format::None, None, None)),
    ]))
}

/// The sizes of the parts of a device.
struct DeviceSizes;

impl Sizes for DeviceSizes {
    fn size(&self, path: &[Arc<str>]) -> Option<Range> {
        let mut steps = path.iter().map(|step| &**step);
        if steps.next()? != "device" {
            return None;
        }
        let steps: Vec<&str> = steps.collect();
        let most = match steps.as_slice() {
            [] => 0,
            ["driver"] => DRIVER_MAX_LENGTH,
            ["allowMultipleAllocations"] => 1,
            ["attributes" | "capacity"] => ENTRIES_MAX,
            ["attributes" | "capacity", below @ ..] => match below {
                ["@keys"] => DOMAIN_MAX_LENGTH,
                ["@items" | "@values"] => ENTRIES_MAX,
                ["@items" | "@values", "@keys"] => ID_MAX_LENGTH,
                ["@items" | "@values", _] if steps[0] == "attributes" => ATTRIBUTE_MAX_LENGTH,
                ["@items" | "@values", "@items" | "@values"] => 0,
                _ => return None,
            },
            _ => return None,
        };
        Some(Range::new(0, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_all_selectors_share_a_budget() {
        let selector = |pattern: &str, count: usize| {
            let one = |i: usize| format!("device.driver.matches('{pattern}{i}')");
            (0..count).map(one).collect::<Vec<_>>().join(" || ")
        };
        for (pattern, count, selectors, accepted) in [
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", 20, 32, true),
            ("\\\\pL{20}x", 3, 2, true),
            ("\\\\pL{20}x", 3, 32, false),
            ("\\\\pL{20}x", 100, 1, false),
            ("\\\\pL{60}x", 1, 1, false),
        ] {
            let (patterns, mut errors) = (Budget::new(Budget::EXPRESSION), ErrorList::new());
            for _ in 0..selectors {
                validate_selector(&selector(pattern, count), &patterns, &Field::ROOT, &mut errors);
            }
            let refused = errors.causes().iter().any(|cause| cause.message.contains("expression too large"));
            assert_eq!(!refused, accepted, "{pattern} {count} {selectors}");
            assert_eq!(errors.is_empty(), accepted, "{}", errors.summary());
        }
    }
}
