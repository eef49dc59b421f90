//! `get` and `list`.
//!
//! Every combination of resourceVersion, resourceVersionMatch, limit and continue means what upstream's
//! documentation says. The cache is never behind an acknowledged write, so "most recent" needs no waiting,
//! and a revision it has not reached does not exist.

use std::num::ParseIntError;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{NO_PAD, URL_SAFE_NO_PAD};
use corten_api::status::ErrorList;
use corten_api::{Status, Str, Value, json};

use super::{history, node_view};
use crate::cache::{Cache, Snapshot};
use crate::call::Call;
use crate::catalog::Served;
use crate::crd;
use crate::filter::Filter;
use crate::heavy;
use crate::object::Object;
use crate::request::go_parse_error;
use crate::respond::{self, Answer, ListMeta};

pub(crate) async fn get(call: &Call) -> Result<Answer, Status> {
    if history::is_wanted(call) {
        return Box::pin(history::answer(call)).await;
    }
    let wanted = call.wanted()?;
    let cache = cache(call)?;
    let revision = resource_version(call.query.text("resourceVersion")).map_err(|why| {
        // Upstream reads events from the storage, which words the error, and all others from a cache.
        if call.served.name() == "events" { invalid_version(&why) } else { Status::unexplained(why) }
    })?;
    not_future(revision, cache)?;
    let object = cache.find(&call.at.namespace, &call.at.name)?.ok_or_else(|| call.not_found())?;
    respond::object(200, call, &object.json, wanted).await
}

pub(crate) fn cache(call: &Call) -> Result<&Arc<Cache>, Status> {
    call.served
        .cache
        .as_ref()
        .ok_or_else(|| Status::method_not_supported(call.served.group(), call.served.name(), "list"))
}

/// A resourceVersion parameter: nothing, or a whole number.
pub(crate) fn resource_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|error: ParseIntError| {
        let why = go_parse_error("ParseUint", text, &error);
        format!("resourceVersion: Invalid value: {text:?}: {why}")
    })
}

fn invalid_version(why: &str) -> Status {
    Status::bad_request(format!("invalid resource version: {why}"))
}

/// True if a `resourceVersion` parameter requests the newest state, or one that the cache does not have yet.
pub(crate) fn wants_newest(version: &str, cache: &Cache) -> bool {
    version.is_empty() || version.parse::<u64>().is_ok_and(|revision| revision > cache.revision())
}

fn not_future(revision: u64, cache: &Cache) -> Result<(), Status> {
    let current = cache.revision();
    if revision > current { Err(Status::too_large_resource_version(revision, current)) } else { Ok(()) }
}

/// The list options of a request.
struct Options {
    limit: usize,
    from: Position,
}

/// The state a list shows, and where in it to begin.
pub(crate) enum Position {
    /// The newest state.
    Newest { after: Option<String> },
    /// Exactly this revision.
    Exact { revision: u64, after: Option<String> },
}

pub(crate) async fn list(call: &Call) -> Result<Answer, Status> {
    if history::is_wanted(call) {
        return Box::pin(history::answer(call)).await;
    }
    let wanted = call.wanted_list()?;
    let (mut objects, list_meta) = select(call).await?;
    let view = node_view::of(call, &filter(call)?);
    let (served, query) = (call.served.clone(), call.table_query()?);
    if served.converter.is_some() && !served.sends_stored_text() {
        objects = crd::convert_all(&call.backend, &served, objects).await?;
    }
    if !is_large(&objects) || respond::is_sent_as_kept(&served, wanted, view) {
        return respond::list(&served, objects, &list_meta, wanted, &query, view);
    }
    if let Some(answer) = respond::rendered_list(&served, &objects, &list_meta, wanted, &query, view) {
        return Ok(answer);
    }
    heavy::apart(&call.user.name, move || respond::list(&served, objects, &list_meta, wanted, &query, view))
        .await
}

