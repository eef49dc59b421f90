//! Admission control. The plugins are in `plugins`, one file each; this folder's other files are shared by them.
//!
//! Plugins get objects in their stored form and decide from the caches. First the mutating ones run (`admit`), before
//! preparation; then, with the object as it would be stored, the validating ones (`validate`). Decisions are functions of
//! trees; apart from lookups, built-in plugins have no effects.
//!
//! Webhooks and policies (`Admit::Any`, `Validate::Any`) also see deletions, which have no object to change, and
//! connections, whose object is their options. They share `matching` (the requests they apply to), `versioned` (the version
//! in which they see an object), `expressions` (the values that CEL sees) and `reinvocation` (the second round after one of them
//! changed the object).

mod certificate_requests;
pub(crate) mod configuration;
mod expressions;
mod finalizers;
mod lookup;
mod manifests;
mod matching;
mod metrics;
mod plugins;
mod pod;
pub(crate) mod policies;
mod reinvocation;
mod request;
mod signers;
mod unreadable;
mod versioned;
pub(crate) mod webhooks;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use corten_api::{Status, Value, managed, meta};
use corten_policies::{Match, Matched};
use corten_serving::metrics::Exposition;
use corten_store::Store;
use parking_lot::Mutex;

use crate::call::{Backend, Call};
use crate::verbs::delete::DeleteOptions;

use configuration::{Configurable, PluginConfigurations};
use manifests::Manifests;
use metrics::{ConditionOutcome, ConditionOwner, Laps, Metrics, Step};
pub use plugins::{AdmissionPlugins, TolerationSeconds};
use plugins::{Admit, Plugin, QuotaQueues, Validate};
use policies::Policies;
use reinvocation::Reinvocation;
use webhooks::Webhooks;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A session or a proxied request.
    Connect,
}

impl Operation {
    /// A bit of its own, for sets of operations.
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The name in rules and reviews.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// One write, as the verbs describe it.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub operation: Operation,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The current object, if it exists.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
    /// The options of a deletion.
    pub delete_options: Option<&'a DeleteOptions>,
    /// True for one of the deletions of a collection, whose request names no object.
    pub in_collection: bool,
}

impl<'a> Write<'a> {
    pub(crate) fn create(subresource: &'a str, dry_run: bool) -> Write<'a> {
        Write {
            operation: Operation::Create,
            subresource,
            old: None,
            dry_run,
            delete_options: None,
            in_collection: false,
        }
    }

    pub(crate) fn update(subresource: &'a str, old: &'a Value, dry_run: bool) -> Write<'a> {
        Write { operation: Operation::Update, old: Some(old), ..Write::create(subresource, dry_run) }
    }

    pub(crate) fn delete(old: &'a Value, options: &'a DeleteOptions, in_collection: bool) -> Write<'a> {
        Write {
            operation: Operation::Delete,
            old: Some(old),
            delete_options: Some(options),
            in_collection,
            ..Write::create("", options.dry_run)
        }
    }

    fn connect(subresource: &'a str) -> Write<'a> {
        Write { operation: Operation::Connect, ..Write::create(subresource, false) }
    }
}

/// The enabled plugins and their state.
pub(crate) struct Admission {
    plugins: Vec<&'static Plugin>,
    quota: QuotaQueues,
    toleration_seconds: TolerationSeconds,
    pub(crate) webhooks: Webhooks,
    pub(crate) policies: Policies,
    configurations: PluginConfigurations,
    metrics: Metrics,
}

impl Admission {
    pub(crate) fn start(plugins: &AdmissionPlugins, store: &Store) -> Admission {
        let enabled = plugins.enabled();
        let configurations = plugins.configurations.clone();
        let admission = Admission {
            metrics: Metrics::new(&enabled),
            plugins: enabled,
            quota: QuotaQueues::default(),
            toleration_seconds: plugins.toleration_seconds,
            webhooks: Webhooks::start(store, &configurations),
            policies: Policies::start(store),
            configurations,
        };
        for directory in &admission.configurations.directories {
            admission.set_manifests(directory.of, &directory.manifests);
        }
        admission
    }

