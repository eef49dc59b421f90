//! LimitRanger: what a namespace's limit ranges say of the resources of its pods and claims. Containers get
//! the defaults they lack; what is then out of range is refused.

use std::collections::HashSet;

use corten_api::quantity::Quantity;
use corten_api::{Map, Status, Str, Value, meta};
use corten_quota::resource_list::{self, Amount, ResourceList};

use super::plugins::{Admit, Plugin, Validate};
use super::{Attributes, lookup, pod};

pub(super) const PLUGIN: Plugin =
    Plugin { name: "LimitRanger", admit: Admit::Now(admit), validate: Validate::Now(validate) };

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Whole numbers up to this are compared by their thousandths.
const MAX_MILLI: i64 = i64::MAX / 1000;

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.resource() != ("", "pods") || !applies(attributes) {
        return Ok(());
    }
    for range in lookup::list(attributes.backend(), ("", "limitranges"), attributes.namespace()) {
        set_defaults(range.parsed(), object);
    }
    Ok(())
}

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(object) = object.filter(|_| applies(attributes)) else { return Ok(()) };
    for range in lookup::list(attributes.backend(), ("", "limitranges"), attributes.namespace()) {
        let errors = match attributes.resource() {
            ("", "pods") => pod_errors(range.parsed(), object),
            _ => claim_errors(range.parsed(), object),
        };
        if let Some(why) = aggregate(&errors) {
            return Err(attributes.forbidden(Some(object), why));
        }
    }
    Ok(())
}

/// Pods when they are created or resized, claims whenever they are written; nothing that is going away.
fn applies(attributes: &Attributes<'_>) -> bool {
    let concerned = match (attributes.resource(), attributes.subresource) {
        (("", "pods"), "") => attributes.creates(),
        (("", "pods"), "resize") => attributes.updates(),
        (("", "persistentvolumeclaims"), "") => attributes.creates() || attributes.updates(),
        _ => false,
    };
    concerned && !attributes.old.is_some_and(meta::is_deleting)
}

/// Several errors in brackets, each said once.
fn aggregate(errors: &[String]) -> Option<String> {
    let mut seen = HashSet::new();
    let mut distinct: Vec<&str> = errors.iter().map(String::as_str).filter(|why| seen.insert(*why)).collect();
    match distinct.len() {
        0 | 1 => distinct.pop().map(str::to_owned),
        _ => Some(format!("[{}]", distinct.join(", "))),
    }
}

fn limits<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    range.items_at(&["spec", "limits"]).iter().filter(move |limit| limit.str_at(&["type"]) == Some(kind))
}

/// Gives containers the requests and limits they do not state, and notes in an annotation what was given.
fn set_defaults(range: &Value, pod: &mut Value) {
    let mut given = Vec::new();
    let defaults = |list: &str| -> Map {
        let lists = limits(range, "Container").filter_map(|limit| limit.get(list)?.as_object());
        lists.flat_map(Map::iter).map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    let (requests, limits) = (defaults("defaultRequest"), defaults("default"));
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    for (list, called) in [("containers", "container"), ("initContainers", "init container")] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = pod::name(container).to_owned();
            for (list, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let set = fill(container, list, defaults);
                if !set.is_empty() {
                    given.push(format!("{} {what} for {called} {name}", set.join(", ")));
                }
            }
        }
    }
    if !given.is_empty() {
        let note = format!("LimitRanger plugin set: {}", given.join("; "));
        pod.set(&["metadata", "annotations", ANNOTATION], note);
    }
}

