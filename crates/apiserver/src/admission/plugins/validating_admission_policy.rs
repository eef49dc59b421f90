//! ValidatingAdmissionPolicy: policies that may refuse a request, warn about it, or annotate its audit event.
//!
//! All policies are evaluated, so that every warning reaches the client; the first refusal counts.

use std::sync::Arc;
use std::time::Duration;

use corten_api::status::Cause;
use corten_api::{Status, Str, Value, json};
use corten_policies::{Annotation, Decision, FailurePolicy, ValidatingPolicy};

use super::{ALL, Admit, Plugin, Validate, Verdict};
use crate::admission::expressions::Evaluated;
use crate::admission::matching::Matched;
use crate::admission::metrics::{ConditionOwner, Laps};
use crate::admission::policies::{self, Binding, Enforced, Hook, Index};
use crate::admission::{Attributes, lookup};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "ValidatingAdmissionPolicy",
    operations: ALL,
    admit: Admit::Nothing,
    validate: Validate::Any(validate),
};

const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";
/// Maximum number of failures in the annotation.
const MAX_FAILURES: usize = 50;
/// Maximum length of an annotation's value in bytes.
const MAX_VALUE_BYTES: usize = 10 * 1024;

fn validate<'a>(attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
    match attributes.backend().admission.policies.validating(attributes) {
        Ok(Some(index)) => Box::pin(async move { run(attributes, object, &index).await }),
        outcome => Box::pin(std::future::ready(outcome.map(drop))),
    }
}

async fn run(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    index: &Arc<Index<ValidatingPolicy>>,
) -> Result<(), Status> {
    let candidates = index.candidates(attributes);
    if candidates.is_empty() {
        return Ok(());
    }
    let mut validation = Validation {
        attributes,
        evaluated: Vec::new(),
        has_namespace: false,
        laps: Laps::start(),
        denials: Vec::new(),
        failures: Vec::new(),
    };
    for hook in candidates {
        validation.hook(hook, object).await?;
    }
    validation.conclude(object)
}

/// The refusal of a policy.
struct Denial {
    policy: Str,
    binding: Option<Str>,
    message: String,
    reason: Option<Str>,
}

/// The validation of one request.
struct Validation<'a> {
    attributes: &'a Attributes<'a>,
    /// The request in the versions in which policies see it.
    evaluated: Vec<Evaluated<'a>>,
    /// True once the namespace of the object is known to exist.
    has_namespace: bool,
    laps: Laps,
    denials: Vec<Denial>,
    failures: Vec<Value>,
}