    pub(crate) fn render_metrics(&self, out: &mut Exposition) {
        self.metrics.render(out);
        self.webhooks.render_metrics(out);
        self.policies.render_metrics(out);
        self.configurations.render_metrics(out);
    }

    /// Puts manifests into force.
    fn set_manifests(&self, of: Configurable, manifests: &Manifests) {
        match of {
            configuration::MUTATING_WEBHOOKS | configuration::VALIDATING_WEBHOOKS => {
                self.webhooks.set_manifests(of, manifests);
            }
            _ => self.policies.set_manifests(of, manifests),
        }
    }

    /// True if a webhook or a policy may refuse objects, also those of the server itself.
    pub(crate) fn may_refuse(&self) -> bool {
        self.may_change() || self.webhooks.may_validate() || self.policies.may_validate()
    }

    /// True if a webhook or a policy may change objects.
    fn may_change(&self) -> bool {
        self.webhooks.may_change() || self.policies.may_change()
    }
}

/// Runs the mutating plugins, before the object is prepared.
pub(crate) async fn admit(call: &mut Call, write: Write<'_>, object: &mut Value) -> Result<(), Status> {
    let attributes = Attributes::new(call, write);
    let changes = attributes.backend().admission.may_change();
    let owners = object.at(&["metadata", "managedFields"]).filter(|_| changes).cloned();
    let began = Instant::now();
    let mut outcome = admit_once(&attributes, object).await;
    if outcome.is_ok() && attributes.reinvocation.lock().begin_second_round() {
        outcome = admit_once(&attributes, object).await;
    }
    attributes.count_step(Step::Admit, &outcome, began);
    if outcome.is_ok() && attributes.is_changed.load(Ordering::Relaxed) {
        keep_valid_owners(&attributes, object, owners);
    }
    let findings = attributes.into_findings();
    findings.add_to(call);
    outcome
}

/// One round of the mutating plugins.
async fn admit_once(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let mut laps = Laps::start();
    for (number, plugin) in attributes.plugins() {
        let outcome = match plugin.admit {
            Admit::Nothing => continue,
            Admit::Look(admit) => admit(attributes, Some(object)),
            Admit::Now(admit) => admit(attributes, object),
            Admit::Later(admit) => admit(attributes, object).await,
            Admit::Any(admit) => admit(attributes, Some(object)).await,
        };
        attributes.count_plugin(number, Step::Admit, &outcome, &mut laps);
        outcome?;
    }
    Ok(())
}

/// Restores managedFields that a webhook or a policy made invalid.
fn keep_valid_owners(attributes: &Attributes<'_>, object: &mut Value, before: Option<Value>) {
    let Some(after) = object.at(&["metadata", "managedFields"]) else { return };
    if before.as_ref() == Some(after) {
        return;
    }
    if let Err(why) = managed::check(after) {
        attributes.warn(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
             admission controller; please fix your requests: {why}"
        ));
        match before {
            Some(before) => object.set(&["metadata", "managedFields"], before),
            None => drop(object.remove(&["metadata", "managedFields"])),
        }
    }
}

/// Runs the validating plugins on an object that is ready to be stored.
pub(crate) async fn validate(call: &mut Call, write: Write<'_>, object: &Value) -> Result<(), Status> {
    let attributes = Attributes::new(call, write);
    let began = Instant::now();
    let outcome = validate_once(&attributes, Some(object)).await;
    attributes.count_step(Step::Validate, &outcome, began);
    let findings = attributes.into_findings();
    findings.add_to(call);
    outcome
}

/// True if validation may wait for webhooks.
pub(crate) fn may_wait(call: &Call) -> bool {
    call.backend.admission.webhooks.may_validate()
}

