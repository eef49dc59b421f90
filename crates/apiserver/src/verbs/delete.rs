//! `delete` and `deletecollection`.
//!
//! An object is removed at once unless it has a grace period (pods), finalizers, or a propagation policy that the garbage
//! collector must carry out first. Then it gets a deletionTimestamp, and the update that removes the last finalizer removes
//! the object.

use std::sync::Arc;

use corten_api::conform::{Extent, conform};
use corten_api::status::{self, Details, ErrorList};
use corten_api::{Status, Value, json, meta, protobuf, schema, time, yaml};
use corten_registry::{GarbageCollection, Grace};
use corten_store::{Error as StoreError, Expect};

use super::write::RACE_RETRIES;
use super::{commit, delete_unreadable, list, write};
use crate::admission::{self, Write};
use crate::call::{self, Call};
use crate::crd;
use crate::decode;
use crate::negotiate::{self, Format};
use crate::object::Object;
use crate::request::Query;
use crate::respond::{self, Answer};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

pub(super) const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The delete options of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct DeleteOptions {
    grace: Option<i64>,
    propagation: Option<String>,
    orphan_dependents: Option<bool>,
    uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(crate) dry_run: bool,
    /// Requests the deletion of an object that cannot be read from the storage.
    pub(super) ignore_read_error: bool,
}

impl DeleteOptions {
    /// From the body if there is one, else from the query. With a body, upstream ignores the query, and removes the object of a
    /// request that asks for a dry run there; here a dry run is asked for in either place, because the caller expects that
    /// nothing is lost.
    pub(crate) fn read(call: &Call) -> Result<DeleteOptions, Status> {
        let options =
            if call.body.is_empty() { Self::from_query(&call.query)? } else { Self::from_body(call)? };
        options.validate()?;
        Ok(options)
    }

