//! One call of a webhook: dry runs, the review, the response, and what it says.

use std::time::{Duration, Instant};

use corten_api::{Map, Status, Value};

use super::configuration::{ReviewVersion, Webhook};
use super::metrics::Outcome;
use super::review::{self, Unusable, Verdict};
use crate::admission::Attributes;
use crate::random;

/// The code of a call without a usable response.
const UNAVAILABLE: u16 = 503;

/// The response of a webhook that allows the request.
pub(in crate::admission) struct Answer {
    /// The operations of a JSON patch, never empty.
    pub patch: Option<Value>,
}

/// A call that does not allow the request.
#[derive(Debug)]
pub(in crate::admission) enum Failure {
    /// The webhook could not be called, or its response not be used. Ignored if the webhook says so.
    Calling { reason: String, code: u16 },
    /// The webhook denied the request, or does not support its dry run.
    Denied(Status),
}

impl Failure {
    /// The error of the request.
    pub(in crate::admission) fn into_status(self, webhook: &Webhook) -> Status {
        match self {
            Failure::Calling { reason, .. } => {
                Status::internal(format!("failed calling webhook {:?}: {reason}", &*webhook.name))
            }
            Failure::Denied(status) => status,
        }
    }
}

impl Failure {
    /// The outcome that is counted.
    pub(in crate::admission) fn outcome(&self, webhook: &Webhook) -> Outcome {
        match self {
            Failure::Calling { code, .. } => Outcome::Failed(*code, !webhook.ignores_failure),
            Failure::Denied(status) => Outcome::Rejected(status.code),
        }
    }
}

/// Counts a call of a webhook that began at a time.
pub(in crate::admission) fn count(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    began: Instant,
    outcome: Outcome,
) {
    let counters = attributes.backend().admission.webhooks.counters();
    counters.count(webhook, attributes.operation, began.elapsed(), outcome);
}

/// Calls a webhook with a request and its objects in the webhook's version. Large requests wait for it without their slot
/// (`heavy::waiting`). The caller counts the call.
pub(in crate::admission) async fn invoke(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    mut request: Map,
    (object, old): (Option<&Value>, Option<&Value>),
) -> Result<Answer, Failure> {
    let failed = |reason: String, code: u16| Failure::Calling { reason, code };
    if attributes.dry_run {
        match webhook.has_side_effects {
            None => return Err(failed("Webhook SideEffects is nil".to_owned(), 400)),
            Some(true) => {
                let why = format!("admission webhook {:?} does not support dry run", &*webhook.name);
                return Err(Failure::Denied(Status::bad_request(why)));
            }
            Some(false) => {}
        }
    }
    let version = webhook.review_version.ok_or_else(|| {
        let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        failed(why.to_owned(), 400)
    })?;
    let client = webhook.client.as_ref();
    let client = client.map_err(String::clone).and_then(|client| client.check().map(|()| client));
    let client = client.map_err(|why| failed(format!("could not get REST client: {why}"), 500))?;
    let uid = random::uuid();
    request.insert("uid", uid.as_str());
    request.insert("object", object.cloned().unwrap_or_default());
    request.insert("oldObject", old.cloned().unwrap_or_default());
    request.insert("options", attributes.options());
    let review = review::request(version, request);
    let posted = client.post(attributes.backend(), &review, time_for(webhook, attributes)).await;
    drop(review);
    let review = posted.map_err(|error| {
        failed(format!("failed to call webhook: {error}"), error.code.unwrap_or(UNAVAILABLE))
    })?;
    verdict(webhook, attributes, version, &uid, &review)
}

/// The time that a webhook has: its own timeout, but no more than the request has left.
fn time_for(webhook: &Webhook, attributes: &Attributes<'_>) -> Duration {
    let Some(deadline) = attributes.call.deadline else { return webhook.timeout };
    webhook.timeout.min(deadline.saturating_duration_since(tokio::time::Instant::now()))
}

/// Takes over the findings of a response.
fn verdict(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    version: ReviewVersion,
    uid: &str,
    review: &Value,
) -> Result<Answer, Failure> {
    let response = review::response(webhook.kind, version, uid, review).map_err(|unusable| {
        let reason = match unusable {
            Unusable::Invalid(why) => format!("received invalid webhook response: {why}"),
            Unusable::Patch(why) => format!("received undecodable patch in webhook response: {why}"),
            Unusable::PatchType(kind) => format!("unsupported patch type {kind:?}"),
        };
        Failure::Calling { reason, code: UNAVAILABLE }
    })?;
    for (key, value) in response.annotations {
        attributes.annotate(format!("{}/{key}", webhook.name), value);
    }
    for warning in response.warnings {
        attributes.warn(warning);
    }
    match response.verdict {
        Verdict::Allowed(patch) => Ok(Answer { patch }),
        Verdict::Denied(result) => Err(Failure::Denied(review::denial(&webhook.name, result.as_ref()))),
    }
}
