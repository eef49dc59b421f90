//! Content negotiation: the format and view that a client accepts, and the format of its request body.
//!
//! Formats are JSON, YAML and protobuf; views are the object itself, a `Table`, or only its metadata.

use corten_api::Status;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    /// By version of the group `meta.k8s.io`.
    Table(&'static str),
    /// By version of the group `meta.k8s.io`; `list` for a list of them.
    Metadata {
        version: &'static str,
        list: bool,
    },
    /// Aggregated discovery, by version.
    Discovery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub format: Format,
    pub view: View,
    /// Indented JSON.
    pub pretty: bool,
}

const SERVED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The media types of lists, which are also those of watches.
const SERVED_LISTS: [&str; 5] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

impl Format {
    fn of(media_type: &str) -> Option<Format> {
        match media_type {
            "application/json" | "*/*" => Some(Format::Json),
            "application/yaml" => Some(Format::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Format::Protobuf),
            _ => None,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    pub(crate) fn watch_content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// One element of an Accept header.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut all: Vec<Clause<'_>> = header
        .split(',')
        .filter_map(|part| {
            let mut pieces = part.split(';').map(str::trim);
            let media_type = pieces.next().filter(|m| !m.is_empty())?;
            let parameters: Vec<_> = pieces.filter_map(|p| p.split_once('=')).collect();
            let quality =
                parameters.iter().find(|(k, _)| *k == "q").and_then(|(_, v)| v.parse().ok()).unwrap_or(1.0);
            Some(Clause { media_type, parameters, quality })
        })
        .collect();
    // Stable: equals keep the client's order.
    all.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    all
}

impl Clause<'_> {
    fn parameter(&self, key: &str) -> &str {
        self.parameters.iter().find(|(k, _)| *k == key).map_or("", |(_, v)| v)
    }

    fn view(&self) -> Option<View> {
        if !matches!(self.parameter("stream"), "" | "watch") {
            return None;
        }
        let (kind, group, version) = (self.parameter("as"), self.parameter("g"), self.parameter("v"));
        let meta_version = match version {
            "v1" => "v1",
            _ => "v1beta1",
        };
        match (kind, group, version) {
            ("", ..) => Some(View::Object),
            ("Table", "meta.k8s.io", "v1" | "v1beta1") => Some(View::Table(meta_version)),
            ("PartialObjectMetadata", "meta.k8s.io", "v1" | "v1beta1") => {
                Some(View::Metadata { version: meta_version, list: false })
            }
            ("PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
                Some(View::Metadata { version: meta_version, list: true })
            }
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(View::Discovery),
            _ => None,
        }
    }
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

fn pretty(headers: &HeaderMap, query: Option<&str>) -> bool {
    match query {
        Some(value) => !matches!(value, "0" | "false"),
        None => {
            let agent =
                headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
            ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
        }
    }
}

/// The forms that the objects of a resource have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forms {
    pub table: bool,
    /// Whole objects in protobuf; their metadata has that form in any case. Custom resources have none, and upstream's router,
    /// which knows no `application/*`, does not see them.
    pub protobuf: bool,
}

impl Forms {
    pub(crate) const ALL: Forms = Forms { table: true, protobuf: true };
}

/// The format and view that the client accepts, for an object or a list.
pub(crate) fn wanted(
    headers: &HeaderMap,
    pretty_query: Option<&str>,
    list: bool,
    forms: Forms,
) -> Result<Wanted, Status> {
    let pretty = pretty(headers, pretty_query);
    let header = accept(headers);
    if header.is_empty() {
        return Ok(Wanted { format: Format::Json, view: View::Object, pretty });
    }
    let clauses = clauses(header);
    if forms.protobuf && !clauses.iter().any(|clause| Format::of(clause.media_type).is_some()) {
        return Err(Status::no_representation(if list { &SERVED_LISTS } else { &SERVED }));
    }
    for clause in clauses {
        let format = match clause.media_type {
            "application/*" if !forms.protobuf => Some(Format::Json),
            media_type => Format::of(media_type),
        };
        let (Some(format), Some(view)) = (format, clause.view()) else { continue };
        let exists = match view {
            View::Table(_) => format != Format::Protobuf && forms.table,
            View::Object => format != Format::Protobuf || forms.protobuf,
            View::Metadata { .. } => true,
            View::Discovery => false,
        };
        if !exists {
            continue;
        }
        return Ok(Wanted { format, view, pretty });
    }
    Err(Status::not_acceptable(&SERVED))
}

/// A kind of discovery document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiscoveryForms {
    /// True if there is an aggregated form.
    pub aggregated: bool,
    /// True if upstream's router compares media types before the document is made; it knows no `application/*`.
    pub routed: bool,
}