/// Sets what a container does not state; the names of what was set come back.
fn fill(container: &mut Value, list: &str, defaults: &Map) -> Vec<Str> {
    let stated = |name: &str, container: &Value| container.at(&["resources", list, name]).is_some();
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| !stated(name, container)).collect();
    for (name, amount) in &missing {
        container.set(&["resources", list, name], (*amount).clone());
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

fn claim_errors(range: &Value, claim: &Value) -> Vec<String> {
    let requests = resource_list::read(claim.at(&["spec", "resources", "requests"]));
    let mut errors = Vec::new();
    for limit in limits(range, "PersistentVolumeClaim") {
        let usage =
            Usage { kind: "PersistentVolumeClaim", requests: &requests, limits: &ResourceList::new() };
        errors.extend(constraints(limit, "min").filter_map(|(name, bound)| usage.below(&name, &bound)));
        errors.extend(
            constraints(limit, "max").filter_map(|(name, bound)| usage.requests_above(&name, &bound)),
        );
    }
    errors
}

fn pod_errors(range: &Value, pod: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in range.items_at(&["spec", "limits"]) {
        match limit.str_at(&["type"]) {
            Some("Container") => {
                for container in
                    ["containers", "initContainers"].iter().flat_map(|l| pod.items_at(&["spec", l]))
                {
                    let list = |list: &str| resource_list::read(container.at(&["resources", list]));
                    let (requests, limits) = (list("requests"), list("limits"));
                    Usage { kind: "Container", requests: &requests, limits: &limits }
                        .check(limit, &mut errors);
                }
            }
            Some("Pod") => {
                let (requests, limits) = (of_pod(pod, "requests"), of_pod(pod, "limits"));
                Usage { kind: "Pod", requests: &requests, limits: &limits }.check(limit, &mut errors);
            }
            _ => {}
        }
    }
    errors
}

/// What a pod takes all in all; what it says of its own cpu and memory wins over its containers.
fn of_pod(pod: &Value, list: &str) -> ResourceList {
    let mut total = resource_list::of_containers(pod, list);
    let own = resource_list::read(pod.at(&["spec", "resources", list]));
    total.extend(own.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    total
}

fn constraints(limit: &Value, list: &str) -> impl Iterator<Item = (Str, Amount)> + use<> {
    resource_list::read(limit.get(list)).into_iter()
}

/// What is held against a limit.
struct Usage<'a> {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    kind: &'static str,
    requests: &'a ResourceList,
    limits: &'a ResourceList,
}

impl Usage<'_> {
    fn check(&self, limit: &Value, errors: &mut Vec<String>) {
        errors.extend(constraints(limit, "min").filter_map(|(name, bound)| self.below(&name, &bound)));
        errors.extend(constraints(limit, "max").filter_map(|(name, bound)| self.above(&name, &bound)));
        let ratios = constraints(limit, "maxLimitRequestRatio");
        errors.extend(ratios.filter_map(|(name, bound)| self.ratio_above(&name, &bound)));
    }

    fn below(&self, name: &str, bound: &Amount) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let (requested, limited, least) = comparable(request, limit, bound);
        let minimum = || format!("minimum {name} usage per {} is {}", self.kind, bound.text());
        match (request, limit) {
            (None, _) => Some(format!("{}.  No request is specified", minimum())),
            (Some(request), _) if requested < least => {
                Some(format!("{}, but request is {}", minimum(), request.text()))
            }
            (_, Some(limit)) if limited < least => {
                Some(format!("{}, but limit is {}", minimum(), limit.text()))
            }
            _ => None,
        }
    }

    fn above(&self, name: &str, bound: &Amount) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let (requested, limited, most) = comparable(request, limit, bound);
        let maximum = || format!("maximum {name} usage per {} is {}", self.kind, bound.text());
        match (request, limit) {
            (_, None) => Some(format!("{}.  No limit is specified", maximum())),
            (_, Some(limit)) if limited > most => {
                Some(format!("{}, but limit is {}", maximum(), limit.text()))
            }
            (Some(request), _) if requested > most => {
                Some(format!("{}, but request is {}", maximum(), request.text()))
            }
            _ => None,
        }
    }

    /// `above` for what has requests only.
    fn requests_above(&self, name: &str, bound: &Amount) -> Option<String> {
        let request = self.requests.get(name);
        let (requested, _, most) = comparable(request, None, bound);
        let maximum = || format!("maximum {name} usage per {} is {}", self.kind, bound.text());
        match request {
            None => Some(format!("{}.  No request is specified", maximum())),
            Some(request) if requested > most => {
                Some(format!("{}, but request is {}", maximum(), request.text()))
            }
            _ => None,
        }
    }

    fn ratio_above(&self, name: &str, bound: &Amount) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let (requested, limited, _) = comparable(request, limit, bound);
        let maximum = || format!("{name} max limit to request ratio per {} is {}", self.kind, bound.text());
        if requested == 0 {
            return Some(format!("{}, but no request is specified or request is 0", maximum()));
        }
        if limited == 0 {
            return Some(format!("{}, but no limit is specified or limit is 0", maximum()));
        }
        let ratio = limited as f64 / requested as f64;
        let exceeded = match bound.quantity.value() {
            value if value <= MAX_MILLI => ratio * 1000.0 > bound.quantity.milli_value() as f64,
            value => ratio > value as f64,
        };
        exceeded.then(|| format!("{}, but provided ratio is {ratio:.6}", maximum()))
    }
}

/// Request, limit and bound at one precision: thousandths, unless one of them is too large for that.
fn comparable(request: Option<&Amount>, limit: Option<&Amount>, bound: &Amount) -> (i64, i64, i64) {
    let quantity = |amount: Option<&Amount>| amount.map_or(Quantity::ZERO, |a| a.quantity);
    let all = [quantity(request), quantity(limit), bound.quantity];
    let [request, limit, bound] = match all.iter().all(|q| q.value() <= MAX_MILLI) {
        true => all.map(|q| q.milli_value()),
        false => all.map(|q| q.value()),
    };
    (request, limit, bound)
}

#[cfg(test)]
mod tests;
