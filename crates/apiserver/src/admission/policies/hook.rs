//! One policy with its bindings, parsed once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use corten_api::resources::split_api_version;
use corten_api::{Str, Value, json, meta};
use corten_policies::{FailurePolicy, MutatingPolicy, ValidatingPolicy};
use corten_store::Entry;

use crate::admission::matching::Criteria;
use crate::admission::metrics::Laps;
use crate::heavy;

/// Evaluations that take longer leave the thread of the runtime.
const SLOW: Duration = Duration::from_micros(500);
/// The evaluations after a slow one that do so, too. Not all that follow: a thread that the system interrupts looks slow.
const WARY: u8 = 100;

/// The compiled form of a kind of policies.
pub(in crate::admission) trait Evaluator: Send + Sync + Sized + 'static {
    /// Where policies and bindings are stored.
    const POLICIES: &'static str;
    const BINDINGS: &'static str;

    fn compile(spec: &Value) -> Self;
}

impl Evaluator for ValidatingPolicy {
    const POLICIES: &'static str = "/registry/validatingadmissionpolicies/";
    const BINDINGS: &'static str = "/registry/validatingadmissionpolicybindings/";

    fn compile(spec: &Value) -> Self {
        ValidatingPolicy::compile(spec)
    }
}

impl Evaluator for MutatingPolicy {
    const POLICIES: &'static str = "/registry/mutatingadmissionpolicies/";
    const BINDINGS: &'static str = "/registry/mutatingadmissionpolicybindings/";

    fn compile(spec: &Value) -> Self {
        MutatingPolicy::compile(spec)
    }
}

/// A kind of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::admission) struct ParamKind {
    pub api_version: Str,
    pub kind: Str,
}

impl ParamKind {
    fn of(spec: &Value) -> Option<ParamKind> {
        let kind = spec.get("paramKind").filter(|kind| !kind.is_null())?;
        let text = |field: &str| Str::from(kind.str_at(&[field]).unwrap_or_default());
        Some(ParamKind { api_version: text("apiVersion"), kind: text("kind") })
    }

    /// Group and version.
    pub(super) fn group_version(&self) -> (&str, &str) {
        split_api_version(&self.api_version)
    }
}

/// The text of a policy, from which it is compiled.
pub(super) enum Text {
    Stored(Arc<Entry>),
    Manifest(Box<Value>),
}

pub(in crate::admission) struct Policy<E> {
    pub name: Str,
    pub criteria: Criteria,
    pub failure: FailurePolicy,
    pub param_kind: Option<ParamKind>,
    /// True if it is reinvoked after later changes.
    pub reinvoked: bool,
    /// Uid and generation.
    version: (Str, i64),
    text: Text,
    compiled: OnceLock<E>,
    /// Evaluations that are still to run apart, because one took long.
    wary: AtomicU8,
    /// The resource of the parameters, once it is known.
    pub(super) param_resource: parking_lot::Mutex<Option<Str>>,
}

impl<E: Evaluator> Policy<E> {
    pub(super) fn parse(object: &Value, text: Text) -> Policy<E> {
        let none = Value::Null;
        let spec = object.get("spec").unwrap_or(&none);
        Policy {
            name: meta::name(object).into(),
            criteria: Criteria::of_match_resources(spec.get("matchConstraints").unwrap_or(&none)),
            failure: FailurePolicy::of(spec),
            param_kind: ParamKind::of(spec),
            reinvoked: spec.str_at(&["reinvocationPolicy"]) == Some("IfNeeded"),
            version: version(object),
            text,
            compiled: OnceLock::new(),
            wary: AtomicU8::new(0),
            param_resource: parking_lot::Mutex::default(),
        }
    }

    /// Returns true if an object is of the same specification as this policy.
    pub(super) fn has_spec_of(&self, object: &Value) -> bool {
        self.version == version(object)
    }

    /// Evaluates the policy; the lap that ends with it is its time. One that took long before is evaluated apart from other
    /// tasks of the thread; the first evaluation always is, because it compiles.
    pub(in crate::admission) fn evaluate<T>(
        &self,
        laps: &mut Laps,
        work: impl FnOnce(&E) -> T,
    ) -> (T, Duration) {
        let wary = self.wary.load(Ordering::Relaxed);
        let (outcome, took) = match self.compiled.get() {
            Some(compiled) if wary == 0 => (work(compiled), laps.lap()),
            _ => heavy::blocking(|| {
                let compiled = self.compiled();
                laps.lap();
                (work(compiled), laps.lap())
            }),
        };
        let left = if took > SLOW { WARY } else { wary.saturating_sub(1) };
        if left != wary {
            self.wary.store(left, Ordering::Relaxed);
        }
        (outcome, took)
    }

    fn compiled(&self) -> &E {
        self.compiled.get_or_init(|| {
            let none = Value::Null;
            match &self.text {
                Text::Manifest(object) => E::compile(object.get("spec").unwrap_or(&none)),
                Text::Stored(entry) => {
                    let object = json::parse(&entry.value).unwrap_or_default();
                    E::compile(object.get("spec").unwrap_or(&none))
                }
            }
        })
    }
}

fn version(object: &Value) -> (Str, i64) {
    let generation = object.int_at(&["metadata", "generation"]).unwrap_or_default();
    (object.str_at(&["metadata", "uid"]).unwrap_or_default().into(), generation)
}

pub(in crate::admission) struct Binding {
    pub name: Str,
    pub policy: Str,
    /// `None` if it binds the policy for all requests that match it.
    pub criteria: Option<Criteria>,
    /// The reference to parameters.
    pub param_ref: Option<Value>,
    pub actions: Vec<Str>,
}

impl Binding {
    pub(super) fn parse(object: &Value) -> Binding {
        let present = |field: &str| object.at(&["spec", field]).filter(|value| !value.is_null());
        let actions = object.items_at(&["spec", "validationActions"]).iter();
        Binding {
            name: meta::name(object).into(),
            policy: object.str_at(&["spec", "policyName"]).unwrap_or_default().into(),
            criteria: present("matchResources").map(Criteria::of_match_resources),
            param_ref: present("paramRef").cloned(),
            actions: actions.filter_map(Value::as_str).map(Str::from).collect(),
        }
    }
}

impl Binding {
    /// True if the policy is evaluated once for each of its parameters.
    pub(in crate::admission) fn has_params<E>(&self, policy: &Policy<E>) -> bool {
        policy.param_kind.is_some() && self.param_ref.is_some()
    }
}

/// A policy and its bindings, in order of their names.
pub(in crate::admission) struct Hook<E> {
    pub policy: Arc<Policy<E>>,
    pub bindings: Vec<Arc<Binding>>,
}