/// The format and view of a discovery document.
pub(crate) fn wanted_discovery(
    headers: &HeaderMap,
    pretty_query: Option<&str>,
    forms: DiscoveryForms,
) -> Result<Wanted, Status> {
    let pretty = pretty(headers, pretty_query);
    let header = accept(headers);
    if header.is_empty() {
        return Ok(Wanted { format: Format::Json, view: View::Object, pretty });
    }
    let clauses = clauses(header);
    if forms.routed && !clauses.iter().any(|clause| Format::of(clause.media_type).is_some()) {
        return Err(Status::no_representation(&SERVED));
    }
    for clause in clauses {
        let format = match clause.media_type {
            "application/*" if !forms.routed => Some(Format::Json),
            media_type => Format::of(media_type),
        };
        match (format, clause.view()) {
            (Some(format), Some(View::Object)) => return Ok(Wanted { format, view: View::Object, pretty }),
            (Some(format), Some(View::Discovery)) if forms.aggregated => {
                return Ok(Wanted { format, view: View::Discovery, pretty });
            }
            _ => {}
        }
    }
    Err(Status::not_acceptable(&SERVED))
}

/// Refuses clients that do not accept JSON, the only format of a document.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Status> {
    let header = accept(headers);
    let fits = |clause: &Clause<'_>| matches!(clause.media_type, "application/json" | "*/*");
    if header.is_empty() || clauses(header).iter().any(fits) {
        return Ok(());
    }
    Err(Status::no_representation(&["application/json"]))
}

/// The format and view of a watch: media types may carry `;stream=watch`.
pub(crate) fn wanted_watch(headers: &HeaderMap, forms: Forms) -> Result<Wanted, Status> {
    let wanted = wanted(headers, Some("false"), true, forms)?;
    match wanted.format {
        Format::Yaml => Err(Status::not_acceptable(&SERVED)),
        _ => Ok(wanted),
    }
}

/// The media type of the body, without parameters; empty means JSON.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.split(';').next().unwrap_or_default().trim()
}

/// True for a parameter of a media type with a name and a value, and for an empty one.
fn is_parameter(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty())
}

/// The format of a whole object in the body.
pub(crate) fn body_format(headers: &HeaderMap) -> Result<Format, Status> {
    let parameters = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !parameters.split(';').skip(1).all(is_parameter) {
        return Err(Status::unsupported_media_type(&SERVED));
    }
    match content_type(headers).to_ascii_lowercase().as_str() {
        "" if headers.get(CONTENT_TYPE).is_none_or(HeaderValue::is_empty) => Ok(Format::Json),
        "*/*" => Err(Status::unsupported_media_type(&SERVED)),
        media_type => Format::of(media_type).ok_or_else(|| Status::unsupported_media_type(&SERVED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, list: bool, expected: Option<(Format, View)>) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let found = wanted(&headers, None, list, Forms::ALL).ok().map(|w| (w.format, w.view));
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn objects_without_columns_have_no_table() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (accept, format) in
            [(table.to_owned(), None), (format!("{table},application/yaml"), Some(Format::Yaml))]
        {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            let without = Forms { table: false, ..Forms::ALL };
            assert_eq!(
                wanted(&headers, None, false, without).ok().map(|wanted| wanted.format),
                format,
                "{accept}"
            );
            assert!(wanted(&headers, None, false, Forms::ALL).is_ok());
        }
    }

    #[test]
    fn discovery_documents_have_no_views_but_the_aggregated_one() {
        const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        const REMOVED: &str = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let list = DiscoveryForms { aggregated: true, routed: false };
        let version = DiscoveryForms { aggregated: false, routed: true };
        for (accept, of_list, of_version) in [
            (AGGREGATED.to_owned(), Some(View::Discovery), None),
            (REMOVED.to_owned(), None, None),
            (format!("{REMOVED},application/json"), Some(View::Object), Some(View::Object)),
            (TABLE.to_owned(), None, None),
            (format!("{TABLE},application/yaml"), Some(View::Object), Some(View::Object)),
            ("application/*".to_owned(), Some(View::Object), None),
            ("text/html".to_owned(), None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            for (forms, expected) in [(list, of_list), (version, of_version)] {
                let found = wanted_discovery(&headers, None, forms).ok().map(|wanted| wanted.view);
                assert_eq!(found, expected, "{accept} {forms:?}");
            }
        }
    }

    #[test]
    fn a_body_without_a_media_type_is_json() {
        let mut headers = HeaderMap::new();
        assert!(matches!(body_format(&headers), Ok(Format::Json)));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(""));
        assert!(matches!(body_format(&headers), Ok(Format::Json)));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        assert!(body_format(&headers).is_err());
    }

    #[test]
    fn documents_without_other_formats_are_json() {
        for (accept, fits) in
            [("", true), ("*/*", true), ("application/json;as=Table", true), ("text/html", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(require_json(&headers).is_ok(), fits, "{accept}");
        }
    }

    #[test]
    fn accept_headers() {
        check("application/json", false, Some((Format::Json, View::Object)));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            true,
            Some((Format::Json, View::Table("v1"))),
        );
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            false,
            Some((Format::Protobuf, View::Object)),
        );
        check("application/yaml;q=0.5, application/json;q=0.1", false, Some((Format::Yaml, View::Object)));
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            true,
            Some((Format::Json, View::Metadata { version: "v1", list: true })),
        );
        check("text/html", false, None);
        check("application/json;as=APIGroupDiscoveryList;g=apidiscovery.k8s.io;v=v2", false, None);
        check("*/*", false, Some((Format::Json, View::Object)));
        check(
            "application/vnd.kubernetes.protobuf;stream=watch",
            false,
            Some((Format::Protobuf, View::Object)),
        );
    }
}
