//! MutatingAdmissionPolicy: policies that may change an object, one after the other, in order of their names.
//!
//! Which policies apply is decided before the first one runs. Each mutation gets the object as the one before it left it, in
//! the version that its policy matched, and its result is decoded and defaulted again. Policies that ask for it run once
//! more if the object has changed since.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use corten_api::schema::StructRef;
use corten_api::status::Cause;
use corten_api::{Status, Value, meta, resources};
use corten_policies::{FailurePolicy, Match, MutatingPolicy};

use super::{Admit, CONNECT, CREATE, Plugin, UPDATE, Validate, Verdict};
use crate::admission::expressions::Evaluated;
use crate::admission::matching::Target;
use crate::admission::metrics::{ConditionOwner, Laps};
use crate::admission::policies::{self, Binding, Hook, Index, Param};
use crate::admission::versioned::from_target;
use crate::admission::{Attributes, lookup};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "MutatingAdmissionPolicy",
    operations: CREATE | UPDATE | CONNECT,
    admit: Admit::Any(admit),
    validate: Validate::Nothing,
};

fn admit<'a>(attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
    match attributes.backend().admission.policies.mutating(attributes) {
        Ok(Some(index)) => Box::pin(async move { run(attributes, object, &index).await }),
        outcome => Box::pin(std::future::ready(outcome.map(drop))),
    }
}

/// A policy that applies to a request, with a binding and a parameter.
struct Invocation<'i> {
    hook: &'i Hook<MutatingPolicy>,
    binding: &'i Binding,
    target: Target,
    param: Option<Param>,
}

impl Invocation<'_> {
    /// Tells invocations of one request apart.
    fn key(&self) -> String {
        let param =
            self.param.as_ref().map(|param| (meta::namespace(param.tree()), meta::name(param.tree())));
        let (namespace, name) = param.unwrap_or_default();
        format!("{}/{}/{namespace}/{name}", self.hook.policy.name, self.binding.name)
    }
}

/// A failure of a policy.
struct Failure<'i> {
    hook: &'i Hook<MutatingPolicy>,
    binding: Option<&'i Binding>,
    message: String,
    /// The object could not be mutated, rather than the policy not be used.
    is_invalid: bool,
}

async fn run(
    attributes: &Attributes<'_>,
    object: Option<&mut Value>,
    index: &Index<MutatingPolicy>,
) -> Result<(), Status> {
    let candidates = index.candidates(attributes);
    if candidates.is_empty() {
        return Ok(());
    }
    let mut failures = Vec::new();
    let mut invocations = Vec::new();
    for hook in candidates {
        gather(attributes, hook, object.as_deref(), &mut invocations, &mut failures).await;
    }
    if !invocations.is_empty() {
        if let Some(name) = attributes.namespace_of_object()
            && lookup::namespace(attributes.backend(), name).is_none()
        {
            return Err(Status::not_found("", "namespaces", name));
        }
        invoke(attributes, object, invocations, &mut failures).await?;
    }
    refuse(attributes, &failures)
}

/// The invocations of a policy.
async fn gather<'i>(
    attributes: &Attributes<'_>,
    hook: &'i Hook<MutatingPolicy>,
    object: Option<&Value>,
    invocations: &mut Vec<Invocation<'i>>,
    failures: &mut Vec<Failure<'i>>,
) {
    let mut fail = |binding: Option<&'i Binding>, why: &str| {
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = format!("failed to configure {what}: {why}");
        failures.push(Failure { hook, binding, message, is_invalid: false });
    };
    let target = match hook.policy.criteria.matches(attributes, object) {
        Ok(Some(matched)) => matched.target(attributes),
        Ok(None) => return,
        Err(status) => return fail(None, &status.message),
    };
    let resource = match policies::resource_of(attributes.backend(), &hook.policy) {
        Ok(resource) => resource,
        Err(why) => return fail(None, &why),
    };
    for binding in &hook.bindings {
        match binding.criteria.as_ref().map(|criteria| criteria.matches(attributes, object)) {
            None | Some(Ok(Some(_))) => {}
            Some(Ok(None)) => continue,
            Some(Err(status)) => {
                fail(Some(binding), &status.message);
                continue;
            }
        }
        let invocation = |param| Invocation { hook, binding, target: target.clone(), param };
        if !binding.has_params(&hook.policy) {
            invocations.push(invocation(None));
            continue;
        }
        match policies::collect(attributes, &hook.policy, resource.as_ref(), binding).await {
            Ok(params) => invocations.extend(params.into_iter().map(Some).map(invocation)),
            Err(why) => fail(Some(binding), &why),
        }
    }
}

