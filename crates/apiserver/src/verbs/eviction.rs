//! `eviction`: deletes a pod if its disruption budget allows it, and counts the disruption against the budget.
//!
//! The budget is written before the pod is deleted, and only if it is unchanged since the decision: concurrent evictions
//! never delete more pods than it allows.

use corten_api::status::{Cause, ErrorList};
use corten_api::{Status, Value, managed, meta, status, time};

use super::commit::Companions;
use super::delete::{self, Admitted, DeleteOptions};
use super::subresource::{current, decode_as, update_condition};
use super::write::{Current, Ownership, Replaced};
use super::{list, prepare, write};
use crate::admission::{self, Write};
use crate::call::Call;
use crate::respond::{self, Answer};

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
/// The limit of `disruptedPods`: more entries mean that no disruption controller reconciles the budget.
const MAX_DISRUPTED_PODS: usize = 2000;
/// The retries of an eviction after conflicts: the number of concurrent evictions to expect.
const RETRIES: usize = 256;

pub(super) async fn evict(call: &mut Call) -> Result<Answer, Status> {
    let mut eviction = decode(call)?;
    let wanted = call.wanted_whole()?;
    prepare::agree_on_namespace(call, &mut eviction)?;
    let write = Write::create("eviction", call.dry_run("CreateOptions")?);
    admission::admit(call, write, &mut eviction).await?;
    if meta::name(&eviction) != call.at.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = options(call, &eviction)?;
    admission::validate(call, write, &eviction).await?;
    if !evict_unprotected(call, &options).await? {
        evict_protected(call, &options).await?;
    }
    Ok(respond::tree(201, &status::created(), wanted))
}

/// Decodes the eviction; both versions are equal.
fn decode(call: &mut Call) -> Result<Value, Status> {
    decode_as(call, "policy", "v1", "Eviction")
        .or_else(|refused| decode_as(call, "policy", "v1beta1", "Eviction").map_err(|_| refused))
}

/// The delete options of the pod. A dry run may be requested in the query or in the body.
fn options(call: &Call, eviction: &Value) -> Result<DeleteOptions, Status> {
    let dry_run = call.dry_run("CreateOptions")?;
    let Some(given) = eviction.get("deleteOptions").filter(|given| !given.is_null()) else {
        return Ok(DeleteOptions::plain(dry_run));
    };
    let dangerous = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if given.bool_at(&[dangerous]) == Some(true) {
        let mut errors = ErrorList::new();
        let why = "can not be set for pod eviction, try after removing the option";
        errors.invalid(format!("deleteOptions.{dangerous}"), &Value::from(true), why);
        return Err(Status::invalid("policy", "Eviction", &call.at.name, &errors));
    }
    let in_body: Vec<&str> = given.items_at(&["dryRun"]).iter().filter_map(Value::as_str).collect();
    let in_query: Vec<&str> = call.query.all("dryRun").collect();
    if !in_body.is_empty() && !in_query.is_empty() && in_body != in_query {
        return Err(Status::unexplained(format!(
            "Non-matching dry-run options in request and content: [{}] and [{}]",
            in_query.join(" "),
            in_body.join(" ")
        )));
    }
    let mut options = DeleteOptions::read_tree(given)?;
    options.dry_run |= dry_run;
    Ok(options)
}

/// Deletes a pod that no budget protects: one that has terminated, is pending, or is being deleted.
async fn evict_unprotected(call: &mut Call, asked: &DeleteOptions) -> Result<bool, Status> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let pod = current(call).await?.tree;
        if !is_unprotected(&pod) {
            return Ok(false);
        }
        let mut options = asked.clone();
        if may_become_ready(&pod) && asked.resource_version.is_none() {
            options.resource_version = Some(meta::resource_version(&pod).to_owned());
        }
        match mark_and_delete(call, options).await {
            Err(lost) if lost.code == 409 && asked.resource_version.is_none() && attempts < RETRIES => {}
            outcome => return outcome.map(|()| true),
        }
    }
}

fn phase(pod: &Value) -> &str {
    pod.str_at(&["status", "phase"]).unwrap_or_default()
}

