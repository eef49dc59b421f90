//! Admission policies: the stored policies and their bindings, compiled, and the parameters of a request.
//!
//! `hook` is a policy with its bindings, `source` all of one kind, `index` finds those that a request may concern, `params`
//! the parameters of a binding, `metrics` what is counted. The two plugins decide what becomes of a request.
//!
//! *Invariants:* a policy is in force once the writes of it and of a binding are acknowledged. It is compiled when a request
//! first matches it, once. Policies and bindings themselves are exempt from policies that are stored, so that one can always
//! be repaired. Requests are refused while one cannot be read.

mod hook;
mod index;
mod metrics;
mod params;
mod source;

pub(super) use hook::{Binding, Hook};
pub(super) use index::Index;
pub(super) use metrics::Enforced;
pub(super) use params::{Param, collect, resource_of};

use corten_policies::{MutatingPolicy, ValidatingPolicy};
use corten_serving::metrics::Exposition;
use corten_store::Store;

use super::Attributes;
use super::configuration::{Configurable, MUTATING_POLICIES};
use super::manifests::Manifests;
use metrics::Counters;
use source::{Found, Source};

/// The policies of both kinds.
pub(crate) struct Policies {
    mutating: Source<MutatingPolicy>,
    validating: Source<ValidatingPolicy>,
    pub(super) counters: Counters,
}

impl Policies {
    pub(super) fn start(store: &Store) -> Policies {
        Policies {
            mutating: Source::start(store),
            validating: Source::start(store),
            counters: Counters::default(),
        }
    }

    /// Replaces the policies of manifests.
    pub(super) fn set_manifests(&self, of: Configurable, manifests: &Manifests) {
        let [policies, bindings] = of.kinds else { return };
        let (policies, bindings) = (manifests.of(policies), manifests.of(bindings));
        if of == MUTATING_POLICIES {
            self.mutating.set_manifests(policies, bindings);
        } else {
            self.validating.set_manifests(policies, bindings);
        }
    }

    /// The mutating policies that requests for a resource are compared with.
    pub(super) fn mutating(&self, attributes: &Attributes<'_>) -> Found<MutatingPolicy> {
        self.mutating.index(is_exempt(attributes))
    }

    /// The validating ones.
    pub(super) fn validating(&self, attributes: &Attributes<'_>) -> Found<ValidatingPolicy> {
        self.validating.index(is_exempt(attributes))
    }

    /// True if there is a policy that may change objects.
    pub(super) fn may_change(&self) -> bool {
        self.mutating.may_act()
    }

    /// True if there is a policy that may refuse objects.
    pub(super) fn may_validate(&self) -> bool {
        self.validating.may_act()
    }

    pub(crate) fn render_metrics(&self, out: &mut Exposition) {
        self.counters.render(out);
    }
}

/// The policies that a request is exempt from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exempt {
    No,
    /// Those that are stored; not those of the server's own configuration.
    FromStored,
    /// All: reviews decide about requests themselves.
    Always,
}

fn is_exempt(attributes: &Attributes<'_>) -> Exempt {
    match attributes.resource() {
        (
            "admissionregistration.k8s.io",
            "mutatingadmissionpolicies"
            | "mutatingadmissionpolicybindings"
            | "validatingadmissionpolicies"
            | "validatingadmissionpolicybindings",
        ) => Exempt::FromStored,
        ("authentication.k8s.io", "selfsubjectreviews" | "tokenreviews")
        | (
            "authorization.k8s.io",
            "localsubjectaccessreviews"
            | "selfsubjectaccessreviews"
            | "selfsubjectrulesreviews"
            | "subjectaccessreviews",
        ) => Exempt::Always,
        _ => Exempt::No,
    }
}