/// Runs validating webhooks and policies once more, on an object whose allocation was decided again.
pub(crate) async fn validate_again(call: &mut Call, write: Write<'_>, object: &Value) -> Result<(), Status> {
    let attributes = Attributes::new(call, write);
    let outcome = validate_any(&attributes, Some(object)).await;
    let findings = attributes.into_findings();
    findings.add_to(call);
    outcome
}

/// Runs the plugins on a deletion: first those that could change an object, which can only refuse it, then the validating
/// ones.
pub(crate) async fn delete(call: &mut Call, write: Write<'_>) -> Result<(), Status> {
    let attributes = Attributes::new(call, write);
    let began = Instant::now();
    let mut outcome = admit_any(&attributes, None).await;
    attributes.count_step(Step::Admit, &outcome, began);
    if outcome.is_ok() {
        let began = Instant::now();
        outcome = validate_once(&attributes, None).await;
        attributes.count_step(Step::Validate, &outcome, began);
    }
    let findings = attributes.into_findings();
    findings.add_to(call);
    outcome
}

/// Runs webhooks and policies on a connection, whose object is its options. Options that they change are in force; returns
/// the path of a proxied request that has another one then.
pub(crate) async fn connect(call: &mut Call) -> Result<Option<String>, Status> {
    let subresource = call.at.subresource.clone();
    let mut object = request::connect_options(call, &subresource);
    let asked = call.backend.admission.may_change().then(|| object.clone());
    let attributes = Attributes::new(call, Write::connect(&subresource));
    let began = Instant::now();
    let mut outcome = admit_any(&attributes, Some(&mut object)).await;
    attributes.count_step(Step::Admit, &outcome, began);
    if outcome.is_ok() {
        let began = Instant::now();
        outcome = validate_any(&attributes, Some(&object)).await;
        attributes.count_step(Step::Validate, &outcome, began);
    }
    let findings = attributes.into_findings();
    findings.add_to(call);
    outcome?;
    match asked {
        Some(asked) if asked != object => Ok(request::set_connect_options(call, &subresource, &object)),
        _ => Ok(None),
    }
}

/// The mutating plugins that also run without an object to store: for deletions and connections.
async fn admit_any(attributes: &Attributes<'_>, mut object: Option<&mut Value>) -> Result<(), Status> {
    let mut laps = Laps::start();
    for (number, plugin) in attributes.plugins() {
        let outcome = match plugin.admit {
            Admit::Look(admit) => admit(attributes, object.as_deref()),
            Admit::Any(admit) => admit(attributes, object.as_deref_mut()).await,
            _ => continue,
        };
        attributes.count_plugin(number, Step::Admit, &outcome, &mut laps);
        outcome?;
    }
    Ok(())
}

/// The validating webhooks and policies alone.
async fn validate_any(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let mut laps = Laps::start();
    for (number, plugin) in attributes.plugins() {
        let Validate::Any(validate) = plugin.validate else { continue };
        let outcome = validate(attributes, object).await;
        attributes.count_plugin(number, Step::Validate, &outcome, &mut laps);
        outcome?;
    }
    Ok(())
}

async fn validate_once(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let mut laps = Laps::start();
    for (number, plugin) in attributes.plugins() {
        let outcome = match plugin.validate {
            Validate::Nothing => continue,
            Validate::Now(validate) => validate(attributes, object),
            Validate::Later(validate) | Validate::Any(validate) => validate(attributes, object).await,
        };
        attributes.count_plugin(number, Step::Validate, &outcome, &mut laps);
        outcome?;
    }
    Ok(())
}

/// Annotations of an audit event, by key.
pub(crate) type AuditAnnotations = BTreeMap<String, String>;

/// The results of admission beside its verdict.
struct Findings {
    warnings: Vec<String>,
    annotations: AuditAnnotations,
}

impl Findings {
    fn add_to(self, call: &mut Call) {
        call.warnings.extend(self.warnings);
        call.audit_annotations.extend(self.annotations);
    }
}