impl<'a> Validation<'a> {
    /// A policy that cannot be used.
    fn misconfigured(&mut self, hook: &Hook<ValidatingPolicy>, binding: Option<&Binding>, why: &str) {
        if hook.policy.failure == FailurePolicy::Ignore {
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        let message = format!("failed to configure {what}: {why}");
        self.deny(hook, binding, message, None);
    }

    fn deny(
        &mut self,
        hook: &Hook<ValidatingPolicy>,
        binding: Option<&Binding>,
        message: String,
        reason: Option<Str>,
    ) {
        let binding = binding.map(|binding| binding.name.clone());
        self.denials.push(Denial { policy: hook.policy.name.clone(), binding, message, reason });
    }

    async fn hook(&mut self, hook: &Hook<ValidatingPolicy>, object: Option<&Value>) -> Result<(), Status> {
        let attributes = self.attributes;
        let matched = match hook.policy.criteria.matches(attributes, object) {
            Ok(Some(matched)) => matched,
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(hook, None, &status.message);
                return Ok(());
            }
        };
        let resource = match policies::resource_of(attributes.backend(), &hook.policy) {
            Ok(resource) => resource,
            Err(why) => {
                self.misconfigured(hook, None, &why);
                return Ok(());
            }
        };
        let mut annotations: Vec<(Str, Vec<String>)> = Vec::new();
        for binding in &hook.bindings {
            match binding.criteria.as_ref().map(|criteria| criteria.matches(attributes, object)) {
                None | Some(Ok(Some(_))) => {}
                Some(Ok(None)) => continue,
                Some(Err(status)) => {
                    self.misconfigured(hook, Some(binding), &status.message);
                    continue;
                }
            }
            if !binding.has_params(&hook.policy) {
                if let Some(at) = self.evaluated(hook, binding, &matched, object).await? {
                    self.evaluate(hook, binding, at, None, &mut annotations);
                }
                continue;
            }
            let params = match policies::collect(attributes, &hook.policy, resource.as_ref(), binding).await {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(hook, Some(binding), &why);
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let Some(at) = self.evaluated(hook, binding, &matched, object).await? else { continue };
            // The time of conversions is not that of the evaluation.
            self.laps.lap();
            for param in &params {
                self.evaluate(hook, binding, at, Some(param.tree()), &mut annotations);
            }
        }
        for (key, values) in annotations {
            attributes.annotate(format!("{}/{key}", hook.policy.name), values.join(", "));
        }
        Ok(())
    }

    /// The position of the request in the version of a resource; `None` if it cannot be converted.
    async fn evaluated(
        &mut self,
        hook: &Hook<ValidatingPolicy>,
        binding: &Binding,
        matched: &Matched,
        object: Option<&Value>,
    ) -> Result<Option<usize>, Status> {
        let attributes = self.attributes;
        let served = matched.served(attributes);
        let known = self.evaluated.iter().position(|known| Arc::ptr_eq(&known.target().served, served));
        let at = match known {
            Some(at) => at,
            None => match Evaluated::new(attributes, matched.target(attributes), object).await {
                Ok(evaluated) => {
                    self.laps.lap();
                    self.evaluated.push(evaluated);
                    self.evaluated.len() - 1
                }
                Err(status) => {
                    let why = format!("failed to convert object version: {}", status.message);
                    self.misconfigured(hook, Some(binding), &why);
                    return Ok(None);
                }
            },
        };
        if !self.has_namespace {
            if let Some(name) = attributes.namespace_of_object()
                && lookup::namespace(attributes.backend(), name).is_none()
            {
                return Err(Status::not_found("", "namespaces", name));
            }
            self.has_namespace = true;
        }
        Ok(Some(at))
    }

    fn evaluate(
        &mut self,
        hook: &Hook<ValidatingPolicy>,
        binding: &Binding,
        at: usize,
        param: Option<&Value>,
        annotations: &mut Vec<(Str, Vec<String>)>,
    ) {
        let Some(request) = self.evaluated.get(at) else { return };
        let (validated, took) =
            hook.policy.evaluate(&mut self.laps, |policy| policy.evaluate(request, param));
        let owner = ConditionOwner { name: &hook.policy.name, kind: "policy", type_: "validate" };
        self.attributes.count_conditions(owner, &validated.conditions, took);
        for decision in validated.decisions {
            self.decide(hook, binding, &decision, took);
        }
        for (key, annotation) in validated.annotations {
            match annotation {
                Annotation::Publish(mut value) => {
                    value.truncate(value.floor_char_boundary(MAX_VALUE_BYTES));
                    match annotations.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, values)) if values.contains(&value) => {}
                        Some((_, values)) => values.push(value),
                        None => annotations.push((key, vec![value])),
                    }
                }
                Annotation::Error(message) => {
                    self.count(hook, binding, &message, Enforced::Deny, took);
                    self.deny(hook, Some(binding), message, None);
                }
            }
        }
    }

    fn count(
        &self,
        hook: &Hook<ValidatingPolicy>,
        binding: &Binding,
        message: &str,
        enforced: Enforced,
        took: Duration,
    ) {
        let counters = &self.attributes.backend().admission.policies.counters;
        counters.validated((&hook.policy.name, &binding.name), message, enforced, took);
    }

    /// Carries out the actions of a binding for a validation that failed.
    fn decide(
        &mut self,
        hook: &Hook<ValidatingPolicy>,
        binding: &Binding,
        decision: &Decision,
        took: Duration,
    ) {
        if !decision.denies {
            self.count(hook, binding, &decision.message, Enforced::Allow, took);
            return;
        }
        for action in &binding.actions {
            let enforced = match action.as_str() {
                "Deny" => {
                    self.deny(hook, Some(binding), decision.message.clone(), decision.reason.clone());
                    Enforced::Deny
                }
                "Audit" => {
                    self.failures.push(failure(binding, decision));
                    Enforced::Audit
                }
                "Warn" => {
                    self.attributes.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        hook.policy.name, binding.name, decision.message
                    ));
                    Enforced::Warn
                }
                _ => continue,
            };
            self.count(hook, binding, &decision.message, enforced, took);
        }
    }

    /// Publishes the failures and refuses the request, if a policy does.
    fn conclude(mut self, object: Option<&Value>) -> Result<(), Status> {
        if !self.failures.is_empty() {
            self.failures.truncate(MAX_FAILURES);
            let failures = std::mem::take(&mut self.failures);
            self.attributes.annotate(FAILURES.to_owned(), json::write_to_string(&Value::Array(failures)));
        }
        let Some(denial) = self.denials.into_iter().next() else { return Ok(()) };
        let Denial { policy, binding, message, reason } = denial;
        let message = match binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"
            ),
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}"),
        };
        let mut status = self.attributes.forbidden(object, &message);
        let reason = reason.as_deref().unwrap_or("Invalid");
        status.code = match reason {
            "Unauthorized" => 401,
            "Forbidden" => 403,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        status.reason = reason.to_owned().into();
        status.details.causes.push(Cause { message, ..Cause::default() });
        Err(status)
    }
}

/// A failure in the annotation of the audit event.
fn failure(binding: &Binding, decision: &Decision) -> Value {
    let mut value = Value::object();
    value.set(&["message"], decision.message.as_str());
    value.set(&["policy"], binding.policy.clone());
    value.set(&["binding"], binding.name.clone());
    value.set(&["expressionIndex"], i64::try_from(decision.index).unwrap_or_default());
    let actions: Vec<Value> = binding.actions.iter().map(|action| Value::from(action.clone())).collect();
    value.set(&["validationActions"], actions);
    value
}
