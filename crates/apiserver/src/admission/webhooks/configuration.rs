//! One webhook of a configuration, parsed once.

use std::sync::OnceLock;
use std::time::Duration;

use corten_api::{Status, Str, Value};
use corten_policies::{FailurePolicy, Match, MatchConditions};

use crate::admission::Attributes;
use crate::admission::expressions::Evaluated;
use crate::admission::matching::{Criteria, Target};
use crate::admission::metrics::{ConditionOwner, Laps};
use crate::heavy;
use crate::webhook_client::{KubeconfigUsers, WebhookClient};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::admission) enum WebhookKind {
    Mutating,
    Validating,
}

impl WebhookKind {
    /// The type in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            WebhookKind::Mutating => "admit",
            WebhookKind::Validating => "validating",
        }
    }
}

/// The versions of AdmissionReview that this server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

pub(in crate::admission) struct Webhook {
    pub kind: WebhookKind,
    /// Distinguishes webhooks of the same name.
    pub uid: String,
    pub configuration: Str,
    pub name: Str,
    pub criteria: Criteria,
    /// True if a webhook that cannot be called does not fail the request.
    pub ignores_failure: bool,
    /// True if it is reinvoked after later changes.
    pub reinvoked: bool,
    /// `None` if the configuration does not say.
    pub(super) has_side_effects: Option<bool>,
    pub(super) timeout: Duration,
    /// The first version that both sides know.
    pub(super) review_version: Option<ReviewVersion>,
    pub(super) client: Result<WebhookClient, String>,
    match_conditions: Value,
    /// Compiled when a request first matches the rules.
    conditions: OnceLock<MatchConditions>,
}

impl Webhook {
    pub(super) fn parse(
        kind: WebhookKind,
        configuration: &str,
        number: usize,
        webhook: &Value,
        users: &KubeconfigUsers,
    ) -> Webhook {
        let name = webhook.str_at(&["name"]).unwrap_or_default();
        let versions = webhook.items_at(&["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        let known = |version: &str| match version {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        };
        let seconds = webhook.int_at(&["timeoutSeconds"]).and_then(|seconds| u64::try_from(seconds).ok());
        let none = Value::Null;
        Webhook {
            kind,
            uid: format!("{configuration}/{name}/{number}"),
            configuration: configuration.into(),
            name: name.into(),
            criteria: Criteria::of_webhook(webhook),
            ignores_failure: webhook.str_at(&["failurePolicy"]) == Some("Ignore"),
            reinvoked: webhook.str_at(&["reinvocationPolicy"]) == Some("IfNeeded"),
            has_side_effects: webhook
                .str_at(&["sideEffects"])
                .map(|class| !matches!(class, "None" | "NoneOnDryRun")),
            timeout: Duration::from_secs(seconds.unwrap_or(10).clamp(1, 30)),
            review_version: versions.into_iter().find_map(known),
            client: WebhookClient::new(webhook.get("clientConfig").unwrap_or(&none))
                .map(|client| client.with_users(users)),
            match_conditions: webhook.get("matchConditions").cloned().unwrap_or_default(),
            conditions: OnceLock::new(),
        }
    }

    /// Evaluates the match conditions, which see the objects in the target's version.
    pub(in crate::admission) async fn conditions_match(
        &self,
        attributes: &Attributes<'_>,
        target: &Target,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        let compile = || {
            let policy = if self.ignores_failure { FailurePolicy::Ignore } else { FailurePolicy::Fail };
            MatchConditions::compile(Some(&self.match_conditions), policy)
        };
        let conditions = match self.conditions.get() {
            Some(conditions) => conditions,
            None => heavy::blocking(|| self.conditions.get_or_init(compile)),
        };
        if conditions.is_empty() {
            return Ok(true);
        }
        let request = Evaluated::new(attributes, target.clone(), object).await?;
        let mut laps = Laps::start();
        let matched = heavy::blocking(|| conditions.evaluate(&request));
        let owner = ConditionOwner { name: &self.name, kind: "webhook", type_: self.kind.label() };
        attributes.count_conditions(owner, &matched, laps.lap());
        match matched.verdict {
            Match::Yes => Ok(true),
            Match::No(_) => Ok(false),
            Match::Error(why) => {
                tracing::warn!(
                    webhook = &*self.name,
                    err = why,
                    "cannot evaluate match conditions; failing closed"
                );
                let (group, resource) = attributes.resource();
                Err(Status::forbidden(group, resource, attributes.request_name(object), why))
            }
        }
    }
}
