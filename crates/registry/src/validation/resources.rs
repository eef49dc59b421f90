//! Amounts of resources: which names there are, and what containers may request and be limited to.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Map, Str, Value, names};

use crate::validation::pod_context::PodContext;
use crate::validation::text::{complain, list, text};
use crate::validation::tolerance;

const HUGE_PAGES: &str = "hugepages-";

/// Names and amounts of a list of resources.
pub(crate) fn entries(resources: Option<&Value>) -> impl Iterator<Item = (&Str, &Value)> {
    resources.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// An amount; zero for what is none.
pub(crate) fn amount(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or(Quantity::ZERO),
        Value::Int(number) => Quantity::new(*number, Quantity::ZERO.format()),
        _ => Quantity::ZERO,
    }
}

/// An amount as upstream spells it.
pub(crate) fn spelled(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => Value::from(amount(other).to_str()),
    }
}

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether an amount of huge pages is a number of whole ones.
pub(crate) fn is_divisible_huge_page(name: &str, amount: Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    let Some(size) = size.filter(|size| !size.is_negative() && !size.is_zero()) else { return false };
    size.milli_value() % 1000 == 0 && size.value() != 0 && amount.value() % size.value() == 0
}

/// A resource of Kubernetes' own: one without a domain, or of its domain.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A resource of somebody else, whose name still fits when it is counted by quotas.
pub(crate) fn is_extended(name: &str) -> bool {
    const REQUESTS: &str = "requests.";
    if is_native(name) || name.starts_with(REQUESTS) {
        return false;
    }
    let Some((domain, rest)) = name.split_once('/') else { return false };
    let counted = REQUESTS.len() + domain.len() <= names::SUBDOMAIN_MAX_LENGTH;
    counted && !rest.contains('/') && names::qualified_name(name).is_empty()
}

/// Whether more of a resource may be promised than there is.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Resources that are counted one by one.
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

/// A resource that is known at all.
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

/// The name of a resource of whatever kind; false if it is none.
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

/// An amount is not negative, and whole where things are counted.
pub(crate) fn validate_quantity(name: &str, value: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let amount = amount(value);
    if amount.is_negative() {
        errors.invalid(at, &spelled(value), "must be greater than or equal to 0");
    }
    if amount.milli_value() % 1000 != 0 && is_integer(name) {
        errors.invalid(at, &spelled(value), "must be an integer");
    }
}

type CheckName = fn(&str, &Field<'_>, &mut ErrorList);

pub(crate) fn validate_container_resources(
    context: &PodContext<'_>,
    container: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if let Some(resources) = container.get("resources") {
        validate_requirements(context, resources, validate_container_resource_name, at, errors);
    }
}

/// Limits and requests, and how they go together.
pub(crate) fn validate_requirements(
    context: &PodContext<'_>,
    resources: &Value,
    check_name: CheckName,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    validate_list(context, limits, check_name, &at.child("limits"), errors);
    let requests_at = at.child("requests");
    for (name, value) in entries(requests) {
        validate_entry(name, value, check_name, &requests_at.key(name), errors);
        validate_against_limit(name, value, limits, at, errors);
        validate_huge_pages(context, name, value, &requests_at.key(name), errors);
    }
    let all = || entries(limits).chain(entries(requests)).map(|(name, _)| name);
    let has_huge_pages = all().any(|name| is_huge_page(name));
    if has_huge_pages && !all().any(|name| matches!(name.as_str(), "cpu" | "memory")) {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    validate_claims(context, list(resources, "claims"), &at.child("claims"), errors);
}

fn validate_list(
    context: &PodContext<'_>,
    resources: Option<&Value>,
    check_name: CheckName,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    for (name, value) in entries(resources) {
        validate_entry(name, value, check_name, &at.key(name), errors);
        validate_huge_pages(context, name, value, &at.key(name), errors);
    }
}

fn validate_entry(name: &str, value: &Value, check_name: CheckName, at: &Field<'_>, errors: &mut ErrorList) {
    check_name(name, at, errors);
    validate_quantity(name, value, at, errors);
}

fn validate_against_limit(
    name: &str,
    request: &Value,
    limits: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(limit) = limits.and_then(|limits| limits.get(name)) else {
        if !is_overcommit_allowed(name) {
            errors.required(at.child("limits"), "Limit must be set for non overcommitable resources");
        }
        return;
    };
    // Mostly they are the same, which is cheaper to see than what they are.
    if request == limit {
        return;
    }
    let (requested, most) = (amount(request), amount(limit));
    let how = if requested != most && !is_overcommit_allowed(name) {
        "equal to"
    } else if requested > most {
        "less than or equal to"
    } else {
        return;
    };
    let most = spelled(limit);
    let why = format!("must be {how} {name} limit of {}", most.as_str().unwrap_or_default());
    errors.invalid(at.child("requests"), &spelled(request), why);
}

fn validate_huge_pages(
    context: &PodContext<'_>,
    name: &str,
    value: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if !is_huge_page(name)
        || is_divisible_huge_page(name, amount(value))
        || context.old(tolerance::indivisible_huge_pages)
    {
        return;
    }
    let value = spelled(value);
    let why = format!("{} is not positive integer multiple of {name}", value.as_str().unwrap_or_default());
    errors.invalid(at, &value, why);
}

/// Claims of the pod that a container uses, each or part of it once.
fn validate_claims(context: &PodContext<'_>, claims: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, claim) in claims.iter().enumerate() {
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(at.index(i), "");
            continue;
        }
        let earlier = || claims.iter().take(i).filter(|earlier| text(earlier, "name") == name);
        let whole_before = earlier().any(|earlier| text(earlier, "request").is_empty());
        if !whole_before && !request.is_empty() {
            complain(&at.index(i).child("request"), request, names::dns1123_label(request), errors);
        }
        if whole_before {
            errors.duplicate(at.index(i), &Value::from(name));
        } else if request.is_empty() {
            // Once for each part that was used before.
            let mut parts: Vec<&str> = earlier().map(|earlier| text(earlier, "request")).collect();
            parts.sort_unstable();
            parts.dedup();
            parts.iter().for_each(|_| errors.duplicate(at.index(i), &Value::from(name)));
        } else if earlier().any(|earlier| text(earlier, "request") == request) {
            errors.duplicate(at.index(i), &Value::from(format!("{name}/{request}")));
        }
        validate_claim_exists(context, name, &at.index(i), errors);
    }
}

fn validate_claim_exists(context: &PodContext<'_>, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let known = list(context.spec, "resourceClaims").iter().map(|claim| text(claim, "name"));
    let mut known: Vec<&str> = known.filter(|name| !name.is_empty()).collect();
    if known.contains(&name) {
        return;
    }
    known.sort_unstable();
    known.dedup();
    let why = match known.as_slice() {
        [] => " which is empty".to_owned(),
        known => format!(": {}", known.join(", ")),
    };
    errors.not_found(at, &Value::from(name));
    if let Some(error) = errors.0.last_mut() {
        error.detail = format!("must be one of the names in pod.spec.resourceClaims{why}");
    }
}

/// What running a pod takes besides its containers.
pub(crate) fn validate_overhead(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(overhead) = context.spec.get("overhead").filter(|overhead| !overhead.is_null()) {
        let limits = Some(overhead);
        validate_list(context, limits, validate_container_resource_name, &at.child("limits"), errors);
        let has = |wanted: fn(&str) -> bool| entries(limits).any(|(name, _)| wanted(name));
        if has(is_huge_page) && !has(|name| matches!(name, "cpu" | "memory")) {
            errors.forbidden(at, "HugePages require cpu or memory");
        }
    }
}
