//! Watches of aggregated resources by components of this process: ordinary list and watch requests, whose responses are
//! decoded as far as events go.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use corten_api::{Status, Value, json, meta};
use corten_auth::User;
use corten_client::{Error, EventStream, Kind, Seen, WatchEvent, WatchRequest};
use futures_util::{StreamExt, stream};
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};

use crate::Server;
use crate::authentication::Peer;
use crate::body::ResponseBody;
use crate::heavy;
use crate::respond::Answer;

/// The number of objects in a page of a list.
const PAGE: usize = 500;
/// The number of pages; a server that never ends its list is given up.
const PAGES: usize = 1000;
/// The size limit of a page, and of all pages of a list.
const PAGE_SIZE: usize = 16 * 1024 * 1024;
const LIST_SIZE: usize = 64 * 1024 * 1024;
/// The limit of objects in a list: the smallest takes far more memory than its text.
const MOST_OBJECTS: usize = 50_000;
/// The size limit of an event.
const EVENT_SIZE: usize = 16 * 1024 * 1024;

/// The events of a watch; without a version to start after, the current objects come first.
pub(crate) async fn events(
    server: &Arc<Server>,
    user: &Arc<User>,
    request: &WatchRequest,
) -> Result<EventStream, Error> {
    let (mut ready, mut after) = (VecDeque::new(), request.after.clone());
    let fields = request.kind.fields.replace('=', "%3D").replace(',', "%2C");
    let path = request.kind.collection(&request.namespace);
    if after.is_empty() {
        let (objects, version) = list(server, user, &request.kind, &path, &fields, &request.agent).await?;
        ready.extend(objects.into_iter().map(|object| WatchEvent::Present(seen(object))));
        ready.push_back(WatchEvent::Bookmark { version: version.clone(), ends_initial: true });
        after = version;
    }
    let path =
        format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={after}&fieldSelector={fields}");
    let answer = send(server, user, &path, &request.agent).await?;
    if !answer.status().is_success() {
        return Err(refusal(answer).await);
    }
    let initial = stream::iter(ready.into_iter().map(Ok));
    Ok(initial.chain(decoded(answer.into_body())).boxed())
}

async fn send(server: &Arc<Server>, user: &Arc<User>, path: &str, agent: &str) -> Result<Answer, Error> {
    let request = Request::get(path)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, agent)
        .body(Full::new(Bytes::new()))
        .map_err(Error::transport)?;
    Ok(Box::pin(server.handle(request, &Peer::InProcess(user.clone()))).await)
}

async fn refusal(answer: Answer) -> Error {
    let code = answer.status();
    let body = Limited::new(answer.into_body(), PAGE_SIZE).collect().await;
    let status = body.ok().and_then(|body| json::parse(&body.to_bytes()).ok());
    match status.filter(|status| status.str_at(&["kind"]) == Some("Status")) {
        Some(status) => Status::from_value(&status).into(),
        None => Status::unavailable(format!("the aggregated API server responded with {code}")).into(),
    }
}

/// All objects of a collection, with their kinds, and the version of the list.
async fn list(
    server: &Arc<Server>,
    user: &Arc<User>,
    kind: &Kind,
    path: &str,
    fields: &str,
    agent: &str,
) -> Result<(Vec<Value>, String), Error> {
    let too_long = || Error::transport("list of aggregated API server is too long");
    let (mut objects, mut next, mut left) = (Vec::new(), String::new(), LIST_SIZE);
    for _ in 0..PAGES {
        let from = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(&next)) };
        let page = format!("{path}?limit={PAGE}&fieldSelector={fields}{from}");
        let answer = send(server, user, &page, agent).await?;
        if !answer.status().is_success() {
            return Err(refusal(answer).await);
        }
        let body = Limited::new(answer.into_body(), PAGE_SIZE).collect().await.map_err(Error::transport)?;
        let body = body.to_bytes();
        left = left.checked_sub(body.len()).ok_or_else(too_long)?;
        let mut page = heavy::blocking(|| json::parse_envelope(&body)).map_err(Error::transport)?;
        if objects.len() + page.items_at(&["items"]).len() > MOST_OBJECTS {
            return Err(too_long());
        }
        let before = std::mem::take(&mut next);
        next = page.str_at(&["metadata", "continue"]).unwrap_or_default().to_owned();
        let version = meta::resource_version(&page).to_owned();
        if let Some(Value::Array(items)) = page.remove(&["items"]) {
            objects.extend(items.into_iter().map(|mut item| {
                item.set(&["kind"], &kind.kind);
                item.set(&["apiVersion"], kind.api_version());
                item
            }));
        }
        if next.is_empty() {
            return Ok((objects, version));
        }
        if next == before {
            break;
        }
    }
    Err(too_long())
}

/// A value, percent-encoded for a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

fn seen(object: Value) -> Seen {
    Seen { text: Bytes::from(json::write_to_string(&object)), tree: Some(Arc::new(object)) }
}

/// The events in a body, one per line.
fn decoded(body: ResponseBody) -> EventStream {
    let frames = stream::unfold((body, BytesMut::new()), |(mut body, mut buffer)| async move {
        let mut searched = 0;
        loop {
            if let Some(end) = buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(searched + end + 1);
                return Some((event(&line), (body, buffer)));
            }
            if buffer.len() > EVENT_SIZE {
                return Some((
                    Err(Error::transport("watch event too large")),
                    (ResponseBody::Empty, BytesMut::new()),
                ));
            }
            searched = buffer.len();
            match body.frame().await? {
                Ok(frame) => buffer.extend(frame.into_data().ok()),
                Err(never) => match never {},
            }
        }
    });
    frames.boxed()
}

pub(super) fn event(line: &[u8]) -> Result<WatchEvent, Error> {
    let mut frame = json::parse(line).map_err(Error::transport)?;
    let object = frame.remove(&["object"]).unwrap_or_default();
    match frame.str_at(&["type"]).unwrap_or_default() {
        "ADDED" | "MODIFIED" => Ok(WatchEvent::Present(seen(object))),
        "DELETED" => {
            let revision = meta::resource_version(&object).parse().unwrap_or(0);
            Ok(WatchEvent::Deleted { last: seen(object), revision })
        }
        "BOOKMARK" => {
            let version = meta::resource_version(&object).to_owned();
            Ok(WatchEvent::Bookmark { version, ends_initial: false })
        }
        "ERROR" => Err(Status::from_value(&object).into()),
        other => Err(Error::transport(format!("unknown event {other:?}"))),
    }
}