/// One write, as plugins get it.
struct Attributes<'a> {
    call: &'a Call,
    operation: Operation,
    subresource: &'a str,
    old: Option<&'a Value>,
    dry_run: bool,
    delete_options: Option<&'a DeleteOptions>,
    in_collection: bool,
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<AuditAnnotations>,
    reinvocation: Mutex<Reinvocation>,
    /// True once a webhook or a policy has changed the object.
    is_changed: AtomicBool,
}

impl<'a> Attributes<'a> {
    fn new(call: &'a Call, write: Write<'a>) -> Attributes<'a> {
        let Write { operation, subresource, old, dry_run, delete_options, in_collection } = write;
        Attributes {
            call,
            operation,
            subresource,
            old,
            dry_run,
            delete_options,
            in_collection,
            warnings: Mutex::default(),
            annotations: Mutex::default(),
            reinvocation: Mutex::default(),
            is_changed: AtomicBool::new(false),
        }
    }

    fn into_findings(self) -> Findings {
        Findings { warnings: self.warnings.into_inner(), annotations: self.annotations.into_inner() }
    }

    /// Adds an annotation to the request's audit event. As upstream, the first value of a key stays.
    fn annotate(&self, key: String, value: String) {
        self.annotations.lock().entry(key).or_insert(value);
    }

    fn backend(&self) -> &'a Backend {
        &self.call.backend
    }

    /// The enabled plugins that handle the operation, with their numbers.
    fn plugins(&self) -> impl Iterator<Item = (usize, &'static Plugin)> + use<'a> {
        let operation = self.operation;
        let all = self.backend().admission.plugins.iter().copied().enumerate();
        all.filter(move |(_, plugin)| plugin.handles(operation))
    }

    fn count_step<T, E>(&self, step: Step, outcome: &Result<T, E>, began: Instant) {
        self.backend().admission.metrics.step(step, self.operation, outcome.is_err(), began);
    }

    fn count_plugin<T, E>(&self, number: usize, step: Step, outcome: &Result<T, E>, laps: &mut Laps) {
        let metrics = &self.backend().admission.metrics;
        metrics.plugin(number, step, self.operation, outcome.is_err(), laps.lap());
    }

    /// Counts match conditions, unless all of them are true.
    fn count_conditions(&self, owner: ConditionOwner<'_>, matched: &Matched, took: Duration) {
        if matched.verdict == Match::Yes {
            return;
        }
        let is_excluded = owner.kind == "webhook" && matches!(matched.verdict, Match::No(_));
        let outcome = ConditionOutcome { errors: matched.errors, is_excluded, took };
        self.backend().admission.metrics.conditions(owner, self.operation, outcome);
    }

    /// Group and name of the resource.
    fn resource(&self) -> (&'a str, &'a str) {
        (self.call.served.group(), self.call.served.name())
    }

    /// True if this is a write of a resource's objects, not of a subresource.
    fn is_object(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.resource() == (group, resource)
    }

    fn creates(&self) -> bool {
        self.operation == Operation::Create
    }

    fn updates(&self) -> bool {
        self.operation == Operation::Update
    }

    /// Empty for cluster-scoped resources.
    fn namespace(&self) -> &'a str {
        &self.call.at.namespace
    }

    /// The name in the request; on creation only the object has it.
    fn name<'n>(&'n self, object: Option<&'n Value>) -> &'n str {
        match (self.call.at.name.as_str(), object) {
            ("", Some(object)) => meta::name(object),
            (name, _) => name,
        }
    }

    /// Adds a warning for the client.
    fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }

    /// The refusal of a plugin.
    fn forbidden(&self, object: Option<&Value>, why: impl std::fmt::Display) -> Status {
        let name = match (self.name(object), object.map(meta::generate_name)) {
            ("", Some(prefix)) if !prefix.is_empty() => prefix,
            ("", _) => "Unknown",
            (name, _) => name,
        };
        let (group, resource) = self.resource();
        Status::forbidden(group, resource, name, why)
    }
}
