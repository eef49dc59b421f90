//! `create` and `update`.
//!
//! Concurrency is optimistic: the new state is computed from the object as read, and committed only if that is still
//! current. A conflict is an error for a client that sent a resourceVersion; without one, the whole computation is repeated
//! on the newer state.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use corten_api::schema::{Struct, StructRef};
use corten_api::status::ErrorList;
use corten_api::{Status, Str, Value, encoded, json, managed, meta, time};
use corten_auth::Attributes;
use corten_store::{Error as StoreError, Expect};
use parking_lot::Mutex;

use super::commit::{Companions, is_companion_conflict, put_custom, put_with, remove};
use super::{list, prepare};
use crate::admission::{self, Write};
use crate::allocation;
use crate::authorization::{self, escalation, policy_params};
use crate::cache::Cache;
use crate::call::Call;
use crate::catalog::Served;
use crate::crd;
use crate::decode;
use crate::object::Object;
use crate::request::go_parse_error;
use crate::respond::{self, Answer};
use crate::write_options::WriteOptions;

/// The retries of a write after conflicts.
pub(super) const RACE_RETRIES: usize = 16;
/// The attempts to find an unused generated name.
const NAME_RETRIES: usize = 8;

/// An object as it was read: the base of a change, which is committed only if the object is unchanged.
pub(crate) struct Current {
    pub(crate) object: Arc<Object>,
    /// In the stored form; that of a custom resource in the version that the request names.
    pub(crate) tree: Value,
}

impl Current {
    /// The object that a request names, if it exists.
    pub(crate) async fn read(call: &Call, cache: &Cache) -> Result<Option<Current>, Status> {
        let Some(object) = cache.find_to_change(&call.at.namespace, &call.at.name)? else { return Ok(None) };
        Ok(Some(Current { tree: crd::to_served(call, object.tree()).await?, object }))
    }

    /// The tree in the version it is served in.
    pub(crate) fn live(&self, served: &Served) -> Result<Cow<'_, Value>, Status> {
        if served.is_stored_form || served.custom().is_some() {
            return Ok(Cow::Borrowed(&self.tree));
        }
        let mut tree = self.tree.clone();
        respond::to_served(served, &mut tree)?;
        Ok(Cow::Owned(tree))
    }
}

pub(crate) async fn create(call: &mut Call) -> Result<Answer, Status> {
    let WriteOptions { validation, dry_run } = WriteOptions::read(&call.query, "CreateOptions")?;
    let wanted = call.wanted()?;
    let decoded = decode::object(&call.headers, &call.body, call.expected(), validation)?;
    call.warnings.extend(decoded.warnings);
    let mut object = decoded.object?;
    call.default(&mut object);
    prepare::wipe_system_fields(&mut object);
    prepare::agree_on_namespace(call, &mut object)?;
    prepare::drop_duplicate_owners(call, &mut object, "");
    own_new(call, &mut object);
    let stored = create_object(call, object, dry_run, CreatedBy::Create).await?;
    respond::object(201, call, &stored, wanted).await
}

/// Requires the verb `create` for a request that was authorized as another.
pub(crate) fn may_create(call: &Call) -> Result<(), Status> {
    let at = &call.at;
    let asked = Attributes {
        namespace: &at.namespace,
        version: &at.version,
        subresource: &at.subresource,
        name: &at.name,
        ..Attributes::resource(&call.user, "create", &at.group, &at.resource)
    };
    authorization::require(&call.backend.authorizer, &asked)
}

/// The request that creates an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CreatedBy {
    Create,
    /// An update or a patch of an object that does not exist.
    Change,
}