    fn from_query(query: &Query) -> Result<DeleteOptions, Status> {
        let text = |name: &str| Some(query.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(DeleteOptions {
            grace: query.int("gracePeriodSeconds")?,
            propagation: query.get("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
            dry_run: call::dry_run(query.all("dryRun"), "DeleteOptions")?,
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ignore_read_error: query.flag(IGNORE_READ_ERROR),
        })
    }

    fn from_body(call: &Call) -> Result<DeleteOptions, Status> {
        let schema =
            schema::lookup("meta/v1", "DeleteOptions").ok_or_else(|| Status::internal("no DeleteOptions"))?;
        let unreadable = |e: &dyn std::fmt::Display| Status::bad_request(e.to_string());
        let no_kind = |e: &dyn std::fmt::Display| {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {e}"))
        };
        let mut tree = match negotiate::body_format(&call.headers)? {
            Format::Json => json::parse_literally(&call.body, &mut Vec::new()).map_err(|e| match e {
                json::ParseError::NumberRange(_) => unreadable(&e),
                e => no_kind(&e),
            })?,
            Format::Yaml => yaml::to_value(&call.body, &mut Vec::new()).map_err(|e| no_kind(&e))?,
            Format::Protobuf => {
                let envelope = protobuf::decode_envelope(&call.body).map_err(|e| unreadable(&e))?;
                protobuf::decode(&schema, envelope.raw).map_err(|e| unreadable(&e))?
            }
        };
        if !matches!(tree, Value::Object(_) | Value::Null) {
            return Err(no_kind(&decode::not_an_object(&tree)));
        }
        let kind = meta::kind(&tree).to_owned();
        if !matches!(kind.as_str(), "" | "DeleteOptions") {
            let api_version = match meta::api_version(&tree) {
                "" => "meta.k8s.io/v1",
                given => given,
            };
            return Err(Status::bad_request(decode::unregistered(&kind, api_version)));
        }
        conform(&mut tree, &schema, Extent::Whole, &mut Vec::new()).map_err(|e| unreadable(&e))?;
        let mut options = Self::read_tree(&tree)?;
        options.dry_run |= call.dry_run("DeleteOptions")?;
        Ok(options)
    }

    /// Default options.
    pub(super) fn plain(dry_run: bool) -> DeleteOptions {
        DeleteOptions { dry_run, ..DeleteOptions::default() }
    }

    /// From the tree of a body or of a field in another object, not yet validated.
    pub(super) fn read_tree(tree: &Value) -> Result<DeleteOptions, Status> {
        let text = |path: &[&str]| tree.str_at(path).map(str::to_owned);
        let dry_run = tree.items_at(&["dryRun"]).iter().filter_map(Value::as_str);
        Ok(DeleteOptions {
            grace: tree.int_at(&["gracePeriodSeconds"]),
            propagation: text(&["propagationPolicy"]),
            orphan_dependents: tree.bool_at(&["orphanDependents"]),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            dry_run: call::dry_run(dry_run, "DeleteOptions")?,
            ignore_read_error: tree.bool_at(&[IGNORE_READ_ERROR]) == Some(true),
        })
    }

    /// The `DeleteOptions` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut tree = Value::object();
        tree.set(&["kind"], "DeleteOptions");
        tree.set(&["apiVersion"], "meta.k8s.io/v1");
        let texts = [
            (&["propagationPolicy"] as &[&str], &self.propagation),
            (&["preconditions", "uid"], &self.uid),
            (&["preconditions", "resourceVersion"], &self.resource_version),
        ];
        for (path, text) in texts {
            if let Some(text) = text {
                tree.set(path, text.as_str());
            }
        }
        if let Some(seconds) = self.grace {
            tree.set(&["gracePeriodSeconds"], seconds);
        }
        if let Some(orphan) = self.orphan_dependents {
            tree.set(&["orphanDependents"], orphan);
        }
        if self.dry_run {
            tree.set(&["dryRun"], vec![Value::from("All")]);
        }
        if self.ignore_read_error {
            tree.set(&[IGNORE_READ_ERROR], true);
        }
        tree
    }

    pub(super) fn validate(&self) -> Result<(), Status> {
        let mut errors = ErrorList::new();
        if self.orphan_dependents.is_some() && self.propagation.is_some() {
            errors.invalid(
                "propagationPolicy",
                &Value::from(self.propagation.as_deref().unwrap_or_default()),
                "orphanDependents and deletionPropagation cannot be both set",
            );
        }
        if let Some(policy) = &self.propagation
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            errors.not_supported(
                "propagationPolicy",
                &Value::from(policy.as_str()),
                &["Foreground", "Background", "Orphan", "nil"],
            );
        }
        let others = [
            (self.propagation.is_some(), "propagationPolicy"),
            (self.orphan_dependents.is_some(), "orphanDependents"),
            (self.grace.is_some(), "gracePeriodSeconds"),
            (self.uid.is_some() || self.resource_version.is_some(), "preconditions"),
        ];
        for (is_set, other) in others.into_iter().filter(|_| self.ignore_read_error) {
            if is_set {
                let why = format!("cannot be set together with .{other}");
                errors.invalid(IGNORE_READ_ERROR, &Value::from(true), why);
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }

    /// Checks the preconditions against the object.
    pub(super) fn check(&self, call: &Call, object: &Value) -> Result<(), Status> {
        let refuse = |why: String| {
            Err(Status::conflict(call.served.group(), call.served.kind(), meta::name(object), why))
        };
        // Upstream checks kinds that are deleted in two steps elsewhere, with another message.
        if matches!(call.served.kind(), "Namespace" | "CustomResourceDefinition")
            && let Some(uid) = &self.uid
            && uid != meta::uid(object)
        {
            let found = meta::uid(object);
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(Status::conflict(call.served.group(), call.served.name(), meta::name(object), why));
        }
        match &self.uid {
            Some(uid) if uid != meta::uid(object) => {
                return refuse(format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                    meta::uid(object)
                ));
            }
            _ => {}
        }
        match &self.resource_version {
            Some(version) if version != meta::resource_version(object) => refuse(format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                meta::resource_version(object)
            )),
            _ => Ok(()),
        }
    }
}

/// The effect of a deletion on one object.
#[derive(Debug, PartialEq)]
enum Effect {
    /// It is removed now.
    Remove,
    /// It is removed now, after watchers have seen its deletionTimestamp.
    MarkAndRemove(Value),
    /// It gets a deletionTimestamp and stays until its grace period or finalizers have ended.
    Hold(Value),
    /// It has a deletionTimestamp already; nothing changes.
    Pending,
}

/// Decides the effect of a deletion. Pure.
fn effect(call: &Call, object: &Value, options: &DeleteOptions) -> Effect {
    if call.served.is_namespaces() {
        return namespace_effect(call, object, options);
    }
    if call.served.group() == crd::GROUP && call.served.name() == crd::RESOURCE && !meta::is_deleting(object)
    {
        let mut marked = object.clone();
        crd::mark_deleted(&mut marked, &time::format(call.now));
        return Effect::Hold(marked);
    }
    let rules = call.served.rules;
    let mut new = object.clone();
    let finalizers = wanted_finalizers(object, options, rules.garbage_collection);
    let already = meta::is_deleting(object);
    let pending_grace = object.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let requested = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let graceful = rules.grace.seconds(object, requested);
    let mut grace = graceful.unwrap_or(0);
    if graceful.is_some() && already && pending_grace > 0 {
        // A running grace period can only be shortened.
        match requested {
            Some(asked) if asked < pending_grace => grace = asked,
            _ => return Effect::Pending,
        }
    }
    mark(&mut new, &finalizers, call, grace, pending_grace);
    if grace == 0 && finalizers.is_empty() {
        return if graceful.is_some() && new != *object {
            Effect::MarkAndRemove(new)
        } else {
            Effect::Remove
        };
    }
    if new == *object { Effect::Pending } else { Effect::Hold(new) }
}

