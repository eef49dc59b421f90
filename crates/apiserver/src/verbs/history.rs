//! Past versions of objects, from the store's history beyond compaction: for `corten history`, `show` and `undo`.
//!
//! They are read by query parameters of the ordinary paths, so that authentication and authorization are those of a `get` of the
//! object or a `list` of the collection now, restricted by the same selectors:
//!
//! | request | response |
//! |---|---|
//! | `GET OBJECT?history.corten.io/versions=true[&limit=N][&history.corten.io/before=REVISION]` | `ObjectHistory`: versions, newest first |
//! | `GET OBJECT-OR-COLLECTION?history.corten.io/at=TIME-OR-REVISION` | `PastObjects`: the objects at that time |
//!
//! Objects are in their stored version, custom resources in the current schema. Kinds of responses are no kinds of upstream, so
//! that a client notices a server that ignores the parameters. Lists and watches of other clients know nothing of this: what is
//! compacted is a `410` for them as always.
//!
//! *Invariants:* nodes get nothing, because a node may read an object only as long as a pod on it needs it; few reads run
//! at a time, because each reads files.

use std::fmt::Write;
use std::sync::Arc;

use corten_api::{Status, time};
use corten_store::{Entry, Kept, PastVersion};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::{list, node_view};
use crate::cache::Cache;
use crate::call::Call;
use crate::object::Object;
use crate::respond::{self, Answer};

const VERSIONS: &str = "history.corten.io/versions";
const BEFORE: &str = "history.corten.io/before";
const AT: &str = "history.corten.io/at";
const API_VERSION: &str = "history.corten.io/v1";
const MAX_VERSIONS: usize = 100;
/// The objects of a response have no more text than this.
const MAX_BYTES: usize = 256 << 20;
/// The reads of history at a time, and the requests that wait for one.
static READS: Semaphore = Semaphore::const_new(2);
static REQUESTS: Semaphore = Semaphore::const_new(16);

/// True if a request is about the past.
pub(super) fn is_wanted(call: &Call) -> bool {
    [VERSIONS, BEFORE, AT].iter().any(|parameter| call.query.get(parameter).is_some())
}

pub(super) async fn answer(call: &Call) -> Result<Answer, Status> {
    if node_view::is_node(&call.user) {
        let (group, resource, name) = (call.served.group(), call.served.name(), &call.at.name);
        return Err(Status::forbidden(group, resource, name, "nodes cannot read history"));
    }
    if !call.at.subresource.is_empty() {
        return Err(Status::bad_request("subresources have no history"));
    }
    let cache = list::cache(call)?;
    let _request = REQUESTS.try_acquire().map_err(|_| {
        Status::too_many_requests("too many requests read history, please try again later", 1)
    })?;
    let store = call.backend.store.clone();
    let Some(kept) = in_turn(async move { store.kept().await }).await? else {
        return Err(Status::bad_request(
            "the server keeps no history: it needs the embedded store and the flag --history, such as --history 24h",
        ));
    };
    let body = match (call.query.get(AT), call.at.name.is_empty()) {
        (Some(at), false) => object_at(call, cache, at, kept).await?,
        (Some(at), true) => objects_at(call, cache, at, kept).await?,
        (None, false) => versions(call, cache, kept).await?,
        (None, true) => {
            return Err(Status::bad_request("a collection has no versions; ask for it at a time"));
        }
    };
    Ok(respond::bytes(200, "application/json", body.into_bytes()))
}