/// Stores a new object, given in the served version with its managedFields, and returns its stored text.
///
/// A request that was not authorized as a create, such as an apply of an object that does not exist, is authorized here.
pub(super) async fn create_object(
    call: &mut Call,
    mut object: Value,
    dry_run: bool,
    by: CreatedBy,
) -> Result<Bytes, Status> {
    prepare::to_stored(call, &mut object)?;
    refuse_while_terminating(call, &object)?;
    refuse_version(&object, dry_run)?;
    let write = Write::create("", dry_run);
    admission::admit(call, write, &mut object).await?;
    refuse_version(&object, dry_run)?;
    prepare::agree_on_namespace(call, &mut object)?;
    prepare::drop_duplicate_owners(call, &mut object, prepare::AFTER_ADMISSION);
    let prefix =
        if meta::name(&object).is_empty() { meta::generate_name(&object).to_owned() } else { String::new() };
    let (mut attempts, mut redecided) = (0, false);
    loop {
        attempts += 1;
        // Only a generated name or an allocation can need a second attempt.
        let once = prefix.is_empty() && !allocation::concerns(call);
        let mut candidate = if once { std::mem::take(&mut object) } else { object.clone() };
        if !prefix.is_empty() {
            meta::set_text(&mut candidate, "name", &prepare::generated_name(&prefix));
        }
        escalation::check(call, &candidate, None)?;
        let mut companions = allocation::for_create(call, &mut candidate, dry_run).await?;
        let asked = meta::resource_version(&candidate).to_owned();
        prepare::for_create(call, &mut candidate)?;
        policy_params::check(call, &candidate, None)?;
        if admission::may_wait(call) {
            // No lock is held while webhooks are waited for; the commit fails if the allocation is taken meanwhile.
            companions.held.clear();
        }
        // Quota is charged once: a new allocation does not change it. Webhooks and policies see the new allocation.
        if redecided {
            admission::validate_again(call, write, &candidate).await?;
        } else {
            if by == CreatedBy::Change {
                may_create(call)?;
            }
            admission::validate(call, write, &candidate).await?;
        }
        let candidate = crd::to_stored(call, candidate).await?;
        let cache = list::cache(call)?.clone();
        let (namespace, name) = (meta::namespace(&candidate).to_owned(), meta::name(&candidate).to_owned());
        let key = cache.form.key(&namespace, &name);
        if dry_run {
            if cache.get(&namespace, &name).is_none() {
                let mut candidate = candidate;
                meta::set_text(&mut candidate, "resourceVersion", &asked);
                return Ok(unwritten(&cache, &candidate));
            }
        } else {
            let committed = match call.served.custom() {
                None => put_with(call, &cache, key, Expect::Absent, candidate, companions).await,
                Some(_) => match put_custom(call, &cache, key, candidate).await {
                    Some(committed) => committed,
                    None => return Err(not_accepted(call, &name)),
                },
            };
            match committed {
                Ok(entry) => return Ok(entry.value.clone()),
                Err(error) if is_companion_conflict(&error) && attempts < RACE_RETRIES => {
                    redecided = true;
                    continue;
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(store_failure(error)),
            }
        }
        let (group, resource) = (call.served.group(), call.served.name());
        if prefix.is_empty() {
            let mut exists = Status::already_exists(group, resource, &name);
            let existing = cache.get(&namespace, &name).and_then(|object| json::parse(&object.json).ok());
            if existing.is_some_and(|object| object.at(&["metadata", "deletionTimestamp"]).is_some()) {
                exists.message = format!("object is being deleted: {}", exists.message);
            }
            return Err(exists);
        }
        if attempts >= NAME_RETRIES {
            return Err(Status::generated_name_taken(group, resource, &name));
        }
    }
}

/// Refuses a new object with a resourceVersion. One that is not a number, or zero, is ignored. Dry runs do not reach the
/// storage.
fn refuse_version(object: &Value, dry_run: bool) -> Result<(), Status> {
    if !dry_run && meta::resource_version(object).parse().is_ok_and(|revision: u64| revision != 0) {
        return Err(Status::unexplained("resourceVersion should not be set on objects to be created"));
    }
    Ok(())
}

/// Refuses new objects of a custom resource whose definition is being deleted.
fn refuse_while_terminating(call: &Call, object: &Value) -> Result<(), Status> {
    let (group, resource) = (call.served.group(), call.served.name());
    if call.served.custom().is_none() || !call.backend.catalog.definitions.is_terminating(group, resource) {
        return Ok(());
    }
    Err(terminating(call, meta::name(object)))
}

/// The error of a new custom resource whose definition was deleted while the request was served.
fn not_accepted(call: &Call, name: &str) -> Status {
    let (group, resource) = (call.served.group(), call.served.name());
    match call.backend.catalog.definitions.is_terminating(group, resource) {
        true => terminating(call, name),
        false => Status::unknown_path(),
    }
}

fn terminating(call: &Call, name: &str) -> Status {
    let why = "create not allowed while custom resource definition is terminating";
    Status::forbidden(call.served.group(), call.served.name(), name, why)
}

pub(crate) async fn update(call: &mut Call, subresource: &str) -> Result<Answer, Status> {
    let WriteOptions { validation, dry_run } = WriteOptions::read(&call.query, "UpdateOptions")?;
    let wanted = call.wanted()?;
    let decoded = decode::object(&call.headers, &call.body, call.expected(), validation)?;
    call.warnings.extend(decoded.warnings);
    let mut object = decoded.object?;
    call.default(&mut object);
    prepare::agree_on_namespace(call, &mut object)?;
    prepare::drop_duplicate_owners(call, &mut object, "");
    prepare::agree_on_name(call, &mut object)?;
    let cache = list::cache(call)?.clone();
    let asked = meta::resource_version(&object).to_owned();
    for _ in 0..RACE_RETRIES {
        let Some(current) = Current::read(call, &cache).await? else {
            if subresource.is_empty() && call.served.rules.create_on_update {
                meta::set_text(&mut object, "resourceVersion", "");
                own_new(call, &mut object);
                let stored = create_object(call, object, dry_run, CreatedBy::Change).await?;
                return respond::object(201, call, &stored, wanted).await;
            }
            return Err(call.not_found());
        };
        check_preconditions(call, &object, &current, &asked)?;
        if matches!(asked.as_str(), "" | "0")
            && !call.served.rules.allows_unconditional_update(&call.at.version)
        {
            let mut errors = ErrorList::new();
            errors.invalid("metadata.resourceVersion", &Value::Int(0), "must be specified for an update");
            return Err(Status::invalid(call.served.group(), call.served.name(), &call.at.name, &errors));
        }
        let mut new = if asked.is_empty() { object.clone() } else { std::mem::take(&mut object) };
        if asked.is_empty() {
            meta::set_text(&mut new, "resourceVersion", &current.object.revision.to_string());
        }
        own_changes(call, subresource, &current, &mut new).await?;
        match replace(call, subresource, &cache, &current, new, dry_run).await? {
            Some(stored) => return respond::object(200, call, &stored, wanted).await,
            None if asked.is_empty() => {}
            None => return Err(call.stale()),
        }
    }
    Err(call.stale())
}

/// Checks the update's uid and resourceVersion against the current object, if the update has them.
fn check_preconditions(call: &Call, object: &Value, current: &Current, asked: &str) -> Result<(), Status> {
    let uid = meta::uid(object);
    if !uid.is_empty() {
        let found = meta::uid(&current.tree);
        if uid != found {
            return Err(call.wrong_uid(&current.object.key, uid, found));
        }
    }
    if !asked.is_empty() && asked != "0" {
        check_revision(call, current, asked)?;
    }
    Ok(())
}

/// Checks a resourceVersion against the current object.
pub(super) fn check_revision(call: &Call, current: &Current, asked: &str) -> Result<(), Status> {
    asked.parse::<u64>().map_err(|e| Status::unexplained(go_parse_error("ParseUint", asked, &e)))?;
    if asked == current.object.revision.to_string() { Ok(()) } else { Err(call.stale()) }
}

/// Replaces `current` by a new state, given in the served version with its managedFields. Returns the stored text, or
/// `None` after a conflict.
pub(crate) async fn replace(
    call: &mut Call,
    subresource: &str,
    cache: &Arc<Cache>,
    current: &Current,
    mut new: Value,
    dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    prepare::to_stored(call, &mut new)?;
    let write = Write::update(subresource, &current.tree, dry_run);
    admission::admit(call, write, &mut new).await?;
    prepare::agree_on_namespace(call, &mut new)?;
    prepare::drop_duplicate_owners(call, &mut new, prepare::AFTER_ADMISSION);
    escalation::check(call, &new, Some(&current.tree))?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut candidate = if allocation::concerns(call) { new.clone() } else { std::mem::take(&mut new) };
        let mut companions =
            allocation::for_update(call, subresource, &mut candidate, &current.tree, dry_run).await?;
        prepare::for_update(call, subresource, &mut candidate, &current.tree)?;
        policy_params::check(call, &candidate, Some(&current.tree))?;
        if admission::may_wait(call) {
            companions.held.clear();
        }
        if attempts == 1 {
            admission::validate(call, write, &candidate).await?;
        } else {
            admission::validate_again(call, write, &candidate).await?;
        }
        match replace_stored(call, cache, current, candidate, companions, dry_run).await? {
            Replaced::Stored(stored) => return Ok(Some(stored)),
            Replaced::Overtaken => return Ok(None),
            Replaced::Undecided if attempts < RACE_RETRIES => {}
            Replaced::Undecided => return Err(call.stale()),
        }
    }
}