/// Runs the invocations in order.
async fn invoke<'i>(
    attributes: &Attributes<'_>,
    mut object: Option<&mut Value>,
    invocations: Vec<Invocation<'i>>,
    failures: &mut Vec<Failure<'i>>,
) -> Result<(), Status> {
    {
        let mut rounds = attributes.reinvocation.lock();
        if rounds.is_second_round() {
            rounds.policies.compare(object.as_deref());
        }
    }
    // The object in the version of the last invocation, as long as nothing else has changed it.
    let mut current: Option<Evaluated<'_>> = None;
    let mut laps = Laps::start();
    for invocation in &invocations {
        let is_same = |shown: &Evaluated<'_>| Arc::ptr_eq(&shown.target().served, &invocation.target.served);
        let is_current = current.as_ref().is_some_and(is_same);
        if !is_current {
            let target = invocation.target.clone();
            current = Some(Evaluated::new(attributes, target, object.as_deref()).await?);
        }
        let Some(evaluated) = current.as_mut() else { continue };
        let param = invocation.param.as_ref().map(Param::tree);
        laps.lap();
        let policy = &invocation.hook.policy;
        let (matched, took) = policy.evaluate(&mut laps, |policy| policy.matches(evaluated, param));
        let owner = ConditionOwner { name: &policy.name, kind: "policy", type_: "validate" };
        attributes.count_conditions(owner, &matched, took);
        match matched.verdict {
            Match::Yes => {}
            Match::No(_) => continue,
            Match::Error(message) => {
                let (hook, binding) = (invocation.hook, Some(invocation.binding));
                failures.push(Failure { hook, binding, message, is_invalid: true });
                continue;
            }
        }
        let key = invocation.key();
        {
            let rounds = attributes.reinvocation.lock();
            if rounds.is_second_round() && !rounds.policies.is_outdated(&key) {
                continue;
            }
        }
        let changed = mutate(attributes, invocation, evaluated, object.as_deref_mut(), failures).await?;
        let mut rounds = attributes.reinvocation.lock();
        if changed {
            attributes.is_changed.store(true, Ordering::Relaxed);
            rounds.policies.outdate();
            rounds.require();
        }
        if invocation.hook.policy.reinvoked {
            rounds.policies.add(&key);
        }
    }
    attributes.reinvocation.lock().policies.set_output(object.as_deref());
    Ok(())
}

/// Runs the mutations of an invocation. Returns true if the object has changed.
async fn mutate<'i>(
    attributes: &Attributes<'_>,
    invocation: &Invocation<'i>,
    evaluated: &mut Evaluated<'_>,
    object: Option<&mut Value>,
    failures: &mut Vec<Failure<'i>>,
) -> Result<bool, Status> {
    let Some(object) = object else { return Ok(false) };
    let (policy, binding) = (&invocation.hook.policy, invocation.binding);
    let schema = schema_of(attributes, &invocation.target)?;
    let counters = &attributes.backend().admission.policies.counters;
    let param = invocation.param.as_ref().map(Param::tree);
    let mut changed = false;
    let mut laps = Laps::start();
    for at in 0..policy.evaluate(&mut laps, MutatingPolicy::len).0 {
        laps.lap();
        let (outcome, took) =
            policy.evaluate(&mut laps, |policy| policy.mutate(at, evaluated, param, &schema));
        let error = outcome.as_ref().err().map(String::as_str);
        counters.mutated((&policy.name, &binding.name), error, took);
        let new = match outcome {
            Ok(Some(new)) => from_target(attributes, &invocation.target, new).await.map_err(|s| s.message),
            Ok(None) => continue,
            Err(message) => Err(message),
        };
        let new = match new {
            Ok(new) => new,
            Err(message) => {
                let (hook, binding) = (invocation.hook, Some(binding));
                failures.push(Failure { hook, binding, message, is_invalid: true });
                continue;
            }
        };
        if new != *object {
            *object = new;
            changed = true;
            let shown = Evaluated::new(attributes, invocation.target.clone(), Some(object)).await?;
            if let Some(shown) = shown.into_object() {
                evaluated.set_object(shown);
            }
        }
    }
    Ok(changed)
}

/// The type by which configurations are merged.
fn schema_of(attributes: &Attributes<'_>, target: &Target) -> Result<StructRef, Status> {
    if attributes.is_own_kind() {
        return Ok(target.served.schema());
    }
    let kind = &target.kind;
    resources::schema_of(&kind.group, &kind.version, &kind.kind).ok_or_else(|| {
        Status::unavailable(format!(
            "Resource kind {}/{}, Kind={} not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.",
            kind.group, kind.version, kind.kind
        ))
    })
}

/// The refusal of a request, unless all policies that failed say that failures are to be ignored.
fn refuse(attributes: &Attributes<'_>, failures: &[Failure<'_>]) -> Result<(), Status> {
    let counted = failures.iter().filter(|failure| failure.hook.policy.failure == FailurePolicy::Fail);
    let mut status: Option<Status> = None;
    for failure in counted {
        let (policy, message) = (&failure.hook.policy.name, &failure.message);
        let message = match failure.binding {
            Some(binding) => {
                format!("policy '{policy}' with binding '{}' denied request: {message}", binding.name)
            }
            None => format!("policy {:?} denied request: {message}", policy.as_str()),
        };
        let status = status.get_or_insert_with(|| {
            let mut status = attributes.forbidden(None, "");
            status.message = message.clone();
            if failure.is_invalid {
                status.reason = "Invalid".to_owned().into();
            }
            status
        });
        status.details.causes.push(Cause { message, ..Cause::default() });
    }
    status.map_or(Ok(()), Err)
}
