//! `create` and `update`.
//!
//! Optimistic everywhere: the new state is computed from what was read and committed only if that is still
//! the current state. A client that named a resourceVersion hears of the conflict; for one that did not the
//! whole computation is repeated on the newer state.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use corten_api::schema::Struct;
use corten_api::status::ErrorList;
use corten_api::{Status, Str, Value, encoded, managed, meta, time};
use corten_store::{Error as StoreError, Expect};

use super::commit::{Companions, is_companion_conflict, put_with, remove};
use super::{list, prepare};
use crate::admission::{self, Write};
use crate::allocation;
use crate::authorization::escalation;
use crate::cache::Cache;
use crate::call::Call;
use crate::catalog::Served;
use crate::decode;
use crate::object::Object;
use crate::options::WriteOptions;
use crate::request::go_parse_error;
use crate::respond::{self, Answer};

/// How often a write that lost a race is tried again.
pub(super) const RACE_RETRIES: usize = 16;
/// How often a generated name is drawn anew.
const NAME_RETRIES: usize = 8;

/// An object as it was read: what a change starts from and must not find replaced.
pub(crate) struct Current {
    pub(crate) object: Arc<Object>,
    /// In the stored form.
    pub(crate) tree: Value,
}

impl Current {
    /// The object a request is about, if there is one.
    pub(crate) fn read(call: &Call, cache: &Cache) -> Option<Current> {
        let object = cache.get(&call.at.namespace, &call.at.name)?;
        Some(Current { tree: object.tree(), object })
    }

    /// The tree in the version it is served in.
    pub(crate) fn live(&self, served: &Served) -> Result<Cow<'_, Value>, Status> {
        if served.is_stored_form {
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
    let mut object = decoded.object;
    call.default(&mut object);
    prepare::agree_on_namespace(call, &mut object)?;
    prepare::drop_doubled_owners(call, &mut object, "");
    own_changes(call, "", None, &mut object);
    let stored = create_object(call, object, dry_run).await?;
    respond::object(201, &call.served, &stored, wanted, &call.table_query()?)
}

/// Stores a new object given in the served version with its owners; its stored text comes back.
pub(super) async fn create_object(
    call: &mut Call,
    mut object: Value,
    dry_run: bool,
) -> Result<Bytes, Status> {
    prepare::to_stored(call, &mut object)?;
    // What is no revision says nothing, and neither does zero.
    if meta::resource_version(&object).parse().is_ok_and(|revision: u64| revision != 0) {
        return Err(Status::unexplained("resourceVersion should not be set on objects to be created"));
    }
    let prefix =
        if meta::name(&object).is_empty() { meta::generate_name(&object).to_owned() } else { String::new() };
    let (mut attempts, mut redecided) = (0, false);
    loop {
        attempts += 1;
        // Only a generated name, or something given out, can need a second try.
        let once = prefix.is_empty() && !allocation::concerns(call);
        let mut candidate = if once { std::mem::take(&mut object) } else { object.clone() };
        let write = Write::create("", dry_run);
        admission::admit(call, write, &mut candidate).await?;
        if !prefix.is_empty() {
            meta::set_text(&mut candidate, "name", &prepare::generated_name(&prefix));
        }
        escalation::check(call, &candidate, None)?;
        let companions = allocation::for_create(call, &mut candidate, dry_run).await?;
        prepare::for_create(call, &mut candidate)?;
        // What is given out anew does not change what was admitted, or charged.
        if !redecided {
            admission::validate(call, write, Some(&candidate)).await?;
        }
        let cache = list::cache(call)?.clone();
        let name = meta::name(&candidate).to_owned();
        let key = cache.form.key(meta::namespace(&candidate), &name);
        if dry_run {
            if cache.get(meta::namespace(&candidate), &name).is_none() {
                return Ok(unwritten(&cache, &candidate));
            }
        } else {
            match put_with(call, &cache, key, Expect::Absent, candidate, companions).await {
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
            return Err(Status::already_exists(group, resource, &name));
        }
        if attempts >= NAME_RETRIES {
            return Err(Status::generated_name_taken(group, resource, &name));
        }
    }
}

pub(crate) async fn update(call: &mut Call, subresource: &str) -> Result<Answer, Status> {
    let WriteOptions { validation, dry_run } = WriteOptions::read(&call.query, "UpdateOptions")?;
    let wanted = call.wanted()?;
    let decoded = decode::object(&call.headers, &call.body, call.expected(), validation)?;
    call.warnings.extend(decoded.warnings);
    let mut object = decoded.object;
    call.default(&mut object);
    prepare::agree_on_namespace(call, &mut object)?;
    prepare::drop_doubled_owners(call, &mut object, "");
    prepare::agree_on_name(call, &mut object)?;
    let cache = list::cache(call)?.clone();
    let asked = meta::resource_version(&object).to_owned();
    for _ in 0..RACE_RETRIES {
        let Some(current) = Current::read(call, &cache) else {
            if subresource.is_empty() && call.served.rules.create_on_update {
                meta::set_text(&mut object, "resourceVersion", "");
                own_changes(call, "", None, &mut object);
                let stored = create_object(call, object, dry_run).await?;
                return respond::object(201, &call.served, &stored, wanted, &call.table_query()?);
            }
            return Err(call.not_found());
        };
        check_preconditions(call, &object, &current, &asked)?;
        if matches!(asked.as_str(), "" | "0")
            && subresource.is_empty()
            && !call.served.rules.unconditional_update
        {
            let mut errors = ErrorList::new();
            errors.invalid("metadata.resourceVersion", &Value::Int(0), "must be specified for an update");
            return Err(Status::invalid(call.served.group(), call.served.name(), &call.at.name, &errors));
        }
        let mut new = if asked.is_empty() { object.clone() } else { std::mem::take(&mut object) };
        if asked.is_empty() && (call.served.rules.unconditional_update || !subresource.is_empty()) {
            meta::set_text(&mut new, "resourceVersion", &current.object.revision.to_string());
        }
        own_changes(call, subresource, Some(&*current.live(&call.served)?), &mut new);
        match replace(call, subresource, &cache, &current, new, dry_run).await? {
            Some(stored) => return respond::object(200, &call.served, &stored, wanted, &call.table_query()?),
            None if asked.is_empty() => {}
            None => return Err(call.stale()),
        }
    }
    Err(call.stale())
}

/// An update is about the object its uid and resourceVersion name, if it names them.
fn check_preconditions(call: &Call, object: &Value, current: &Current, asked: &str) -> Result<(), Status> {
    let uid = meta::uid(object);
    if !uid.is_empty() {
        let found = meta::uid(&current.tree);
        if uid != found {
            return Err(call.wrong_uid(&current.object.key, uid, found));
        }
    }
    if !asked.is_empty() && asked != "0" {
        asked.parse::<u64>().map_err(|e| Status::unexplained(go_parse_error("ParseUint", asked, &e)))?;
        if asked != current.object.revision.to_string() {
            return Err(call.stale());
        }
    }
    Ok(())
}

/// Replaces `current` by a new state given in the served version with its owners. The stored text comes
/// back, or `None` if somebody else was first.
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
    escalation::check(call, &new, Some(&current.tree))?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut candidate = if allocation::concerns(call) { new.clone() } else { std::mem::take(&mut new) };
        let companions =
            allocation::for_update(call, subresource, &mut candidate, &current.tree, dry_run).await?;
        prepare::for_update(call, subresource, &mut candidate, &current.tree)?;
        // What is given out anew does not change what was admitted, or charged.
        if attempts == 1 {
            admission::validate(call, write, Some(&candidate)).await?;
        }
        match replace_stored(call, cache, current, candidate, companions, dry_run).await? {
            Replaced::Stored(stored) => return Ok(Some(stored)),
            Replaced::Overtaken => return Ok(None),
            Replaced::Undecided if attempts < RACE_RETRIES => {}
            Replaced::Undecided => return Err(call.stale()),
        }
    }
}