/// True if the objects are too large to be converted to another form on a thread of the runtime in one go.
pub(super) fn is_large(objects: &[Arc<Object>]) -> bool {
    objects.iter().map(|object| object.json.len()).sum::<usize>() > LARGE_LIST
}

/// A list with more text than this is not converted to another form on a thread of the runtime.
const LARGE_LIST: usize = 1024 * 1024;

/// The objects that match a request's selectors, versions and limits, and the metadata of their list.
pub(super) async fn select(call: &Call) -> Result<(Vec<Arc<Object>>, ListMeta), Status> {
    let cache = cache(call)?;
    cache.catch_up().await;
    let filter = filter(call)?;
    let options = options(call, cache)?;
    let mut snapshot = snapshot(call, cache, &options.from).await?;
    let revision = snapshot.revision;
    if let Some(first) = before_conversion(&call.served, &filter) {
        snapshot.objects.retain(|object| first.matches(object));
        let converted = crd::convert_all(&call.backend, &call.served, snapshot.objects.clone()).await?;
        let mut matches = converted.iter().map(|object| filter.matches(object));
        snapshot.objects.retain(|_| matches.next().unwrap_or(false));
        return Ok(page(&scope(call, cache), snapshot.objects, &Filter::default(), options.limit, revision));
    }
    Ok(page(&scope(call, cache), snapshot.objects, &filter, options.limit, revision))
}

/// The filter of objects as they are stored, where the whole filter is for objects that a webhook has converted: it may
/// change the labels and fields that selectors read.
pub(super) fn before_conversion(served: &Served, filter: &Filter) -> Option<Filter> {
    let converter = served.converter.as_ref().filter(|_| !served.is_stored_form)?;
    if converter.has_webhook() { filter.before_conversion() } else { None }
}

/// The key prefix of all objects that a list can contain.
fn scope(call: &Call, cache: &Cache) -> String {
    cache.scope(&call.at.namespace)
}

/// The filter of a list, watch or collection delete.
pub(crate) fn filter(call: &Call) -> Result<Filter, Status> {
    let query = &call.query;
    // The URL of a namespace has its own name in the place of a namespace.
    let namespace = if call.served.resource.namespaced { call.at.namespace.clone() } else { Str::default() };
    let filter =
        Filter::new(&call.served, &namespace, query.text("labelSelector"), query.text("fieldSelector"))?;
    Ok(filter.named(&call.at.name))
}

/// Checks the options of a list that has no versions and no pages.
pub(crate) fn check_options(call: &Call) -> Result<(), Status> {
    let query = &call.query;
    let (version, matching) = (query.text("resourceVersion"), query.text("resourceVersionMatch"));
    query.int("limit")?;
    query.int("timeoutSeconds")?;
    validate(version, matching, query.text("continue"), query.get("sendInitialEvents").is_some())
}

