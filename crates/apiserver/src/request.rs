//! What a request is about: the URL and method taken apart, upstream's `RequestInfo`.
//!
//! Pure: nothing here knows which resources exist.

use std::num::{IntErrorKind, ParseIntError};

use corten_api::{Status, Str};
use http::Method;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RequestInfo {
    /// `None` for paths that are not about a resource.
    pub resource: Option<ResourcePath>,
    pub verb: &'static str,
    /// Whether the path itself asks to watch, by the old `/watch/` prefix.
    pub watches_by_path: bool,
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
    /// What follows the subresource, for proxies.
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

/// Takes a request apart. `watch` is what the query says.
pub(crate) fn parse(method: &Method, path: &str, watch: bool) -> Result<RequestInfo, Status> {
    let plain = RequestInfo { verb: method_verb(method), ..RequestInfo::default() };
    let Some(segments) = segments(path)? else { return Ok(plain) };
    let mut segments = segments.into_iter();
    let (group, version) = match segments.next().as_deref() {
        Some("api") => (Str::default(), segments.next()),
        Some("apis") => match segments.next() {
            Some(group) => (group, segments.next()),
            None => return Ok(plain),
        },
        _ => return Ok(plain),
    };
    let (Some(version), rest) = (version, segments.collect::<Vec<_>>()) else { return Ok(plain) };
    if rest.is_empty() {
        return Ok(plain);
    }
    let mut at = ResourcePath { group, version, ..ResourcePath::default() };
    let mut parts = rest.as_slice();
    let mut prefixed = false;
    // The deprecated /watch/ prefix.
    if parts.len() > 1 && parts[0] == "watch" {
        prefixed = true;
        parts = &parts[1..];
    }
    if parts[0] == "namespaces" && parts.len() > 2 && !matches!(parts[2].as_str(), "status" | "finalize") {
        at.namespace = parts[1].clone();
        parts = &parts[2..];
    }
    at.resource = parts[0].clone();
    at.name = parts.get(1).cloned().unwrap_or_default();
    at.subresource = parts.get(2).cloned().unwrap_or_default();
    if parts.len() > 3 {
        at.rest = parts[3..].join("/").into();
    }
    if at.resource == "namespaces" && at.group.is_empty() && !at.name.is_empty() {
        at.namespace = at.name.clone();
    }
    let named = !at.name.is_empty();
    // Only a collection is asked to be watched by a parameter.
    let verb = verb_of(method, named, prefixed || (watch && !named));
    Ok(RequestInfo { verb, resource: Some(at), watches_by_path: prefixed })
}

/// The decoded segments of a path; `None` if it has none.
fn segments(path: &str) -> Result<Option<Vec<Str>>, Status> {
    let trimmed = path.trim_matches('/');
    if trimmed.is_empty() {
        return Ok(None);
    }
    trimmed.split('/').map(decode).collect::<Result<_, _>>().map(Some)
}

/// Undoes percent encoding. A segment that decodes to something with a slash would name another resource
/// than the one authorized, so it is refused.
fn decode(segment: &str) -> Result<Str, Status> {
    if !segment.contains('%') {
        return Ok(segment.into());
    }
    match percent_decode(segment, false) {
        Some(text) if !text.contains('/') => Ok(text.into()),
        _ => Err(Status::bad_request(format!("invalid URL escape {segment:?}"))),
    }
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

    /// A parameter that is set to something.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// Upstream's reading of a boolean parameter: present and neither `false` nor `0`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A whole number; what is not one is the caller's mistake.
    pub(crate) fn int(&self, key: &str) -> Result<Option<i64>, Status> {
        self.get(key)
            .map(|text| text.parse().map_err(|e| Status::bad_request(go_parse_error("ParseInt", text, &e))))
            .transpose()
    }
}

/// What Go says of a text that is not a whole number.
pub(crate) fn go_parse_error(function: &str, text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

/// A duration in Go's notation (`1m30s`), or what Go says of a text that is none.
pub(crate) fn go_duration(text: &str) -> Result<f64, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if unsigned == "0" {
        return Ok(0.0);
    }
    let mut rest = unsigned;
    let mut seconds = 0.0;
    while !rest.is_empty() || unsigned.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            unknown => return Err(format!("time: unknown unit {unknown:?} in duration {text:?}")),
        };
        seconds += number * unit;
        rest = &rest[end..];
    }
    Ok(sign * seconds)
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
    fn an_encoded_slash_is_refused() {
        assert_eq!(parse(&Method::GET, "/api/v1/namespaces/a%2Fb/pods", false).unwrap_err().code, 400);
    }

    #[test]
    fn durations() {
        assert_eq!(go_duration("1m30s"), Ok(90.0));
        assert_eq!(go_duration("-1.5s"), Ok(-1.5));
        assert_eq!(go_duration("0"), Ok(0.0));
        assert_eq!(go_duration("5").unwrap_err(), "time: missing unit in duration \"5\"");
        assert_eq!(go_duration("5x").unwrap_err(), "time: unknown unit \"x\" in duration \"5x\"");
        for bad in ["", "s", ".s", "-"] {
            assert_eq!(go_duration(bad).unwrap_err(), format!("time: invalid duration {bad:?}"));
        }
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