async fn versions(call: &Call, cache: &Cache, kept: Kept) -> Result<String, Status> {
    let limit = call.query.int("limit")?.and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(MAX_VERSIONS).min(MAX_VERSIONS);
    let before = match call.query.text(BEFORE) {
        "" => u64::MAX,
        text => text.parse().map_err(|_| Status::bad_request(format!("{BEFORE}: not a revision")))?,
    };
    let found = read_versions(call, cache, before, limit).await?;
    if found.is_empty() && before == u64::MAX {
        return Err(call.not_found());
    }
    let since = shown_time(kept.time_ms);
    let mut body =
        format!(r#"{{"kind":"ObjectHistory","apiVersion":"{API_VERSION}","since":"{since}","versions":["#);
    for (index, version) in found.iter().enumerate() {
        let PastVersion { revision, time_ms, entry } = version;
        let separator = if index > 0 { "," } else { "" };
        let time = shown_time(*time_ms);
        let _ = write!(body, r#"{separator}{{"revision":"{revision}","time":"{time}""#);
        if let Some(entry) = entry {
            let object = read(cache, entry)?;
            let _ = write!(body, r#","object":{}"#, text(&object)?);
        }
        body.push('}');
    }
    body.push_str("]}");
    Ok(body)
}

async fn object_at(call: &Call, cache: &Cache, at: &str, kept: Kept) -> Result<String, Status> {
    let (revision, time) = position(call, at, kept).await?;
    let found = read_versions(call, cache, revision.saturating_add(1), 1).await?;
    let entry = found.into_iter().next().and_then(|version| version.entry);
    let entry = entry.ok_or_else(|| call.not_found())?;
    past_objects(revision, time, &[read(cache, &entry)?])
}

async fn objects_at(call: &Call, cache: &Cache, at: &str, kept: Kept) -> Result<String, Status> {
    let filter = list::filter(call)?;
    let (revision, time) = position(call, at, kept).await?;
    let (store, scope) = (call.backend.store.clone(), cache.scope(&call.at.namespace));
    let range = in_turn(async move { store.past_range(&scope, revision).await }).await?;
    if range.entries.iter().map(|entry| entry.value.len()).sum::<usize>() > MAX_BYTES {
        return Err(Status::too_large("the collection is too large; ask for a namespace"));
    }
    let objects: Result<Vec<Arc<Object>>, Status> =
        range.entries.iter().map(|entry| read(cache, entry)).collect();
    let mut objects = objects?;
    objects.retain(|object| filter.matches(object));
    past_objects(revision, time, &objects)
}

/// The revision of a time or of a revision's text, and the time of its commit.
async fn position(call: &Call, at: &str, kept: Kept) -> Result<(u64, Option<u64>), Status> {
    let store = &call.backend.store;
    if let Ok(revision) = at.parse::<u64>() {
        let current = store.revision();
        if revision > current {
            return Err(Status::too_large_resource_version(revision, current));
        }
        return if revision < kept.revision { Err(too_old(kept)) } else { Ok((revision, None)) };
    }
    let time: Timestamp = at.parse().map_err(|_| {
        Status::bad_request(format!("{AT}: {at:?} is neither a time (RFC 3339) nor a revision"))
    })?;
    let time = u64::try_from(time.as_millisecond()).unwrap_or(0);
    let store = store.clone();
    let found = in_turn(async move { store.revision_at(time).await }).await?;
    found.map(|(revision, time)| (revision, Some(time))).ok_or_else(|| too_old(kept))
}

/// Reads history when it is the request's turn. The turn lasts until the read has ended, also if its client has left.
async fn in_turn<T: Send + 'static>(
    read: impl Future<Output = Result<T, corten_store::Error>> + Send + 'static,
) -> Result<T, Status> {
    let turn = async move {
        // The semaphore is never closed.
        let _turn = READS.acquire().await;
        read.await
    };
    tokio::spawn(turn).await.map_err(Status::internal)?.map_err(failed)
}

async fn read_versions(
    call: &Call,
    cache: &Cache,
    before: u64,
    limit: usize,
) -> Result<Vec<PastVersion>, Status> {
    let (store, key) = (call.backend.store.clone(), cache.form.key(&call.at.namespace, &call.at.name));
    in_turn(async move { store.versions(&key, before, limit).await }).await
}

fn too_old(kept: Kept) -> Status {
    match kept.time_ms {
        Some(_) => Status::expired(format!("history begins at {}", shown_time(kept.time_ms))),
        None => Status::expired("history has no change yet"),
    }
}

fn failed(error: corten_store::Error) -> Status {
    match error {
        corten_store::Error::Compacted { .. } => Status::expired("that is before history begins"),
        error => Status::internal(error),
    }
}

fn read(cache: &Cache, entry: &Entry) -> Result<Arc<Object>, Status> {
    cache.object(entry).ok_or_else(|| Status::internal("a past version cannot be read"))
}

fn past_objects(revision: u64, time: Option<u64>, objects: &[Arc<Object>]) -> Result<String, Status> {
    let time = shown_time(time);
    let mut body = format!(
        r#"{{"kind":"PastObjects","apiVersion":"{API_VERSION}","revision":"{revision}","time":"{time}","items":["#
    );
    for (index, object) in objects.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(text(object)?);
    }
    body.push_str("]}");
    Ok(body)
}

fn text(object: &Object) -> Result<&str, Status> {
    std::str::from_utf8(&object.json).map_err(Status::internal)
}

/// Empty for an unknown time.
fn shown_time(time: Option<u64>) -> String {
    let time = time.and_then(|time| Timestamp::from_millisecond(i64::try_from(time).ok()?).ok());
    time.map(|time| time::format_micro(time).to_string()).unwrap_or_default()
}
