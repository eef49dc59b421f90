//! The parsed URL and method of a request: upstream's `RequestInfo`.
//!
//! Pure: it does not know which resources exist.

use std::num::{IntErrorKind, ParseIntError};

use corten_api::status::quoted;
use corten_api::{Status, Str};
use http::Method;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestInfo {
    /// `None` for non-resource paths.
    pub resource: Option<ResourcePath>,
    pub verb: &'static str,
    /// True if the path itself has the verb, in the deprecated `/watch/` and `/proxy/` prefixes.
    pub verb_in_path: bool,
    /// The path, decoded.
    pub path: String,
}

/// The resource part of a URL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourcePath {
    pub group: Str,
    pub version: Str,
    /// Empty on cluster-scoped paths and lists over all namespaces.
    pub namespace: Str,
    pub resource: Str,
    /// Empty for collections.
    pub name: Str,
    pub subresource: Str,
    /// The path after the subresource, for proxies.
    pub rest: Str,
}

/// The resource verbs, as authorization and metrics name them.
fn verb_of(method: &Method, named: bool, watch: bool) -> &'static str {
    match *method {
        Method::GET | Method::HEAD if watch => "watch",
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "",
    }
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

/// Parses a request. `watch` is the query's parameter. The path is decoded first, as a whole: the authorized path is the
/// served path, whatever its encoding.
pub(crate) fn parse(method: &Method, path: &str, watch: bool) -> Result<RequestInfo, Status> {
    let path = percent_decode(path, false)
        .ok_or_else(|| Status::bad_request(format!("invalid URL escape in {}", quoted(path))))?;
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, parts) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => {
            let verb = method_verb(method);
            return Ok(RequestInfo { verb, path, ..RequestInfo::default() });
        }
    };
    let (prefix, parts) = match parts {
        ["watch" | "proxy"] => {
            return Err(Status::unexplained(format!(
                "failed to create RequestInfo: unable to determine kind and namespace from url, {path}"
            )));
        }
        ["watch", rest @ ..] => (Some("watch"), rest),
        ["proxy", rest @ ..] => (Some("proxy"), rest),
        parts => (None, parts),
    };
    let (namespace, parts) = match parts {
        ["namespaces", namespace] | ["namespaces", namespace, "status" | "finalize", ..] => {
            (*namespace, parts)
        }
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        parts => ("", parts),
    };
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    let named = !part(1).is_empty();
    let at = ResourcePath {
        group: group.into(),
        version: version.into(),
        namespace: namespace.into(),
        resource: part(0).into(),
        name: part(1).into(),
        subresource: if prefix == Some("proxy") { Str::default() } else { part(2).into() },
        rest: parts.get(3..).map(|rest| rest.join("/")).unwrap_or_default().into(),
    };
    // The parameter only applies to collections.
    let verb = prefix.unwrap_or_else(|| verb_of(method, named, watch && !named));
    Ok(RequestInfo { verb, resource: Some(at), verb_in_path: prefix.is_some(), path })
}