/// A namespace first gets a deletionTimestamp, and is removed once its content and its finalizers are gone.
fn namespace_effect(call: &Call, object: &Value, options: &DeleteOptions) -> Effect {
    if !meta::is_deleting(object) {
        let mut new = object.clone();
        let finalizers = wanted_finalizers(object, options, call.served.rules.garbage_collection);
        if !finalizers.is_empty() {
            meta::of(&mut new).insert("finalizers", finalizers);
        }
        new.set(&["metadata", "deletionTimestamp"], time::format(call.now));
        new.set(&["status", "phase"], "Terminating");
        return Effect::Hold(new);
    }
    let held =
        !object.items_at(&["spec", "finalizers"]).is_empty() || meta::finalizers(object).next().is_some();
    if held { Effect::Pending } else { Effect::Remove }
}

/// Sets the deletion time, grace period and finalizers.
fn mark(new: &mut Value, finalizers: &[Value], call: &Call, grace: i64, pending_grace: i64) {
    // A definition gets its grace period with the second deletion.
    let already = new.at(&["metadata", "deletionGracePeriodSeconds"]).is_some();
    let dated = meta::is_deleting(new);
    let generation = meta::generation(new);
    let metadata = meta::of(new);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", finalizers.to_vec());
    }
    if already && pending_grace == grace {
        return;
    }
    let at = call.now.saturating_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(call.now);
    if !dated || call.served.rules.grace == Grace::Pod {
        metadata.insert("deletionTimestamp", time::format(at));
    }
    if !already || call.served.rules.grace == Grace::Pod {
        metadata.insert("deletionGracePeriodSeconds", grace);
    }
    if !already && generation > 0 {
        metadata.insert("generation", generation + 1);
    }
}

/// The finalizers of an object, including the one of the propagation policy.
fn wanted_finalizers(object: &Value, options: &DeleteOptions, default: GarbageCollection) -> Vec<Value> {
    let has = |name: &str| meta::finalizers(object).any(|f| f == name);
    let policy = match (options.orphan_dependents, options.propagation.as_deref()) {
        _ if default == GarbageCollection::Unsupported => None,
        (Some(true), _) | (None, Some("Orphan")) => Some(ORPHAN),
        (Some(false), _) | (None, Some("Background")) => None,
        (None, Some("Foreground")) => Some(FOREGROUND),
        _ if has(ORPHAN) => Some(ORPHAN),
        _ if has(FOREGROUND) => Some(FOREGROUND),
        _ if default == GarbageCollection::Orphan => Some(ORPHAN),
        _ => None,
    };
    let kept = meta::finalizers(object).filter(|f| !matches!(*f, ORPHAN | FOREGROUND));
    kept.chain(policy).map(Value::from).collect()
}

pub(crate) async fn delete(call: &mut Call) -> Result<Answer, Status> {
    let options = DeleteOptions::read(call)?;
    let wanted = call.wanted()?;
    if options.ignore_read_error {
        return delete_unreadable::delete(call, options.dry_run, wanted).await;
    }
    warn_of_orphans(call, &options);
    let (outcome, current) = delete_named(call, &options, Admitted::Named).await?;
    match outcome {
        Outcome::Kept(text) => {
            // Accepted: the caller asked for cascading deletion in the old way, and it is not done yet.
            let code = if options.orphan_dependents == Some(false) { 202 } else { 200 };
            respond::object(code, call, &text, wanted).await
        }
        Outcome::Removed(text) if call.served.rules.returns_deleted(&call.at.version) => {
            respond::object(200, call, &text, wanted).await
        }
        Outcome::Removed(_) => {
            let details = Details {
                group: call.served.group().to_owned(),
                kind: call.served.name().to_owned(),
                name: call.at.name.to_string(),
                uid: meta::uid(&current.tree()).to_owned(),
                ..Details::default()
            };
            Ok(respond::tree(200, &status::success(Some(details)), wanted))
        }
    }
}

/// Deletes the object that a request names. Returns the outcome and the object.
pub(super) async fn delete_named(
    call: &mut Call,
    options: &DeleteOptions,
    admitted: Admitted,
) -> Result<(Outcome, Arc<Object>), Status> {
    let cache = list::cache(call)?.clone();
    for _ in 0..RACE_RETRIES {
        let current = cache.find(&call.at.namespace, &call.at.name)?.ok_or_else(|| call.not_found())?;
        if let Some(outcome) = delete_object(call, &cache, &current, options, admitted).await? {
            return Ok((outcome, current));
        }
    }
    Err(call.stale())
}

