//! A bearer token in the name of a WebSocket subprotocol: browsers can set no other header of a WebSocket request.
//!
//! The client has to offer another subprotocol too, which the server can accept; the token's is removed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, HeaderValue};

use crate::websocket;

const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The token of a WebSocket request, or the error of an invalid one.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    if !websocket::is_requested(headers) {
        return Ok(None);
    }
    let (tokens, others): (Vec<_>, Vec<_>) =
        websocket::offered(headers).into_iter().partition(|name| name.starts_with(PREFIX));
    let token = match tokens.as_slice() {
        [] => return Ok(None),
        [name] => URL_SAFE_NO_PAD.decode(&name[PREFIX.len()..]),
        _ => return Err("multiple base64.bearer.authorization tokens specified"),
    };
    let token = token.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
    let token = String::from_utf8(token).map_err(|_| "invalid base64.bearer.authorization token")?;
    match (token.is_empty(), others.is_empty()) {
        (true, _) => Ok(None),
        (false, true) => Err("missing additional subprotocol"),
        (false, false) => Ok(Some(token)),
    }
}

/// Removes the token.
pub(super) fn strip(headers: &mut HeaderMap) {
    let offered = websocket::offered(headers);
    if !offered.iter().any(|name| name.starts_with(PREFIX)) {
        return;
    }
    let others: Vec<_> = offered.into_iter().filter(|name| !name.starts_with(PREFIX)).collect();
    // Parts of a valid header value are valid.
    let others = HeaderValue::from_str(&others.join(",")).ok().filter(|value| !value.is_empty());
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(others) = others {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(protocols: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert("upgrade", HeaderValue::from_static("WebSocket"));
        for protocols in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocols));
        }
        headers
    }

    type Found = Result<Option<&'static str>, &'static str>;

    #[test]
    fn a_token_needs_another_subprotocol() {
        const ABC: &str = "base64url.bearer.authorization.k8s.io.YWJj";
        let table: [(&[&'static str], Found); 8] = [
            (&[], Ok(None)),
            (&["binary.k8s.io"], Ok(None)),
            (&["binary.k8s.io, base64url.bearer.authorization.k8s.io.YWJj"], Ok(Some("abc"))),
            (&[ABC, "binary.k8s.io"], Ok(Some("abc"))),
            (&[ABC], Err("missing additional subprotocol")),
            (&[ABC, ABC, "x"], Err("multiple base64.bearer.authorization tokens specified")),
            (
                &["x,base64url.bearer.authorization.k8s.io.YWJj=="],
                Err("invalid base64.bearer.authorization token encoding"),
            ),
            (
                &["x,base64url.bearer.authorization.k8s.io.gA"],
                Err("invalid base64.bearer.authorization token"),
            ),
        ];
        for (protocols, expected) in table {
            let found = token(&headers(protocols));
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(|why| *why), expected, "{protocols:?}");
        }
        let mut plain = headers(&[ABC, "x"]);
        plain.remove("upgrade");
        assert_eq!(token(&plain), Ok(None), "only WebSocket requests carry tokens in subprotocols");
    }

    #[test]
    fn tokens_are_removed() {
        let stripped = |protocols: &[&'static str]| {
            let mut headers = headers(protocols);
            strip(&mut headers);
            websocket::offered(&headers).join("|")
        };
        assert_eq!(stripped(&["a", "base64url.bearer.authorization.k8s.io.YWJj, b"]), "a|b");
        assert_eq!(stripped(&["base64url.bearer.authorization.k8s.io.YWJj"]), "");
        assert_eq!(stripped(&["a,b"]), "a|b");
    }
}