fn options(call: &Call, cache: &Cache) -> Result<Options, Status> {
    let query = &call.query;
    let (version, matching, token) =
        (query.text("resourceVersion"), query.text("resourceVersionMatch"), query.text("continue"));
    validate(version, matching, token, query.get("sendInitialEvents").is_some())?;
    let limit = usize::try_from(query.int("limit")?.unwrap_or(0)).unwrap_or(0);
    // A list ignores it, but it has to be a number.
    query.int("timeoutSeconds")?;
    if !token.is_empty() {
        if !matches!(version, "" | "0") {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let limit = if version == "0" { 0 } else { limit };
        return Ok(Options { limit, from: decode_continue(token, &scope(call, cache))? });
    }
    let revision = resource_version(version).map_err(|why| invalid_version(&why))?;
    not_future(revision, cache)?;
    let exact = matching == "Exact" || (matching.is_empty() && limit > 0 && revision > 0);
    let from =
        if exact { Position::Exact { revision, after: None } } else { Position::Newest { after: None } };
    // As upstream's cache, "any version" ignores the limit.
    Ok(Options { limit: if version == "0" { 0 } else { limit }, from })
}

fn validate(version: &str, matching: &str, token: &str, initial_events: bool) -> Result<(), Status> {
    let mut errors = ErrorList::new();
    if !matching.is_empty() {
        let field = "resourceVersionMatch";
        if version.is_empty() {
            errors.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !token.is_empty() {
            errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided");
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            errors.not_supported(field, &Value::from(matching), &["Exact", "NotOlderThan", ""]);
        }
        if matching == "Exact" && version == "0" {
            errors.forbidden(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if initial_events {
        errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

async fn snapshot(call: &Call, cache: &Cache, from: &Position) -> Result<Snapshot, Status> {
    let namespace = &call.at.namespace;
    let is_from_cache = matches!(from, Position::Newest { .. })
        && !call.query.text("resourceVersion").is_empty()
        && call.query.text("continue").is_empty();
    if is_from_cache {
        cache.check_complete()?;
    }
    let scope = scope(call, cache);
    cache.check_readable(&scope)?;
    let (revision, after) = match from {
        Position::Newest { after } => {
            let snapshot = cache.snapshot(namespace, after.as_deref());
            // An object that became unreadable since the check is not in it.
            return cache.check_readable(&scope).map(|()| snapshot);
        }
        Position::Exact { revision, after } => (*revision, after.as_deref()),
    };
    not_future(revision, cache)?;
    if let Some(snapshot) = cache.snapshot_at(namespace, after, revision) {
        return Ok(snapshot);
    }
    let past = cache.snapshot_from_history(namespace, after, revision).await.map_err(|error| match error {
        corten_store::Error::Compacted { .. } => match after {
            Some(after) => expired_continue(after, &scope),
            None => Status::expired("The resourceVersion for the provided list is too old."),
        },
        error => Status::internal(error),
    });
    past?
}

/// The matching objects of one page, and the metadata of their list.
fn page(
    scope: &str,
    objects: Vec<Arc<Object>>,
    filter: &Filter,
    limit: usize,
    revision: u64,
) -> (Vec<Arc<Object>>, ListMeta) {
    let mut list_meta = ListMeta { revision, ..ListMeta::default() };
    if limit == 0 {
        let mut objects = objects;
        if filter.is_selective() {
            objects.retain(|o| filter.matches(o));
        }
        return (objects, list_meta);
    }
    let total = objects.len();
    let mut seen = 0;
    let mut page = Vec::with_capacity(limit.min(total));
    let mut more = false;
    for object in objects {
        if page.len() == limit && filter.matches(&object) {
            more = true;
            break;
        }
        if page.len() < limit {
            seen += 1;
            if filter.matches(&object) {
                page.push(object);
            }
        }
    }
    if more && let Some(last) = page.last() {
        list_meta.continue_token = encode_continue(&last.key, scope, Some(revision));
        list_meta.remaining = (!filter.is_selective()).then(|| (total - seen) as u64);
    }
    (page, list_meta)
}

/// A token that continues after a key, at a revision or (`None`) at the newest one. Keys are relative to the scope of
/// the list.
fn encode_continue(key: &str, scope: &str, revision: Option<u64>) -> String {
    let start = Value::from(format!("/{}\0", key.strip_prefix(scope).unwrap_or(key)));
    let revision = revision.map_or(-1, |r| r as i64);
    // The members have upstream's order.
    let token =
        format!(r#"{{"v":"meta.k8s.io/v1","rv":{revision},"start":{}}}"#, json::write_to_string(&start));
    URL_SAFE_NO_PAD.encode(token)
}

/// Go's decoder ignores the bits of the last character that belong to no byte.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

pub(crate) fn decode_continue(token: &str, scope: &str) -> Result<Position, Status> {
    let invalid =
        |why: &str| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let text = LENIENT.decode(token).map_err(|e| invalid(&base64_error(token, &e)))?;
    let token = json::parse(&text).map_err(|e| invalid(&e.to_string()))?;
    let version = token.str_at(&["v"]).unwrap_or_default();
    if version != "meta.k8s.io/v1" {
        return Err(invalid(&format!("server does not recognize this encoded version {version}")));
    }
    let revision = token.int_at(&["rv"]).unwrap_or(0);
    if revision == 0 || revision < -1 {
        return Err(invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"));
    }
    let start = token.str_at(&["start"]).unwrap_or_default();
    if start.is_empty() {
        return Err(invalid("encoded start key empty (version meta.k8s.io/v1)"));
    }
    let relative = start.strip_prefix('/').unwrap_or(start);
    // A key outside the list's scope would show objects that the request was not authorized for.
    if relative.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(invalid(start));
    }
    let after = Some(format!("{scope}{}", relative.trim_end_matches('\0')));
    Ok(match u64::try_from(revision) {
        Ok(revision) => Position::Exact { revision, after },
        Err(_) => Position::Newest { after },
    })
}

/// The message of a base64 error, as upstream words it.
fn base64_error(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) => *at,
        _ => text.len() - text.len() % 4,
    };
    format!("illegal base64 data at input byte {at}")
}

fn expired_continue(after: &str, scope: &str) -> Status {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.continue_token = encode_continue(after, scope, None);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_round_trip() {
        let token = encode_continue("/registry/pods/a/b", "/registry/pods/", Some(7));
        match decode_continue(&token, "/registry/pods/").unwrap() {
            Position::Exact { revision, after } => {
                assert_eq!((revision, after.as_deref()), (7, Some("/registry/pods/a/b")));
            }
            Position::Newest { .. } => panic!("a revision was given"),
        }
        // Bits that belong to no byte do not matter; the text is no JSON.
        assert_eq!(
            decode_continue("bad", "").err().map(|status| status.message),
            Some(
                "invalid continue token: continue key is not valid: invalid character 'm' looking for beginning of value"
                    .to_owned()
            )
        );
        for bad in ["", "x", "e30", "!!!"] {
            assert_eq!(decode_continue(bad, "").err().map(|s| s.code), Some(400), "{bad:?}");
        }
    }

    #[test]
    fn continue_tokens_cost_what_they_are_long() {
        let token = |text: String| URL_SAFE_NO_PAD.encode(text);
        let start = |start: String| token(format!(r#"{{"rv":7,"start":{start:?},"v":"meta.k8s.io/v1"}}"#));
        type Make<'a> = &'a dyn Fn(usize) -> String;
        let tokens: [(&str, Make<'_>); 6] = [
            ("parts", &|n| start("/a".repeat(n))),
            ("slashes", &|n| start("/".repeat(n))),
            ("climbing", &|n| start("/a/..".repeat(n))),
            ("not base64", &|n| "!".repeat(n)),
            ("members", &|n| {
                let members: Vec<String> = (0..n / 8).map(|i| format!(r#""{i}":1"#)).collect();
                token(format!("{{{}}}", members.join(",")))
            }),
            ("depth", &|n| token("[".repeat(n))),
        ];
        let complaints: Vec<String> = tokens
            .iter()
            .filter_map(|(name, make)| {
                let decode = |token: &String| decode_continue(token, "/registry/pods/").is_ok();
                crate::meter::excess(name, 50_000, make, String::len, decode)
            })
            .collect();
        crate::meter::settle(&complaints);
    }

    #[test]
    fn option_combinations() {
        assert!(validate("", "Exact", "", false).is_err());
        assert!(validate("0", "Exact", "", false).is_err());
        assert!(validate("5", "Newest", "", false).is_err());
        assert!(validate("5", "Exact", "token", false).is_err());
        assert!(validate("5", "NotOlderThan", "", false).is_ok());
        assert!(validate("", "", "", true).is_err());
    }
}