/// The outcome of writing a new state.
pub(super) enum Replaced {
    /// Stored, with its text.
    Stored(Bytes),
    /// The object has changed since it was read.
    Overtaken,
    /// A companion of the write has changed since the allocation was decided.
    Undecided,
}

/// `replace` with a new state that is already prepared.
pub(super) async fn replace_stored(
    call: &mut Call,
    cache: &Arc<Cache>,
    current: &Current,
    mut new: Value,
    companions: Companions,
    dry_run: bool,
) -> Result<Replaced, Status> {
    let (object, old) = (&current.object, &current.tree);
    managed::keep_times(old, &mut new);
    meta::set_text(&mut new, "resourceVersion", meta::resource_version(old));
    if !dry_run {
        // No object is stored with one; upstream removes it only then.
        meta::of(&mut new).remove("selfLink");
    }
    if let (Some(map), None) = (new.as_object_mut(), call.served.custom()) {
        map.insert("kind", &cache.form.kind);
        map.insert("apiVersion", cache.form.api_version.as_str());
    }
    if new == *old && !object.is_stale && !object.is_foreign && !is_stored_otherwise(call, object).await? {
        return Ok(Replaced::Stored(object.json.clone()));
    }
    let new = crd::to_stored(call, new).await?;
    if dry_run {
        return Ok(Replaced::Stored(unwritten(cache, &new)));
    }
    let expect = Expect::ModRevision(object.revision);
    let outcome = if is_finished(call, &new) {
        // The last finalizer is gone: this update deletes the object.
        drop(companions);
        let removed = remove(call, object).await;
        removed.map(|()| without_revision_at(cache, &new, object.revision))
    } else {
        let written = put_with(call, cache, object.key.clone(), expect, new, companions).await;
        written.map(|entry| entry.value.clone())
    };
    match outcome {
        Ok(stored) => Ok(Replaced::Stored(stored)),
        Err(error) if is_companion_conflict(&error) => Ok(Replaced::Undecided),
        Err(StoreError::Conflict { current: None, .. }) => Err(call.not_found()),
        Err(StoreError::Conflict { .. }) => Ok(Replaced::Overtaken),
        Err(error) => Err(store_failure(error)),
    }
}