fn is_unprotected(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

/// True if an unprotected pod may become ready, and so protected, before it is deleted.
fn may_become_ready(pod: &Value) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && !meta::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    pod.items_at(&["status", "conditions"]).iter().any(|condition| {
        condition.str_at(&["type"]) == Some("Ready") && condition.str_at(&["status"]) == Some("True")
    })
}

/// Deletes a pod that a budget may protect.
async fn evict_protected(call: &mut Call, asked: &DeleteOptions) -> Result<(), Status> {
    let pod = current(call).await?.tree;
    let budgets = budgets_of(call, &pod);
    let Some(budget) = budgets.first() else { return mark_and_delete(call, asked.clone()).await };
    if budgets.len() > 1 {
        return Err(Status::unexplained(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    if !needs_no_disruption(budget, &pod) {
        take_from_budget(call, meta::name(budget), meta::name(&pod), asked.dry_run).await?;
        return mark_and_delete(call, asked.clone()).await;
    }
    // It may be deleted because it is not ready: only if that has not changed.
    let mut options = asked.clone();
    options.resource_version = Some(meta::resource_version(&pod).to_owned());
    mark_and_delete(call, options).await.map_err(|refused| match refused.code {
        409 if asked.resource_version.is_none() => still_processing(meta::name(budget)),
        _ => refused,
    })
}

fn budgets_of(call: &Call, pod: &Value) -> Vec<Value> {
    let Some(cache) = call.backend.catalog.cache("policy", "poddisruptionbudgets") else { return Vec::new() };
    let objects = cache.snapshot(&call.at.namespace, None).objects;
    objects.iter().map(|object| object.tree()).filter(|budget| selects(budget, pod)).collect()
}

fn selects(budget: &Value, pod: &Value) -> bool {
    corten_api::selector::LabelSelector::from_object(budget.at(&["spec", "selector"]))
        .is_ok_and(|selector| selector.matches_object(pod))
}

fn count(budget: &Value, field: &str) -> i64 {
    budget.int_at(&["status", field]).unwrap_or(0)
}

/// True if a pod that is not ready may be deleted without counting: by the budget's policy, or because enough pods are
/// healthy.
fn needs_no_disruption(budget: &Value, pod: &Value) -> bool {
    if is_ready(pod) {
        return false;
    }
    let always = budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow");
    let desired = count(budget, "desiredHealthy");
    always || (desired > 0 && count(budget, "currentHealthy") >= desired)
}

/// Counts a disruption against a budget.
async fn take_from_budget(call: &Call, budget: &str, pod: &str, dry_run: bool) -> Result<(), Status> {
    let resource = ("policy", "v1", "poddisruptionbudgets");
    let gone = || Status::not_found("policy", "poddisruptionbudgets", budget);
    let mut inside = Call::internal(&call.backend, resource, &call.at.namespace, budget).ok_or_else(gone)?;
    let cache = list::cache(&inside)?.clone();
    for _ in 0..RETRIES {
        let current = Current::read(&inside, &cache).await?.ok_or_else(gone)?;
        let mut new = disrupt(&current.tree, pod, &time::format(inside.now))?;
        if dry_run {
            return Ok(());
        }
        managed::update(&Ownership::of(&inside, "status").context(&inside), Some(&current.tree), &mut new);
        if write::replace(&mut inside, "status", &cache, &current, new, false).await?.is_some() {
            return Ok(());
        }
    }
    Err(Status::timeout(format!("couldn't update PodDisruptionBudget {budget:?} due to conflicts"), 10))
}

/// The budget with one more disruption, or the refusal. Pure.
fn disrupt(budget: &Value, pod: &str, now: &str) -> Result<Value, Status> {
    let name = meta::name(budget);
    if count(budget, "observedGeneration") < meta::generation(budget) {
        return Err(still_processing(name));
    }
    let allowed = count(budget, "disruptionsAllowed");
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object);
    if allowed < 0 {
        return Err(forbidden(
            name,
            "pdb disruptions allowed is negative",
            "pdb disruptions allowed is negative",
        ));
    }
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return Err(forbidden(
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            "too many pending evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 {
        return Err(caused(Status::too_many_requests(REFUSED, 0), exhausted(budget)));
    }
    let mut updated = budget.clone();
    updated.set(&["status", "disruptionsAllowed"], allowed - 1);
    if allowed == 1 {
        disallow(&mut updated, now);
    }
    updated.set(&["status", "disruptedPods", pod], now);
    Ok(updated)
}

/// The message about a budget without allowed disruptions.
fn exhausted(budget: &Value) -> String {
    let name = meta::name(budget);
    let (desired, healthy) = (count(budget, "desiredHealthy"), count(budget, "currentHealthy"));
    let mut conditions = budget.items_at(&["status", "conditions"]).iter();
    let condition = conditions.find(|condition| condition.str_at(&["type"]) == Some("DisruptionAllowed"));
    let text = |field: &str| condition.and_then(|c| c.str_at(&[field])).unwrap_or_default();
    let (reason, message) = (text("reason"), text("message"));
    let explained = text("status") == "False" && !message.is_empty();
    if explained && reason == "SyncFailed" {
        // The sync has failed: the counts are not valid.
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        )
    } else if healthy <= desired {
        format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    } else if explained {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }
}

/// Sets the budget's condition DisruptionAllowed to false.
fn disallow(budget: &mut Value, now: &str) {
    let observed = count(budget, "observedGeneration");
    let conditions = budget.make_object().entry("status").make_object().entry("conditions").make_array();
    let kind = "DisruptionAllowed";
    let index = conditions.iter().position(|c| c.str_at(&["type"]) == Some(kind)).unwrap_or_else(|| {
        let mut fresh = Value::object();
        fresh.set(&["type"], kind);
        conditions.push(fresh);
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    if condition.str_at(&["status"]) != Some("False") {
        condition.set(&["status"], "False");
        condition.set(&["lastTransitionTime"], now);
    }
    condition.set(&["reason"], "InsufficientPods");
    condition.set(&["message"], "");
    if observed == 0 {
        condition.remove(&["observedGeneration"]);
    } else {
        condition.set(&["observedGeneration"], observed);
    }
}

fn caused(mut refusal: Status, message: String) -> Status {
    refusal.details.causes = vec![Cause { reason: "DisruptionBudget".into(), message, field: String::new() }];
    refusal
}

fn still_processing(budget: &str) -> Status {
    let why = format!("The disruption budget {budget} is still being processed by the server.");
    caused(Status::too_many_requests(REFUSED, 10), why)
}

fn forbidden(budget: &str, why: &str, cause: &str) -> Status {
    let cause = format!("The disruption budget {budget} does not allow evicting pods currently: {cause}");
    caused(Status::forbidden("policy", "poddisruptionbudget", budget, why), cause)
}

/// Sets the pod's condition DisruptionTarget, and deletes the pod.
async fn mark_and_delete(call: &mut Call, mut options: DeleteOptions) -> Result<(), Status> {
    if !options.dry_run {
        let revision = mark(call, &options).await?;
        // Setting the condition changed the resourceVersion.
        options.resource_version = options.resource_version.map(|_| revision);
    }
    options.validate()?;
    delete::delete_named(call, &options, Admitted::Before).await.map(|_| ())
}

async fn mark(call: &mut Call, options: &DeleteOptions) -> Result<String, Status> {
    for _ in 0..RETRIES {
        let current = current(call).await?;
        options.check(call, &current.tree)?;
        let mut pod = current.tree.clone();
        let why = ("EvictionByEvictionAPI", "Eviction API: evicting");
        update_condition(&mut pod, "DisruptionTarget", Some(why), &time::format(call.now));
        let cache = list::cache(call)?.clone();
        let written =
            write::replace_stored(call, &cache, &current, pod, Companions::default(), false).await?;
        if let Replaced::Stored(text) = written {
            let pod = corten_api::json::parse(&text).unwrap_or_default();
            return Ok(meta::resource_version(&pod).to_owned());
        }
    }
    Err(call.stale())
}

#[cfg(test)]
#[path = "eviction/tests.rs"]
mod tests;
