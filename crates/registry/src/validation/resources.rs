//! Quantities of resources: valid names and values.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Map, Str, Value, names};

use crate::validation::text::complain;

const HUGE_PAGES: &str = "hugepages-";

/// Names and amounts of a list of resources.
pub(crate) fn entries(resources: Option<&Value>) -> impl Iterator<Item = (&Str, &Value)> {
    resources.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// A quantity; zero if it is invalid.
pub(crate) fn amount(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or(Quantity::ZERO),
        Value::Int(number) => Quantity::new(*number, Quantity::ZERO.format()),
        _ => Quantity::ZERO,
    }
}

/// A quantity in upstream's format.
pub(crate) fn spelled(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => Value::from(amount(other).to_str()),
    }
}

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Returns true if a quantity of huge pages is a whole number of pages.
pub(crate) fn is_divisible_huge_page(name: &str, amount: Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let Some(size) = size.filter(|size| !size.is_negative() && !size.is_zero()) else { return false };
    size.milli_value() % 1000 == 0 && size.value() != 0 && amount.value() % size.value() == 0
}

/// Returns true for a resource of Kubernetes: one without a domain, or of its domain.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns true for a third-party resource whose name is still valid with the prefix of quotas.
pub(crate) fn is_extended(name: &str) -> bool {
    const REQUESTS: &str = "requests.";
    if is_native(name) || name.starts_with(REQUESTS) {
        return false;
    }
    let Some((domain, rest)) = name.split_once('/') else { return false };
    let counted = REQUESTS.len() + domain.len() <= names::SUBDOMAIN_MAX_LENGTH;
    counted && !rest.contains('/') && names::qualified_name(name).is_empty()
}

/// Returns true if a resource may be overcommitted.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Returns true for resources that are counted in whole numbers.
pub(crate) fn is_integer(name: &str) -> bool {
    const COUNTED: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    COUNTED.contains(&name) || is_extended(name)
}

/// Returns true for a standard resource.
pub(crate) fn is_standard(name: &str) -> bool {
    const KNOWN: [&str; 20] = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "storage",
        "requests.storage",
        "services.nodeports",
        "services.loadbalancers",
    ];
    KNOWN.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// The name of a resource of any kind; false if it is invalid.
pub(crate) fn validate_resource_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) -> bool {
    let complaints = names::qualified_name(name);
    if !complaints.is_empty() {
        complain(at, name, complaints, errors);
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.invalid(at, &Value::from(name), why);
        return false;
    }
    true
}

/// The name of a resource that containers use.
pub(crate) fn validate_container_resource_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if matches!(name, "cpu" | "memory" | "ephemeral-storage") {
        return;
    }
    validate_resource_name(name, at, errors);
    if !name.contains('/') {
        if !is_huge_page(name) {
            errors.invalid(at, &Value::from(name), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(at, &Value::from(name), "doesn't follow extended resource name standard");
    }
}

/// A quantity is not negative, and whole for resources that are counted.
pub(crate) fn validate_quantity(name: &str, value: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if is_negative(value) {
        errors.invalid(at, &spelled(value), "must be greater than or equal to 0");
    }
    if is_integer(name) && amount(value).milli_value() % 1000 != 0 {
        errors.invalid(at, &spelled(value), "must be an integer");
    }
}

/// Most quantities are seen to be non-negative without being parsed.
fn is_negative(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.starts_with('-')) && amount(value).is_negative()
}