/// What became of a new state.
pub(super) enum Replaced {
    /// It is stored; its text.
    Stored(Bytes),
    /// Somebody else was first.
    Overtaken,
    /// What was to be written with it is no longer as it was when that was decided.
    Undecided,
}

/// `replace` with a new state that is ready to be stored.
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
    if let Some(map) = new.as_object_mut() {
        map.insert("kind", cache.form.kind);
        map.insert("apiVersion", cache.form.api_version.as_str());
    }
    if new == *old {
        return Ok(Replaced::Stored(object.json.clone()));
    }
    if dry_run {
        return Ok(Replaced::Stored(unwritten(cache, &new)));
    }
    let expect = Expect::ModRevision(object.revision);
    let outcome = if is_finished(call, &new) {
        // Nothing holds the object back any more: this update is its end.
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

/// `replace` for a new number of replicas: the object's own spec, owners included, changed through its
/// `scale`, which is what was admitted.
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

/// Whether an object only waited for its last finalizer.
fn is_finished(call: &Call, object: &Value) -> bool {
    let grace = object.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let held = meta::finalizers(object).next().is_some()
        || (call.served.is_namespaces() && !object.items_at(&["spec", "finalizers"]).is_empty());
    meta::is_deleting(object) && grace == 0 && !held
}

/// The text of an object that was not written.
pub(super) fn unwritten(cache: &Cache, object: &Value) -> Bytes {
    let text = encoded::encode(object, cache.form.kind, &cache.form.api_version);
    let revision = meta::resource_version(object);
    let mut bytes = text.bytes;
    if revision.is_empty() {
        // Nothing was written: there is no revision to show, not an empty one.
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

/// What a client hears when the store cannot.
pub(crate) fn store_failure(error: StoreError) -> Status {
    match error {
        StoreError::NoSpace(_) => Status::unexplained("etcdserver: mvcc: database space exceeded"),
        error => {
            tracing::error!(error = &error as &dyn std::error::Error, "write failed");
            Status::internal(error)
        }
    }
}

/// What field management needs to know of a request, owned.
pub(crate) struct Ownership {
    manager: Str,
    now: Str,
    filter: Option<managed::Filter>,
    subresource: String,
}

impl Ownership {
    pub(crate) fn of(call: &Call, subresource: &str) -> Ownership {
        Ownership {
            manager: call.manager(),
            now: time::format(call.now),
            filter: prepare::ownership_filter(call, subresource),
            subresource: subresource.to_owned(),
        }
    }

    pub(crate) fn context<'a>(&'a self, call: &'a Call) -> managed::Context<'a> {
        self.context_for(&call.served.schema, &call.served.api_version)
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
        }
    }
}

/// Records who owns what this request changes.
pub(crate) fn own_changes(call: &Call, subresource: &str, live: Option<&Value>, new: &mut Value) {
    managed::update(&Ownership::of(call, subresource).context(call), live, new);
}