/// True if an unchanged object is written nevertheless, because the store has it in another form than a write would give it:
/// sealed with an earlier key, for instance.
async fn is_stored_otherwise(call: &Call, object: &Object) -> Result<bool, Status> {
    call.backend.store.is_stale(&object.key).await.map_err(store_failure)
}

/// `replace` for a new number of replicas: the object's spec and managedFields, changed through its `scale`, which has
/// already been admitted.
pub(crate) async fn replace_scaled(
    call: &mut Call,
    cache: &Arc<Cache>,
    current: &Current,
    mut new: Value,
    dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    prepare::for_update(call, "", &mut new, &current.tree)?;
    match replace_stored(call, cache, current, new, Companions::default(), dry_run).await? {
        Replaced::Stored(stored) => Ok(Some(stored)),
        Replaced::Overtaken | Replaced::Undecided => Ok(None),
    }
}

/// True if an object is being deleted and has no finalizer left.
fn is_finished(call: &Call, object: &Value) -> bool {
    let grace = object.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let held = meta::finalizers(object).next().is_some()
        || (call.served.is_namespaces() && !object.items_at(&["spec", "finalizers"]).is_empty());
    meta::is_deleting(object) && grace == 0 && !held
}

/// The text of an object that was not written.
pub(super) fn unwritten(cache: &Cache, object: &Value) -> Bytes {
    let text = encoded::encode(object, &cache.form.kind, &cache.form.api_version);
    let revision = meta::resource_version(object);
    let mut bytes = text.bytes;
    if revision.is_empty() {
        // An object that was not written has no resourceVersion, not an empty one.
        let start = text.revision_at - "\"resourceVersion\":\"".len();
        let comma = usize::from(bytes[start - 1] == b',');
        bytes.drain(start - comma..=text.revision_at);
        return bytes.into();
    }
    bytes.splice(text.revision_at..text.revision_at, revision.bytes());
    bytes.into()
}

fn without_revision_at(cache: &Cache, object: &Value, revision: u64) -> Bytes {
    let mut object = object.clone();
    meta::set_text(&mut object, "resourceVersion", &revision.to_string());
    unwritten(cache, &object)
}

/// The status of an error of the store.
pub(crate) fn store_failure(error: StoreError) -> Status {
    match error {
        StoreError::NoSpace(_) => Status::unexplained("etcdserver: mvcc: database space exceeded"),
        // As upstream, with etcd's own words.
        StoreError::Etcd(_) => Status::unexplained(error.to_string()),
        StoreError::Seal { source, .. } => Status::internal(source.to_string()),
        error => {
            tracing::error!(err = &error as &dyn std::error::Error, "cannot write to the store");
            Status::internal(error)
        }
    }
}

