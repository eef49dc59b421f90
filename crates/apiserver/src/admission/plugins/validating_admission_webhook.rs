//! ValidatingAdmissionWebhook: webhooks that may refuse a request, all at once.

use std::sync::Arc;
use std::time::Instant;

use corten_api::{Status, Value};
use futures_util::future::join_all;

use super::{ALL, Admit, Plugin, Validate, Verdict};
use crate::admission::Attributes;
use crate::admission::versioned::Shown;
use crate::admission::webhooks::{self, Failure, Outcome, Webhook, WebhookKind};
use crate::heavy;

pub(super) const PLUGIN: Plugin = Plugin {
    name: "ValidatingAdmissionWebhook",
    operations: ALL,
    admit: Admit::Nothing,
    validate: Validate::Any(validate),
};

const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

fn validate<'a>(attributes: &'a Attributes<'a>, object: Option<&'a Value>) -> Verdict<'a> {
    let hooks = attributes.backend().admission.webhooks.of(WebhookKind::Validating, attributes);
    let hooks = match hooks {
        Ok(hooks) if hooks.is_empty() => return Box::pin(std::future::ready(Ok(()))),
        Ok(hooks) => hooks,
        Err(error) => return Box::pin(std::future::ready(Err(error))),
    };
    Box::pin(async move {
        let mut shown: Vec<Shown> = Vec::new();
        let mut called: Vec<(&Webhook, usize)> = Vec::new();
        for webhook in hooks.iter() {
            let Some(target) = webhooks::target(webhook, attributes, object).await? else { continue };
            let known = shown.iter().position(|shown| Arc::ptr_eq(&shown.target.served, &target.served));
            let at = match known {
                Some(at) => at,
                None => {
                    shown.push(Shown::new(attributes, target, object).await?);
                    shown.len() - 1
                }
            };
            called.push((webhook, at));
        }
        let calls = called.iter().enumerate().map(|(index, (webhook, at))| {
            let shown = &shown[*at];
            let request = attributes.admission_request(&shown.target, object);
            async move {
                let objects = (shown.object.as_ref(), shown.old.as_ref());
                let began = Instant::now();
                let answer = webhooks::invoke(webhook, attributes, request, objects).await;
                let outcome = answer.as_ref().err().map(|failure| failure.outcome(webhook));
                webhooks::count(webhook, attributes, began, outcome.unwrap_or(Outcome::Allowed));
                answer.map(drop).or_else(|failure| refuse(attributes, webhook, index, failure))
            }
        });
        // All are waited for, so that warnings of every webhook reach the client; the first refusal counts.
        heavy::waiting(join_all(calls)).await.into_iter().collect()
    })
}

/// The refusal of a request, unless the webhook says that its failure is to be ignored.
fn refuse(
    attributes: &Attributes<'_>,
    webhook: &Webhook,
    index: usize,
    failure: Failure,
) -> Result<(), Status> {
    match &failure {
        Failure::Calling { reason, .. } if webhook.ignores_failure => {
            tracing::warn!(webhook = &*webhook.name, err = reason, "failed calling webhook; failing open");
            attributes.annotate(format!("{FAILED_OPEN}round_0_index_{index}"), webhook.name.to_string());
            return Ok(());
        }
        Failure::Calling { reason, .. } => {
            tracing::warn!(webhook = &*webhook.name, err = reason, "failed calling webhook; failing closed");
        }
        Failure::Denied(_) => {}
    }
    Err(failure.into_status(webhook))
}
