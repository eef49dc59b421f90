//! OpenAPI documents of aggregated API servers: version 2 is fetched, reduced to the group version's own paths and merged
//! with this server's; version 3 is fetched as an index, its documents are forwarded when clients request them.
//!
//! Of an index only the entry of the APIService's own group version is kept. Kept documents are text, parsed item by item
//! while a response is written.

mod filter;
mod merge;

use std::sync::Arc;
use std::time::Duration;

use corten_api::openapi::{Foreign, OpenApi};
use corten_api::{Value, json};
use corten_auth::User;
use http::StatusCode;
use http::header::ETAG;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::target::{Fetch, Fetched, Target};
use super::{Aggregation, Entry, Table, group_version};
use crate::call::Backend;
use crate::heavy;

pub(super) use filter::Spec;
pub(super) use merge::merge;

/// The interval between fetches, and the first delay after a failure.
pub(super) const REFRESH: Duration = Duration::from_secs(60);
/// The longest delay after failures.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);
/// The timeout of a fetch.
const PATIENCE: Duration = Duration::from_secs(60);
/// The size limit of a version 2 document.
const LIMIT: usize = 16 * 1024 * 1024;
/// The size limit of a version 3 index.
const INDEX_LIMIT: usize = 4 * 1024 * 1024;
/// The longest hash in an index.
const LONGEST_HASH: usize = 256;

/// The documents of one target, as last fetched successfully.
#[derive(Default)]
pub(super) struct Documents(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    v2: Option<Arc<Spec>>,
    etag: String,
    /// The hash of the version 3 document, empty if the server tells none; `None` without a document.
    v3: Option<String>,
}

/// The merged documents, until one of them changes.
#[derive(Default)]
pub(crate) struct Specs(Mutex<Option<(String, Arc<Foreign>)>>);

fn user() -> User {
    User { name: "system:aggregator".into(), ..User::default() }
}

/// Fetches both versions. A failure of one leaves the other.
pub(super) async fn fetch(backend: &Backend, target: &Target) -> Result<(), String> {
    let v2 = fetch_v2(backend, target).await;
    let v3 = fetch_v3(backend, target).await;
    v2.and(v3)
}

async fn get(
    backend: &Backend,
    target: &Target,
    path: &str,
    etag: &str,
    limit: usize,
) -> Result<Fetched, String> {
    let user = user();
    let fetch = Fetch { path, accept: "application/json", etag, user: &user, timeout: PATIENCE, limit };
    target.fetch(backend, &fetch).await
}

async fn fetch_v2(backend: &Backend, target: &Target) -> Result<(), String> {
    let etag = target.documents.0.lock().etag.clone();
    let response = get(backend, target, "/openapi/v2", &etag, LIMIT).await?;
    match response.code {
        StatusCode::NOT_MODIFIED if !etag.is_empty() => Ok(()),
        // A server without OpenAPI.
        StatusCode::NOT_FOUND => Ok(()),
        StatusCode::OK => {
            let etag =
                response.headers.get(ETAG).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
            let prefix = format!("{}/", target.path());
            let spec = heavy::blocking(|| Spec::parse(&response.body, &prefix))?;
            let mut kept = target.documents.0.lock();
            kept.v2 = Some(Arc::new(spec));
            kept.etag = etag;
            Ok(())
        }
        code => Err(format!("failed to retrieve openAPI spec, http error: {code}")),
    }
}

async fn fetch_v3(backend: &Backend, target: &Target) -> Result<(), String> {
    let response = get(backend, target, "/openapi/v3", "", INDEX_LIMIT).await?;
    let hash = match response.code {
        StatusCode::NOT_FOUND => None,
        StatusCode::OK => heavy::blocking(|| own_hash(&response.body, &document(target)))?,
        _ => return Err("could not get list of group versions for APIService".to_owned()),
    };
    target.documents.0.lock().v3 = hash;
    Ok(())
}

/// The path of a target's document in the index.
fn document(target: &Target) -> String {
    target.path().trim_start_matches('/').to_owned()
}

