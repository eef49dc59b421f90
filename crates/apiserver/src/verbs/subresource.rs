//! Subresources: `status` and its like are the object through another door; `binding` and `eviction` are
//! objects of their own, as is `scale`, in its own file.

use corten_api::resources::{self, Subresource};
use corten_api::{Status, Value, json, meta, patch, status, time};
use corten_store::{Error as StoreError, Expect};

use super::write::{Current, RACE_RETRIES};
use super::{delete, list, patch as patch_verb, prepare, scale, token, write};
use crate::admission::{self, Write};
use crate::call::Call;
use crate::decode::{self, Expected, FieldValidation};
use crate::respond::{self, Answer};

/// A verb on a subresource that is not simply the object itself.
pub(crate) async fn call(
    call: &mut Call,
    verb: &str,
    subresource: &'static Subresource,
) -> Result<Answer, Status> {
    let whole = subresource.group_version.is_none() && subresource.kind == call.served.kind();
    match (subresource.name, verb) {
        (_, "get") if whole && subresource.name != "log" => list::get(call),
        (name, "update") if whole => write::update(call, name).await,
        (name, "patch") if whole => patch_verb::patch(call, name).await,
        ("scale", "get") => scale::get(call),
        ("scale", "update" | "patch") => scale::change(call, verb).await,
        ("binding", "create") => bind(call).await,
        ("eviction", "create") => evict(call).await,
        ("token", "create") => token::create(call).await,
        _ => Err(needs_more(call, subresource.name)?),
    }
}

/// What is said of subresources whose other end does not run here.
fn needs_more(call: &Call, subresource: &str) -> Result<Status, Status> {
    let object = current(call)?.tree;
    let assigned = object.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty());
    if matches!(subresource, "exec" | "attach" | "portforward") && !assigned {
        return Ok(Status::bad_request(format!("pod {} does not have a host assigned", call.at.name)));
    }
    Ok(Status::unavailable(format!(
        "{}/{subresource} needs a part of the cluster that is not running here",
        call.served.name()
    )))
}

pub(super) fn current(call: &Call) -> Result<Current, Status> {
    Current::read(call, list::cache(call)?).ok_or_else(|| call.not_found())
}

fn decode_as(call: &mut Call, group: &str, version: &str, kind: &str) -> Result<Value, Status> {
    let schema =
        resources::schema_of(group, version, kind).ok_or_else(|| Status::internal(format!("no {kind}")))?;
    let api_version = resources::api_version(group, version);
    let expected = Expected { schema: &schema, kind, api_version: &api_version };
    let decoded = decode::object(&call.headers, &call.body, expected, FieldValidation::parse(&call.query)?)?;
    call.warnings.extend(decoded.warnings);
    Ok(decoded.object)
}

/// Assigns a pod to a node, once.
pub(crate) async fn bind(call: &mut Call) -> Result<Answer, Status> {
    let mut binding = decode_as(call, "", "v1", "Binding")?;
    let (wanted, dry_run) = (call.wanted()?, call.dry_run("CreateOptions")?);
    prepare::agree_on_namespace(call, &mut binding)?;
    let write = Write::create("binding", dry_run);
    admission::admit(call, write, &mut binding).await?;
    if meta::name(&binding) != call.at.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let node = binding.str_at(&["target", "name"]).unwrap_or_default().to_owned();
    let kind = binding.str_at(&["target", "kind"]).unwrap_or_default();
    let mut errors = status::ErrorList::new();
    if !matches!(kind, "" | "Node") {
        errors.not_supported("target.kind", &Value::from(kind), &["Node", "<empty>"]);
    }
    if node.is_empty() {
        errors.required("target.name", "");
    }
    if !errors.is_empty() {
        return Err(Status::invalid("", "Binding", &call.at.name, &errors));
    }
    admission::validate(call, write, Some(&binding)).await?;
    for _ in 0..RACE_RETRIES {
        let current = current(call)?;
        let mut pod = current.tree.clone();
        check_bindable(call, &pod, &binding, &node)?;
        pod.set(&["spec", "nodeName"], node.as_str());
        for field in ["annotations", "labels"] {
            let Some(more) = binding.at(&["metadata", field]) else { continue };
            let mut merged = pod.at(&["metadata", field]).cloned().unwrap_or_else(Value::object);
            patch::merge(&mut merged, more).map_err(|e| e.to_status())?;
            pod.set(&["metadata", field], merged);
        }
        set_condition(&mut pod, "PodScheduled", "True", &time::format(call.now));
        let cache = list::cache(call)?.clone();
        if dry_run || write::replace_stored(call, &cache, &current, pod, false).await?.is_some() {
            return Ok(respond::tree(201, &status::created(), wanted));
        }
    }
    Err(call.stale())
}

