//! Admission webhooks: the stored configurations, compiled, and the calls to them.
//!
//! `configuration` is one webhook, `source` the webhooks of all configurations, `review` the documents that are exchanged
//! (pure), `call` one call with its outcome, `metrics` what is counted. The two plugins decide which webhooks are called and
//! in which order.
//!
//! *Invariants:* a configuration is in force once its write is acknowledged; requests are refused while one cannot be read. A webhook never keeps a place that other requests
//! need while it is waited for, and can change nothing but the object of the request.

mod call;
mod configuration;
mod metrics;
mod review;
mod source;

pub(super) use call::{Failure, count, invoke};
pub(super) use configuration::{Webhook, WebhookKind};
pub(super) use metrics::Outcome;

use std::sync::Arc;

use corten_api::{Status, Value};
use corten_serving::metrics::Exposition;
use corten_store::Store;

use super::Attributes;
use super::configuration::{Configurable, MUTATING_WEBHOOKS, PluginConfigurations, VALIDATING_WEBHOOKS};
use super::manifests::Manifests;
use super::matching::Target;
use metrics::Counters;
use source::Source;

/// The webhooks of all configurations.
pub(crate) struct Webhooks {
    mutating: Source,
    validating: Source,
    counters: Counters,
}

impl Webhooks {
    pub(super) fn start(store: &Store, configurations: &PluginConfigurations) -> Webhooks {
        let source =
            |kind: WebhookKind, of: Configurable| Source::start(store, kind, configurations.users_of(of));
        Webhooks {
            mutating: source(WebhookKind::Mutating, MUTATING_WEBHOOKS),
            validating: source(WebhookKind::Validating, VALIDATING_WEBHOOKS),
            counters: Counters::default(),
        }
    }

    /// The webhooks that requests for a resource are compared with. Configurations of admission are exempt from stored
    /// webhooks, so that one can always be repaired.
    pub(super) fn of(
        &self,
        kind: WebhookKind,
        attributes: &Attributes<'_>,
    ) -> Result<Arc<[Arc<Webhook>]>, Status> {
        let source = match kind {
            WebhookKind::Mutating => &self.mutating,
            WebhookKind::Validating => &self.validating,
        };
        if is_exempt(attributes) { Ok(source.of_manifests()) } else { source.webhooks() }
    }

    /// Replaces the webhooks of manifests.
    pub(super) fn set_manifests(&self, of: Configurable, manifests: &Manifests) {
        let source = if of == MUTATING_WEBHOOKS { &self.mutating } else { &self.validating };
        source.set_manifests(of.kinds.iter().flat_map(|kind| manifests.of(kind)));
    }

    /// True if there is a webhook that may refuse objects.
    pub(super) fn may_validate(&self) -> bool {
        !self.validating.is_empty()
    }

    /// True if there is a webhook that may change objects.
    pub(super) fn may_change(&self) -> bool {
        !self.mutating.is_empty()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn render_metrics(&self, out: &mut Exposition) {
        self.counters.render(out);
    }
}

/// True for the configurations of webhooks and policies.
fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let (group, resource) = attributes.resource();
    group == "admissionregistration.k8s.io"
        && matches!(
            resource,
            "mutatingwebhookconfigurations"
                | "validatingwebhookconfigurations"
                | "mutatingadmissionpolicies"
                | "mutatingadmissionpolicybindings"
                | "validatingadmissionpolicies"
                | "validatingadmissionpolicybindings"
        )
}

/// The resource and kind in which a webhook is called for a request, or `None` if it is not.
pub(super) async fn target(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<Option<Target>, Status> {
    let Some(matched) = webhook.criteria.matches(attributes, object)? else { return Ok(None) };
    let target = matched.target(attributes);
    Ok(webhook.conditions_match(attributes, &target, object).await?.then_some(target))
}
