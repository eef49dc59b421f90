//! Links in proxied responses: HTML pages and redirects name paths of their own server, and are rewritten to paths of the
//! proxy in front of it.
//!
//! Pages are streamed in pieces. Only links to their own server are changed; a page with an unknown content coding is not
//! changed.

mod coding;
pub(crate) mod fuzz;
mod html;
mod location;

use std::mem;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::HeaderMap;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION,
};

use crate::body::ResponseBody;
use crate::respond::Answer;
use coding::Coding;
use html::Page;
pub(super) use location::Place;

/// The CORS headers, which only this server may set.
const OTHERS: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// The bytes decoded at a time: a compressed byte can expand to a thousand, and pods are not trusted with the memory of
/// this server.
const SLICE: usize = 1024;

/// A response whose links lead through the proxy.
pub(super) fn rewrite_links(mut answer: Answer, place: Place) -> Answer {
    let headers = answer.headers_mut();
    for name in OTHERS {
        headers.remove(name);
    }
    if let Some(to) = text(headers, &LOCATION).filter(|to| !to.is_empty()) {
        if let Ok(to) = HeaderValue::from_str(&place.link(to)) {
            headers.insert(LOCATION, to);
        }
        return answer;
    }
    let coding = match (is_html(headers), Coding::of(text(headers, &CONTENT_ENCODING))) {
        (true, Some(coding)) => coding,
        _ => return answer,
    };
    headers.remove(CONTENT_LENGTH);
    let body = mem::replace(answer.body_mut(), ResponseBody::Empty);
    *answer.body_mut() = match body {
        ResponseBody::Stream(pieces) => {
            let pieces = pieces.map(Some).chain(stream::iter([None]));
            let changed = pieces.scan(Rewriting { coding, page: Page::new(place) }, |rewriting, piece| {
                std::future::ready(rewriting.next(piece.as_ref()))
            });
            ResponseBody::Stream(changed.filter(|piece| std::future::ready(!piece.is_empty())).boxed())
        }
        body => body,
    };
    answer
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn is_html(headers: &HeaderMap) -> bool {
    let kind = text(headers, &CONTENT_TYPE).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html")
}

struct Rewriting {
    coding: Coding,
    page: Page,
}

impl Rewriting {
    /// Rewrites the next piece, or with `None` the end; returns `None` after a decoding error.
    fn next(&mut self, piece: Option<&Bytes>) -> Option<Bytes> {
        let mut out = Vec::new();
        for slice in piece.map(|piece| piece.chunks(SLICE)).into_iter().flatten() {
            let html = self.coding.decode(Some(slice)).ok()?;
            let changed = self.page.feed(&html);
            out.append(&mut self.coding.encode(&changed, false).ok()?);
        }
        if piece.is_none() {
            let html = self.coding.decode(None).ok()?;
            let mut changed = self.page.feed(&html);
            changed.append(&mut self.page.end());
            out = self.coding.encode(&changed, true).ok()?;
        }
        Some(out.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use flate2::Compression;
    use http::{Response, StatusCode};

    use super::*;

    fn place() -> Place {
        Place { prefix: "/proxy".into(), host: "10.0.0.1:80".into(), asked: "server:6443".into() }
    }

    fn answer(headers: &[(HeaderName, &str)], body: &[u8]) -> Answer {
        let pieces: Vec<Bytes> = body.chunks(3).map(Bytes::copy_from_slice).collect();
        let mut answer = Response::new(ResponseBody::Stream(stream::iter(pieces).boxed()));
        for (name, value) in headers {
            answer.headers_mut().insert(name, value.parse().unwrap());
        }
        answer
    }

    async fn read(answer: Answer) -> Vec<u8> {
        match answer.into_body() {
            ResponseBody::Stream(pieces) => pieces.collect::<Vec<_>>().await.concat(),
            _ => panic!("it is no stream any more"),
        }
    }

    #[tokio::test]
    async fn only_pages_are_changed() {
        let link = br#"<a href="/x">x</a>"#;
        let changed = br#"<a href="/proxy/x">x</a>"#;
        for (kind, expected) in [
            ("text/html", &changed[..]),
            ("text/html; charset=utf-8", changed),
            ("text/plain", link),
            ("application/json", link),
        ] {
            let length = link.len().to_string();
            let answer = answer(&[(CONTENT_TYPE, kind), (CONTENT_LENGTH, &length)], link);
            let answer = rewrite_links(answer, place());
            assert_eq!(answer.headers().contains_key(CONTENT_LENGTH), expected == link, "{kind}");
            assert_eq!(read(answer).await, expected, "{kind}");
        }
    }

    #[tokio::test]
    async fn links_in_compressed_pages_are_rewritten() {
        let html = [(CONTENT_TYPE, "text/html"), (CONTENT_ENCODING, "gzip")];
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(br#"<img src="/x">"#).unwrap();
        let compressed = encoder.finish().unwrap();
        let changed = read(rewrite_links(answer(&html, &compressed), place())).await;
        let mut page = String::new();
        flate2::read::GzDecoder::new(&changed[..]).read_to_string(&mut page).unwrap();
        assert_eq!(page, r#"<img src="/proxy/x">"#);
        let unknown = [(CONTENT_TYPE, "text/html"), (CONTENT_ENCODING, "br")];
        assert_eq!(read(rewrite_links(answer(&unknown, b"<a href=/x>"), place())).await, b"<a href=/x>");
    }

    #[test]
    fn redirects_stay_within_the_proxy_and_others_read_nothing() {
        let headers = [(LOCATION, "/login?next=/"), (ACCESS_CONTROL_ALLOW_ORIGIN, "*")];
        let mut answer = answer(&headers, b"");
        *answer.status_mut() = StatusCode::FOUND;
        let answer = rewrite_links(answer, place());
        assert_eq!(answer.headers()[LOCATION], "/proxy/login?next=/");
        assert!(!answer.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}