fn check_bindable(call: &Call, pod: &Value, binding: &Value, node: &str) -> Result<(), Status> {
    let refuse = |why: String| Err(Status::conflict("", "pods/binding", &call.at.name, why));
    let uid = meta::uid(binding);
    if !uid.is_empty() && uid != meta::uid(pod) {
        return refuse(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            meta::uid(pod)
        ));
    }
    if meta::is_deleting(pod) {
        return refuse(format!("pod {} is being deleted, cannot be assigned to a host", meta::name(pod)));
    }
    match pod.str_at(&["spec", "nodeName"]) {
        Some(assigned) if !assigned.is_empty() => {
            refuse(format!("pod {} is already assigned to node {assigned:?}", meta::name(pod)))
        }
        _ if !pod.items_at(&["spec", "schedulingGates"]).is_empty() => {
            refuse(format!("pod {} has non-empty .spec.schedulingGates", meta::name(pod)))
        }
        _ => {
            debug_assert!(!node.is_empty(), "validated before");
            Ok(())
        }
    }
}

/// Sets a condition of a pod, keeping its time if nothing changes.
fn set_condition(pod: &mut Value, kind: &str, value: &str, now: &str) {
    let status = pod.make_object().entry("status").make_object();
    let conditions = status.entry("conditions").make_array();
    let fresh = || {
        let mut condition = Value::object();
        condition.set(&["type"], kind);
        condition.set(&["status"], value);
        condition.set(&["lastProbeTime"], Value::Null);
        condition.set(&["lastTransitionTime"], now);
        condition
    };
    match conditions.iter_mut().find(|c| c.str_at(&["type"]) == Some(kind)) {
        Some(existing) if existing.str_at(&["status"]) == Some(value) => {}
        Some(existing) => *existing = fresh(),
        None => conditions.push(fresh()),
    }
}

/// Deletes a pod if its disruption budgets allow it, taking from them.
async fn evict(call: &mut Call) -> Result<Answer, Status> {
    let mut eviction = decode_as(call, "policy", "v1", "Eviction")?;
    let wanted = call.wanted()?;
    prepare::agree_on_namespace(call, &mut eviction)?;
    let write = Write::create("eviction", call.dry_run("CreateOptions")?);
    admission::admit(call, write, &mut eviction).await?;
    if meta::name(&eviction) != call.at.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    admission::validate(call, write, Some(&eviction)).await?;
    let pod = current(call)?.tree;
    let finished = matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
    let pending = pod.str_at(&["status", "phase"]) == Some("Pending");
    if !(finished || pending || meta::is_deleting(&pod)) {
        take_from_budget(call, &pod).await?;
    }
    call.body = match eviction.get("deleteOptions") {
        Some(options) => json::write_to_string(options).into(),
        None => bytes::Bytes::new(),
    };
    call.headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    delete::delete(call).await?;
    Ok(respond::tree(201, &status::created(), wanted))
}

/// Counts a disruption against the pod's budget.
async fn take_from_budget(call: &Call, pod: &Value) -> Result<(), Status> {
    let Some(cache) = call.backend.catalog.cache("policy", "poddisruptionbudgets") else { return Ok(()) };
    for _ in 0..RACE_RETRIES {
        let matching: Vec<_> = cache
            .snapshot(&call.at.namespace, None)
            .objects
            .into_iter()
            .map(|o| (o.tree(), o))
            .filter(|(pdb, _)| selects(pdb, pod))
            .collect();
        let Some((budget, object)) = matching.first() else { return Ok(()) };
        if matching.len() > 1 {
            return Err(Status::unexplained(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let updated = disrupt(budget, pod, &time::format(call.now))?;
        let expect = Expect::ModRevision(object.revision);
        match write::put(call, &cache, object.key.clone(), expect, &updated).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(write::store_failure(error)),
        }
    }
    Err(budget_refusal("couldn't update PodDisruptionBudget due to conflicts", 10, None))
}

fn selects(budget: &Value, pod: &Value) -> bool {
    corten_api::selector::LabelSelector::from_object(budget.at(&["spec", "selector"]))
        .is_ok_and(|selector| selector.matches_object(pod))
}

/// The budget with one disruption taken, or the refusal. Pure.
fn disrupt(budget: &Value, pod: &Value, now: &str) -> Result<Value, Status> {
    let name = meta::name(budget);
    let observed = budget.int_at(&["status", "observedGeneration"]).unwrap_or(0);
    if observed < meta::generation(budget) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(budget_refusal(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            10,
            Some(cause),
        ));
    }
    let allowed = budget.int_at(&["status", "disruptionsAllowed"]).unwrap_or(0);
    if allowed <= 0 {
        let (desired, healthy) = (
            budget.int_at(&["status", "desiredHealthy"]).unwrap_or(0),
            budget.int_at(&["status", "currentHealthy"]).unwrap_or(0),
        );
        let cause =
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(budget_refusal(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            0,
            Some(cause),
        ));
    }
    let mut updated = budget.clone();
    updated.set(&["status", "disruptionsAllowed"], allowed - 1);
    updated.set(&["status", "disruptedPods", meta::name(pod)], now);
    Ok(updated)
}

fn budget_refusal(message: &str, retry_after: u32, cause: Option<String>) -> Status {
    let mut refusal = Status::too_many_requests(message, retry_after);
    refusal.details.causes = cause
        .map(|message| status::Cause { reason: "DisruptionBudget".into(), message, field: String::new() })
        .into_iter()
        .collect();
    refusal
}