/// The hash of a document in an index; `None` if the index does not list it. Anything that is not a plain hash is dropped:
/// it becomes part of a URL.
pub(super) fn own_hash(index: &[u8], document: &str) -> Result<Option<String>, String> {
    let index = json::parse(index).map_err(|error| error.to_string())?;
    let Some(entry) = index.at(&["paths", document]) else { return Ok(None) };
    let url = entry.str_at(&["serverRelativeURL"]).unwrap_or_default();
    let hash = url.split_once("?hash=").map(|(_, hash)| hash).unwrap_or_default();
    let is_plain = hash.len() <= LONGEST_HASH && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Ok(Some(if is_plain { hash.to_owned() } else { String::new() }))
}

/// The entries of aggregated documents in the index of version 3.
pub(crate) fn index_entries(table: &Table) -> impl Iterator<Item = (String, String)> {
    table.entries().filter_map(|entry| {
        let hash = entry.target.documents.0.lock().v3.clone()?;
        let document = document(&entry.target);
        let url = match hash.as_str() {
            "" => format!("/openapi/v3/{document}"),
            hash => format!("/openapi/v3/{document}?hash={hash}"),
        };
        Some((document, url))
    })
}

/// The server of a version 3 document, if it is an aggregated one.
pub(crate) fn document_target(aggregation: &Aggregation, path: &str) -> Option<Entry> {
    let path = path.strip_prefix("/openapi/v3").filter(|path| path.starts_with('/'))?;
    let (group, version) = group_version(path)?;
    let table = aggregation.used()?;
    let entry = table.get(group, version)?;
    let is_document = entry.target.path() == path && entry.target.documents.0.lock().v3.is_some();
    is_document.then(|| entry.clone())
}

/// The version 2 documents of all aggregated servers, ready to be written after this server's own.
pub(crate) fn merged(aggregation: &Aggregation, own: &OpenApi<'_>) -> Option<Arc<Foreign>> {
    let table = aggregation.used()?;
    let mut entries: Vec<&Entry> = table.entries().collect();
    let highest = |group: &str| {
        let all = table.entries().filter(|entry| entry.target.group == group);
        all.map(|entry| entry.group_priority).max().unwrap_or(0)
    };
    entries.sort_by_cached_key(|entry| (-highest(&entry.target.group), entry.target.name.clone()));
    let specs: Vec<Arc<Spec>> =
        entries.iter().filter_map(|entry| entry.target.documents.0.lock().v2.clone()).collect();
    if specs.is_empty() {
        return None;
    }
    let mut digest = Sha256::new();
    digest.update(own.v2_hash());
    specs.iter().for_each(|spec| digest.update(spec.digest));
    let hash: String = digest.finalize().iter().map(|byte| format!("{byte:02X}")).collect();
    let mut known = aggregation.specs.0.lock();
    if let Some((of, merged)) = &*known
        && *of == hash
    {
        return Some(merged.clone());
    }
    let merged = Arc::new(merge(own_definitions(own), &specs, hash.clone()));
    *known = Some((hash, merged.clone()));
    Some(merged)
}

/// This server's own definitions.
fn own_definitions(own: &OpenApi<'_>) -> Value {
    let document = own.v2_document(corten_api::openapi::Format::Json);
    let mut document = json::parse(&document).unwrap_or_default();
    document.remove(&["definitions"]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_document_of_an_index_counts() {
        let index = br#"{"paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=EVIL"},
            "apis/g/v1": {"serverRelativeURL": "/openapi/v3/apis/g/v1?hash=AB12"},
            "apis/g/v2": {"serverRelativeURL": "https://evil.example/?hash=../../x"}}}"#;
        assert_eq!(own_hash(index, "apis/g/v1"), Ok(Some("AB12".to_owned())));
        assert_eq!(own_hash(index, "apis/g/v2"), Ok(Some(String::new())));
        assert_eq!(own_hash(index, "apis/g/v3"), Ok(None));
        assert!(own_hash(b"{", "apis/g/v1").is_err());
    }
}