/// The request data that field management needs, owned.
///
/// Field management is pure, but owners of another version of a custom resource are compared in that version, and a
/// webhook may have to convert to it. So a comparison that lacks a conversion fails and leaves it pending; the caller has
/// it made by [`Ownership::convert_pending`] and compares again, until nothing is pending.
pub(crate) struct Ownership {
    manager: Str,
    now: Str,
    filter: Option<managed::Filter>,
    subresource: String,
    converter: Option<Arc<crd::Converter>>,
    conversions: Mutex<Conversions>,
}

/// The conversions that a comparison of field owners needs from a webhook.
#[derive(Default)]
struct Conversions {
    made: Vec<Conversion>,
    /// An object, and the version to convert it to.
    pending: Option<(Value, String)>,
}

/// A conversion that was made, or failed.
struct Conversion {
    from: Value,
    to: String,
    result: Result<Value, String>,
}

/// The versions of a custom resource.
impl managed::Versions for Ownership {
    fn schema(&self, api_version: &str) -> Option<StructRef> {
        let version = self.converter.as_ref()?.version(api_version)?;
        Some(version.compiled().typed().clone())
    }

    fn convert(&self, object: &mut Value, to: &str) -> Result<(), String> {
        if self.converter.as_ref().and_then(|converter| converter.convert_in_place(object, to)).is_some() {
            return Ok(());
        }
        let mut conversions = self.conversions.lock();
        if let Some(made) = conversions.made.iter().find(|made| made.to == to && made.from == *object) {
            *object = made.result.clone()?;
            return Ok(());
        }
        conversions.pending = Some((object.clone(), to.to_owned()));
        Err(format!("the conversion to {to} is pending"))
    }
}

impl Ownership {
    pub(crate) fn of(call: &Call, subresource: &str) -> Ownership {
        Ownership {
            manager: call.manager(),
            now: time::format(call.now),
            filter: prepare::ownership_filter(call, subresource),
            subresource: subresource.to_owned(),
            converter: call.served.converter.clone(),
            conversions: Mutex::default(),
        }
    }

    fn converts_by_webhook(&self) -> bool {
        self.converter.as_ref().is_some_and(|converter| converter.has_webhook())
    }

    /// Makes the conversion that the last comparison lacked. Returns false if it lacked none.
    pub(super) async fn convert_pending(&self, call: &Call) -> bool {
        let Some(converter) = &self.converter else { return false };
        let Some((from, to)) = self.conversions.lock().pending.take() else { return false };
        let converted = converter.convert(&call.backend, vec![from.clone()], &to).await;
        let result = converted.map_err(|status| status.message).and_then(|objects| {
            objects.into_iter().next().ok_or_else(|| "the webhook returned no object".to_owned())
        });
        self.conversions.lock().made.push(Conversion { from, to, result });
        true
    }

    pub(crate) fn context<'a>(&'a self, call: &'a Call) -> managed::Context<'a> {
        let context = self.context_for(call.schema(), &call.served.api_version);
        managed::Context { versions: call.served.custom().map(|_| self as &dyn managed::Versions), ..context }
    }

    /// For a body of another type than the resource's own.
    pub(super) fn context_for<'a>(
        &'a self,
        schema: &'a Struct,
        api_version: &'a str,
    ) -> managed::Context<'a> {
        managed::Context {
            schema,
            api_version,
            manager: &self.manager,
            subresource: &self.subresource,
            now: &self.now,
            filter: self.filter.as_ref(),
            versions: None,
        }
    }
}

/// Records the request's manager as the owner of all fields of a new object.
pub(crate) fn own_new(call: &Call, new: &mut Value) {
    managed::update(&Ownership::of(call, "").context(call), None, new);
}

/// Records the request's manager as the owner of the fields that it changes.
async fn own_changes(
    call: &Call,
    subresource: &str,
    current: &Current,
    new: &mut Value,
) -> Result<(), Status> {
    let owner = Ownership::of(call, subresource);
    let live = current.live(&call.served)?;
    loop {
        let sent = owner.converts_by_webhook().then(|| new.clone());
        managed::update(&owner.context(call), Some(&live), new);
        match sent {
            Some(sent) if owner.convert_pending(call).await => *new = sent,
            _ => return Ok(()),
        }
    }
}