/// Percent decoding; in queries `+` is a space.
pub(crate) fn percent_decode(text: &str, query: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = (bytes.next()? as char).to_digit(16)?;
                let low = (bytes.next()? as char).to_digit(16)?;
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if query => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

/// The query of a URL, decoded, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Query {
        let pairs = text.unwrap_or_default().split('&').filter(|p| !p.is_empty());
        Query(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((percent_decode(key, true)?, percent_decode(value, true)?))
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of a parameter; empty if absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// A boolean parameter, as upstream parses it: present and neither `false` nor `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// Replaces all parameters with these keys.
    pub(crate) fn replace(&mut self, keys: &[&str], with: impl IntoIterator<Item = (String, String)>) {
        self.0.retain(|(key, _)| !keys.contains(&key.as_str()));
        self.0.extend(with);
    }

    /// An integer parameter; anything else is an error of the client.
    pub(crate) fn int(&self, key: &str) -> Result<Option<i64>, Status> {
        self.get(key)
            .map(|text| text.parse().map_err(|e| Status::bad_request(go_parse_error("ParseInt", text, &e))))
            .transpose()
    }
}

/// Go's message about a text that is not an integer.
pub(crate) fn go_parse_error(function: &str, text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &Method, path: &str, watch: bool, expected: &str) {
        let info = parse(method, path, watch).unwrap();
        let found = match info.resource {
            None => info.verb.to_owned(),
            Some(r) => format!(
                "{} {}/{} ns={} {} {}{}",
                info.verb,
                r.group,
                r.version,
                r.namespace,
                r.resource,
                r.name,
                if r.subresource.is_empty() { String::new() } else { format!("/{}", r.subresource) }
            ),
        };
        assert_eq!(found, expected, "{method} {path}");
    }

    #[test]
    fn paths() {
        check(&Method::GET, "/healthz", false, "get");
        check(&Method::GET, "/apis/apps", false, "get");
        check(&Method::GET, "/api/v1", false, "get");
        check(&Method::GET, "/api/v1/pods", false, "list /v1 ns= pods ");
        check(&Method::GET, "/api/v1/pods", true, "watch /v1 ns= pods ");
        check(&Method::GET, "/api/v1/watch/pods", false, "watch /v1 ns= pods ");
        check(&Method::GET, "/api/v1/namespaces/a/pods/b/log", false, "get /v1 ns=a pods b/log");
        check(&Method::PUT, "/api/v1/namespaces/a/finalize", false, "update /v1 ns=a namespaces a/finalize");
        check(&Method::DELETE, "/api/v1/namespaces/a", false, "delete /v1 ns=a namespaces a");
        check(
            &Method::DELETE,
            "/apis/apps/v1/namespaces/a/deployments",
            false,
            "deletecollection apps/v1 ns=a deployments ",
        );
        check(
            &Method::GET,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
            false,
            "get rbac.authorization.k8s.io/v1 ns= clusterroles system:node",
        );
    }

    #[test]
    fn paths_are_decoded_before_they_are_parsed() {
        check(&Method::GET, "/api/v1/namespaces/a%2Fpods", false, "list /v1 ns=a pods ");
        check(&Method::GET, "/%61pi/v1/pods", false, "list /v1 ns= pods ");
        check(&Method::GET, "/api/v1/pods/", false, "list /v1 ns= pods ");
        check(&Method::GET, "/api//v1/pods", false, "get / ns= v1 pods");
        check(&Method::GET, "/api/v1/namespaces/a/../b/pods", false, "get /v1 ns=a .. b/pods");
        check(&Method::GET, "/API/v1/pods", false, "get");
        assert_eq!(parse(&Method::GET, "/%68ealthz", false).unwrap().path, "/healthz");
        assert_eq!(parse(&Method::GET, "/api/v1/pods/%zz", false).unwrap_err().code, 400);
    }

    #[test]
    fn deprecated_paths_contain_the_verb() {
        check(&Method::DELETE, "/api/v1/watch/namespaces/a/pods/b", false, "watch /v1 ns=a pods b");
        check(&Method::GET, "/api/v1/proxy/namespaces/a/pods/b/c", false, "proxy /v1 ns=a pods b");
        check(&Method::GET, "/apis/apps/v1/namespaces/a", false, "get apps/v1 ns=a namespaces a");
        assert_eq!(parse(&Method::GET, "/api/v1/watch", false).unwrap_err().code, 500);
    }

    #[test]
    fn queries() {
        let query = Query::parse(Some("watch=1&labelSelector=a%3Db%2Cc&dryRun=All&dryRun=x&limit=zz"));
        assert!(query.flag("watch"));
        assert_eq!(query.text("labelSelector"), "a=b,c");
        assert_eq!(query.all("dryRun").count(), 2);
        assert!(query.int("limit").is_err());
    }
}
