//! Requests and limits of containers, and the claims they use.

use std::collections::{BTreeSet, HashMap, HashSet};

use corten_api::status::{ErrorList, FieldError, FieldErrorKind, quoted};
use corten_api::{Field, Value, names};

use crate::validation::pod_context::PodContext;
use crate::validation::resources::{
    amount, entries, is_divisible_huge_page, is_huge_page, is_overcommit_allowed, spelled,
    validate_container_resource_name, validate_quantity,
};
use crate::validation::text::{complain, list, text};
use crate::validation::tolerance;

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

/// Limits and requests, and their consistency.
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
    // Mostly they are equal, which is cheaper to check than to parse.
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
    let known = list(context.spec, "resourceClaims").iter().map(|claim| text(claim, "name"));
    let known: BTreeSet<&str> = known.filter(|name| !name.is_empty()).collect();
    // The used parts of each claim; the empty one is all of it.
    let mut used: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (i, claim) in claims.iter().enumerate() {
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(at.index(i), "");
            continue;
        }
        let parts = used.entry(name).or_default();
        let whole_before = parts.contains("");
        if !whole_before && !request.is_empty() {
            complain(&at.index(i).child("request"), request, names::dns1123_label(request), errors);
        }
        if whole_before {
            errors.duplicate(at.index(i), &Value::from(name));
        } else if request.is_empty() {
            // Once for each part that was used before.
            parts.iter().for_each(|_| errors.duplicate(at.index(i), &Value::from(name)));
        } else if parts.contains(request) {
            errors.duplicate(at.index(i), &Value::from(format!("{name}/{request}")));
        }
        parts.insert(request);
        validate_claim_exists(&known, name, &at.index(i), errors);
    }
}

fn validate_claim_exists(known: &BTreeSet<&str>, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if known.contains(name) || errors.is_full() {
        return;
    }
    let why = match known.len() {
        0 => " which is empty".to_owned(),
        _ => format!(": {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    errors.add(FieldError {
        kind: FieldErrorKind::NotFound,
        field: at.into(),
        bad_value: Some(quoted(name)),
        detail: format!("must be one of the names in pod.spec.resourceClaims{why}"),
    });
}

/// The overhead of running a pod.
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