/// Warns that deleting a Job orphans its pods by default, which is unexpected.
fn warn_of_orphans(call: &mut Call, options: &DeleteOptions) {
    let unsaid = options.propagation.is_none() && options.orphan_dependents.is_none();
    if unsaid
        && call.served.group() == "batch"
        && call.served.rules.garbage_collection == GarbageCollection::Orphan
    {
        call.warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning"
                .to_owned(),
        );
    }
}

pub(super) enum Outcome {
    Kept(bytes::Bytes),
    Removed(bytes::Bytes),
}

/// The admission of a deletion.
#[derive(Clone, Copy)]
pub(super) enum Admitted {
    /// As the deletion of one object.
    Named,
    /// As one of a collection.
    InCollection,
    /// It was admitted before, as an eviction.
    Before,
}

/// Deletes one object as it was read; `None` if it has changed since.
async fn delete_object(
    call: &mut Call,
    cache: &crate::cache::Cache,
    current: &Object,
    options: &DeleteOptions,
    admitted: Admitted,
) -> Result<Option<Outcome>, Status> {
    let object = current.tree();
    options.check(call, &object)?;
    let shown = crd::to_served(call, object.clone()).await?;
    match admitted {
        Admitted::Named => admission::delete(call, Write::delete(&shown, options, false)).await?,
        Admitted::InCollection => admission::delete(call, Write::delete(&shown, options, true)).await?,
        Admitted::Before => {}
    }
    let object = crd::to_stored(call, object).await?;
    match effect(call, &object, options) {
        Effect::Pending => Ok(Some(Outcome::Kept(current.json.clone()))),
        Effect::Remove if options.dry_run => Ok(Some(Outcome::Removed(current.json.clone()))),
        Effect::MarkAndRemove(marked) if options.dry_run => {
            Ok(Some(Outcome::Removed(write::unwritten(cache, &marked))))
        }
        Effect::Hold(marked) if options.dry_run => Ok(Some(Outcome::Kept(write::unwritten(cache, &marked)))),
        Effect::Remove => match commit::remove(call, current).await {
            Ok(()) => Ok(Some(Outcome::Removed(current.json.clone()))),
            Err(StoreError::Conflict { current: None, .. }) => Err(call.not_found()),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(write::store_failure(error)),
        },
        Effect::MarkAndRemove(marked) => match commit::mark_and_remove(call, cache, current, marked).await {
            Ok(last) => Ok(Some(Outcome::Removed(last.value.clone()))),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(write::store_failure(error)),
        },
        Effect::Hold(marked) => {
            let expect = Expect::ModRevision(current.revision);
            match commit::put(call, cache, current.key.clone(), expect, marked).await {
                Ok(entry) => Ok(Some(Outcome::Kept(entry.value.clone()))),
                Err(StoreError::Conflict { .. }) => Ok(None),
                Err(error) => Err(write::store_failure(error)),
            }
        }
    }
}

/// Deletes all objects that a list with the same parameters contains.
pub(crate) async fn delete_collection(call: &mut Call) -> Result<Answer, Status> {
    let options = DeleteOptions::read(call)?;
    if options.ignore_read_error {
        let mut errors = ErrorList::new();
        let why = "is not allowed with DELETECOLLECTION, try again after removing the option";
        errors.invalid(IGNORE_READ_ERROR, &Value::from(true), why);
        return Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
    }
    let wanted = call.wanted_list()?;
    let cache = list::cache(call)?.clone();
    let (mut targets, list_meta) = list::select(call).await?;
    warn_of_orphans(call, &options);
    for target in &targets {
        // A dry run waits for nothing else.
        tokio::task::yield_now().await;
        call.at.name = target.name.clone();
        call.at.namespace = target.namespace.clone();
        let mut current = Some(target.clone());
        while let Some(object) = current {
            match delete_object(call, &cache, &object, &options, Admitted::InCollection).await {
                Ok(Some(_)) => break,
                Ok(None) => current = cache.get(&target.namespace, &target.name),
                Err(gone) if gone.code == 404 => break,
                Err(status) => return Err(status),
            }
        }
    }
    let (served, query) = (call.served.clone(), call.table_query()?);
    if served.converter.is_some() && !served.sends_stored_text() {
        targets = crd::convert_all(&call.backend, &served, targets).await?;
    }
    if !list::is_large(&targets) || respond::is_sent_as_kept(&served, wanted, None) {
        return respond::list(&served, targets, &list_meta, wanted, &query, None);
    }
    if let Some(answer) = respond::rendered_list(&served, &targets, &list_meta, wanted, &query, None) {
        return Ok(answer);
    }
    // Not in line with large requests: this one may have a place there already.
    let respond = move || respond::list(&served, targets, &list_meta, wanted, &query, None);
    tokio::task::spawn_blocking(respond).await.map_err(Status::internal)?
}
