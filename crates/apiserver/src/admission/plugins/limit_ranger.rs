//! LimitRanger: enforces a namespace's limit ranges on the resources of its pods and claims. Containers get the defaults;
//! resources out of range are refused.
//!
//! *Invariant:* the cost is that of the pod plus that of the limit range, not their product: defaults are set only as far as the
//! annotation that lists them can be stored, and checks stop after `MAX_ERRORS` errors.

use std::collections::HashSet;
use std::sync::Arc;

use corten_api::quantity::Quantity;
use corten_api::{Map, Status, Str, Value, meta};
use corten_quota::resource_list::{self, Amount, ResourceList};

use super::{Admit, CREATE, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, lookup, pod};
use crate::object::Object;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "LimitRanger",
    operations: CREATE | UPDATE,
    admit: Admit::Now(admit),
    validate: Validate::Now(validate),
};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Whole numbers up to this are compared by their thousandths.
const MAX_MILLI: i64 = i64::MAX / 1000;
/// The annotations of an object may have so many bytes: a longer list of defaults would be refused by validation.
const MAX_NOTE: usize = 256 * 1024;
/// A refusal lists no more errors than this.
const MAX_ERRORS: usize = 1_000;

fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    if attributes.resource() != ("", "pods") || !applies(attributes) {
        return Ok(());
    }
    for range in ranges(attributes)? {
        set_defaults(range.parsed(), object).map_err(|why| attributes.forbidden(Some(object), why))?;
    }
    Ok(())
}

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let Some(object) = object.filter(|_| applies(attributes)) else { return Ok(()) };
    for range in ranges(attributes)? {
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

/// The limit ranges of a request's namespace; an error if one cannot be read.
fn ranges(attributes: &Attributes<'_>) -> Result<Vec<Arc<Object>>, Status> {
    let (backend, namespace) = (attributes.backend(), attributes.namespace());
    lookup::check_readable(backend, ("", "limitranges"), namespace)?;
    Ok(lookup::list(backend, ("", "limitranges"), namespace))
}

/// True for pods that are created or resized and for claims that are written, unless they are being deleted.
fn applies(attributes: &Attributes<'_>) -> bool {
    let concerned = match (attributes.resource(), attributes.subresource) {
        (("", "pods"), "") => attributes.creates(),
        (("", "pods"), "resize") => attributes.updates(),
        (("", "persistentvolumeclaims"), "") => attributes.creates() || attributes.updates(),
        _ => false,
    };
    concerned && !attributes.old.is_some_and(meta::is_deleting)
}

/// The message of several errors: in brackets, without duplicates.
pub(super) fn aggregate(errors: &[String]) -> Option<String> {
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

/// Sets the default requests and limits of containers, and lists them in an annotation.
pub(super) fn set_defaults(range: &Value, pod: &mut Value) -> Result<(), String> {
    let mut given = Vec::new();
    let mut noted = 0;
    let defaults = |list: &str| -> Map {
        let lists = limits(range, "Container").filter_map(|limit| limit.get(list)?.as_object());
        lists.flat_map(Map::iter).map(|(name, amount)| (name.clone(), amount.clone())).collect()
    };
    let (requests, limits) = (defaults("defaultRequest"), defaults("default"));
    if requests.is_empty() && limits.is_empty() {
        return Ok(());
    }
    for (list, called) in [("containers", "container"), ("initContainers", "init container")] {
        let containers =
            pod.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = pod::name(container).to_owned();
            for (list, defaults, what) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let set = fill(container, list, defaults);
                if !set.is_empty() {
                    let note = format!("{} {what} for {called} {name}", set.join(", "));
                    noted += note.len();
                    given.push(note);
                }
                if noted > MAX_NOTE {
                    return Err(format!(
                        "the defaults of its limit ranges do not fit into the annotation {ANNOTATION} of {MAX_NOTE} bytes"
                    ));
                }
            }
        }
    }
    if !given.is_empty() {
        let note = format!("LimitRanger plugin set: {}", given.join("; "));
        pod.set(&["metadata", "annotations", ANNOTATION], note);
    }
    Ok(())
}

/// Sets the defaults of a container, and returns the names of the resources that were set.
fn fill(container: &mut Value, list: &str, defaults: &Map) -> Vec<Str> {
    let stated = |name: &str, container: &Value| container.at(&["resources", list, name]).is_some();
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| !stated(name, container)).collect();
    for (name, amount) in &missing {
        container.set(&["resources", list, name], (*amount).clone());
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

pub(super) fn claim_errors(range: &Value, claim: &Value) -> Vec<String> {
    let requests = resource_list::read(claim.at(&["spec", "resources", "requests"]));
    let mut errors = Vec::new();
    for limit in limits(range, "PersistentVolumeClaim") {
        let usage =
            Usage { kind: "PersistentVolumeClaim", requests: &requests, limits: &ResourceList::new() };
        let bounds = Bounds::read(limit);
        errors.extend(bounds.min.iter().filter_map(|(name, bound)| usage.below(name, bound)));
        errors.extend(bounds.max.iter().filter_map(|(name, bound)| usage.requests_above(name, bound)));
    }
    errors
}

pub(super) fn pod_errors(range: &Value, pod: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in range.items_at(&["spec", "limits"]) {
        let bounds = Bounds::read(limit);
        match limit.str_at(&["type"]) {
            Some("Container") => {
                for container in
                    ["containers", "initContainers"].iter().flat_map(|l| pod.items_at(&["spec", l]))
                {
                    let list = |list: &str| resource_list::read(container.at(&["resources", list]));
                    let (requests, limits) = (list("requests"), list("limits"));
                    Usage { kind: "Container", requests: &requests, limits: &limits }
                        .check(&bounds, &mut errors);
                    if errors.len() >= MAX_ERRORS {
                        return errors;
                    }
                }
            }
            Some("Pod") => {
                let (requests, limits) = (of_pod(pod, "requests"), of_pod(pod, "limits"));
                Usage { kind: "Pod", requests: &requests, limits: &limits }.check(&bounds, &mut errors);
            }
            _ => {}
        }
    }
    errors
}

/// The total resources of a pod; pod-level cpu and memory take precedence over its containers'.
fn of_pod(pod: &Value, list: &str) -> ResourceList {
    let mut total = resource_list::of_containers(pod, list);
    let own = resource_list::read(pod.at(&["spec", "resources", list]));
    total.extend(own.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    total
}

/// The constraints of one item of a limit range, read once for all containers.
struct Bounds {
    min: ResourceList,
    max: ResourceList,
    ratio: ResourceList,
}

impl Bounds {
    fn read(limit: &Value) -> Bounds {
        let list = |name: &str| resource_list::read(limit.get(name));
        Bounds { min: list("min"), max: list("max"), ratio: list("maxLimitRequestRatio") }
    }
}

/// The requests and limits that are compared with a range.
struct Usage<'a> {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    kind: &'static str,
    requests: &'a ResourceList,
    limits: &'a ResourceList,
}

impl Usage<'_> {
    /// Adds errors up to `MAX_ERRORS`. A constraint that holds is one on a resource that is stated.
    fn check(&self, bounds: &Bounds, errors: &mut Vec<String>) {
        let below = bounds.min.iter().filter_map(|(name, bound)| self.below(name, bound));
        let above = bounds.max.iter().filter_map(|(name, bound)| self.above(name, bound));
        let ratio = bounds.ratio.iter().filter_map(|(name, bound)| self.ratio_above(name, bound));
        let room = MAX_ERRORS.saturating_sub(errors.len());
        errors.extend(below.chain(above).chain(ratio).take(room));
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

    /// `above` for an object with requests only.
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
