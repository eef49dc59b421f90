//! MutatingAdmissionWebhook: webhooks that may change an object, one after the other, in order of their configurations'
//! names.
//!
//! Each webhook gets the object as the one before it left it. A patched object is decoded and defaulted again.

use std::sync::atomic::Ordering;
use std::time::Instant;

use corten_api::{Status, Value, json, patch};

use super::{ALL, Admit, Plugin, Validate, Verdict};
use crate::admission::Attributes;
use crate::admission::versioned::{Shown, from_target};
use crate::admission::webhooks::{self, Failure, Outcome, Webhook, WebhookKind};
use crate::heavy;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "MutatingAdmissionWebhook",
    operations: ALL,
    admit: Admit::Any(admit),
    validate: Validate::Nothing,
};

const ANNOTATION: &str = "mutation.webhook.admission.k8s.io/";
const PATCH_ANNOTATION: &str = "patch.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

fn admit<'a>(attributes: &'a Attributes<'a>, object: Option<&'a mut Value>) -> Verdict<'a> {
    let hooks = attributes.backend().admission.webhooks.of(WebhookKind::Mutating, attributes);
    let hooks = match hooks {
        Ok(hooks) if hooks.is_empty() => return Box::pin(std::future::ready(Ok(()))),
        Ok(hooks) => hooks,
        Err(error) => return Box::pin(std::future::ready(Err(error))),
    };
    Box::pin(async move {
        let mut object = object;
        {
            let mut rounds = attributes.reinvocation.lock();
            if rounds.is_second_round() {
                rounds.webhooks.compare(object.as_deref());
            }
        }
        for (index, webhook) in hooks.iter().enumerate() {
            run(attributes, index, webhook, &mut object).await?;
        }
        attributes.reinvocation.lock().webhooks.set_output(object.as_deref());
        Ok(())
    })
}

/// Calls one webhook, if it applies to the request.
async fn run(
    attributes: &Attributes<'_>,
    index: usize,
    webhook: &Webhook,
    object: &mut Option<&mut Value>,
) -> Result<(), Status> {
    let Some(target) = webhooks::target(webhook, attributes, object.as_deref()).await? else {
        return Ok(());
    };
    let round = {
        let rounds = attributes.reinvocation.lock();
        if rounds.is_second_round() && !rounds.webhooks.is_outdated(&webhook.uid) {
            return Ok(());
        }
        usize::from(rounds.is_second_round())
    };
    let place = format!("round_{round}_index_{index}");
    let shown = Shown::new(attributes, target.clone(), object.as_deref()).await?;
    let began = Instant::now();
    let outcome = change(attributes, webhook, shown, object, &place).await;
    let counted = match &outcome {
        Ok(_) => Outcome::Allowed,
        Err(Refusal::Call(failure)) => failure.outcome(webhook),
        Err(Refusal::Status(_)) => Outcome::Unusable,
    };
    webhooks::count(webhook, attributes, began, counted);
    let changed = matches!(outcome, Ok(true));
    attributes.annotate(format!("{ANNOTATION}{place}"), mutation(webhook, changed));
    {
        let mut rounds = attributes.reinvocation.lock();
        if changed {
            attributes.is_changed.store(true, Ordering::Relaxed);
            rounds.webhooks.outdate();
            rounds.require();
        }
        if webhook.reinvoked {
            rounds.webhooks.add(&webhook.uid);
        }
    }
    match outcome {
        Ok(_) => Ok(()),
        Err(Refusal::Call(Failure::Calling { reason, .. })) if webhook.ignores_failure => {
            tracing::warn!(webhook = &*webhook.name, err = reason, "failed calling webhook; failing open");
            attributes.annotate(format!("{FAILED_OPEN}{place}"), webhook.name.to_string());
            Ok(())
        }
        Err(Refusal::Call(failure)) => {
            if let Failure::Calling { reason, .. } = &failure {
                tracing::warn!(
                    webhook = &*webhook.name,
                    err = reason,
                    "failed calling webhook; failing closed"
                );
            }
            Err(failure.into_status(webhook))
        }
        Err(Refusal::Status(status)) => Err(status),
    }
}

/// The reason why a request fails.
enum Refusal {
    Call(Failure),
    /// The response cannot be carried out.
    Status(Status),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal::Status(status)
    }
}

/// Calls a webhook and applies its patch. Returns true if the object has changed.
async fn change(
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    shown: Shown,
    object: &mut Option<&mut Value>,
    place: &str,
) -> Result<bool, Refusal> {
    let target = &shown.target;
    let request = attributes.admission_request(target, object.as_deref());
    let objects = (shown.object.as_ref(), shown.old.as_ref());
    let answer = heavy::waiting(webhooks::invoke(webhook, attributes, request, objects)).await;
    let Some(operations) = answer.map_err(Refusal::Call)?.patch else { return Ok(false) };
    let (Some(object), Some(before)) = (object.as_deref_mut(), shown.object) else {
        return Err(Refusal::Status(Status::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            &*webhook.name
        ))));
    };
    let mut patched = before.clone();
    patch::json::apply(&mut patched, &operations).map_err(|error| Status::internal(error.to_string()))?;
    attributes.annotate(format!("{PATCH_ANNOTATION}{place}"), applied(webhook, &operations));
    if patched == before {
        return Ok(false);
    }
    let new = from_target(attributes, target, patched).await?;
    if new == *object {
        return Ok(false);
    }
    *object = new;
    Ok(true)
}

/// The annotation that says whether a webhook changed the object.
fn mutation(webhook: &Webhook, mutated: bool) -> String {
    let mut value = annotation(webhook);
    value.set(&["mutated"], mutated);
    json::write_to_string(&value)
}

/// The annotation with a webhook's patch.
fn applied(webhook: &Webhook, operations: &Value) -> String {
    let mut value = annotation(webhook);
    value.set(&["patch"], operations.clone());
    value.set(&["patchType"], "JSONPatch");
    json::write_to_string(&value)
}

fn annotation(webhook: &Webhook) -> Value {
    let mut value = Value::object();
    value.set(&["configuration"], webhook.configuration.clone());
    value.set(&["webhook"], webhook.name.clone());
    value
}
