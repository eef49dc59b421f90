//! Answers: objects, lists and refusals in the format and view the client asked for.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Map, Status, Value, convert, json, meta, protobuf, resources, schema, yaml};
use corten_base::Clock;
use corten_registry::{Listing, RowContext, SCALE_COLUMNS, scale_row};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use crate::body::{ListBody, ResponseBody};
use crate::catalog::Served;
use crate::negotiate::{Format, View, Wanted};
use crate::object::Object;
use crate::verbs::node_view;

pub(crate) type Answer = Response<ResponseBody>;

/// An answer with a body of some type.
pub(crate) fn bytes(code: u16, content_type: &'static str, body: impl Into<ResponseBody>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// Plain text, as health endpoints speak.
pub(crate) fn text(code: u16, body: impl Into<String>) -> Answer {
    let mut answer = bytes(code, "text/plain; charset=utf-8", body.into().into_bytes());
    if code >= 400 {
        answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    answer
}

/// A refusal in the client's format.
pub(crate) fn status(status: &Status, wanted: Wanted) -> Answer {
    let format = Wanted { view: View::Object, ..wanted };
    let mut answer = tree(status.code, &status.to_value(), format);
    if status.details.retry_after_seconds > 0 {
        answer.headers_mut().insert(http::header::RETRY_AFTER, status.details.retry_after_seconds.into());
    }
    answer
}

/// Any object that is not kept, such as a `Status` or a `Scale`: the tree carries kind and apiVersion.
pub(crate) fn tree(code: u16, value: &Value, wanted: Wanted) -> Answer {
    let body = match wanted.format {
        Format::Json => json_text(value, wanted.pretty),
        Format::Yaml => yaml::to_string(value).into_bytes(),
        Format::Protobuf => match protobuf_text(value) {
            Some(body) => body,
            None => return bytes(code, Format::Json.content_type(), json_text(value, false)),
        },
    };
    bytes(code, wanted.format.content_type(), body)
}

fn json_text(value: &Value, pretty: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    if pretty {
        json::write_pretty(&mut out, value);
    } else {
        json::write(&mut out, value);
    }
    out.push(b'\n');
    out
}

/// The protobuf envelope of a tree, if its type has a protobuf form.
pub(crate) fn protobuf_text(value: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = (meta::api_version(value), meta::kind(value));
    let (group, version) = resources::split_api_version(api_version);
    let schema = match kind {
        "Table" => return None,
        "PartialObjectMetadata"
        | "PartialObjectMetadataList"
        | "APIGroup"
        | "APIGroupList"
        | "APIResourceList"
        | "APIVersions" => schema::lookup("meta/v1", kind),
        _ => resources::schema_of(group, version, kind),
    }?;
    let mut out = Vec::new();
    protobuf::encode_object(&schema, value, &mut out).ok()?;
    Some(out)
}

/// The tree of a kept object in the version it is served in.
pub(crate) fn served_tree(served: &Served, stored: &[u8]) -> Result<Value, Status> {
    let mut value = json::parse(stored).map_err(Status::internal)?;
    to_served(served, &mut value)?;
    Ok(value)
}

/// Brings a stored object to the version it is served in.
pub(crate) fn to_served(served: &Served, value: &mut Value) -> Result<(), Status> {
    if served.is_stored_form {
        return Ok(());
    }
    let stored = meta::api_version(value).to_owned();
    convert::convert(served.kind(), &stored, &served.api_version, value).map_err(Status::internal)
}

/// One kept object.
pub(crate) fn object(
    code: u16,
    served: &Served,
    stored: &Bytes,
    wanted: Wanted,
    query: &TableQuery,
) -> Result<Answer, Status> {
    if served.is_stored_form && wanted.format == Format::Json && wanted.view == View::Object && !wanted.pretty
    {
        return Ok(bytes(code, "application/json", stored.clone()));
    }
    let value = served_tree(served, stored)?;
    object_tree(code, served, value, wanted, query)
}

/// One object as a tree in its served version.
pub(crate) fn object_tree(
    code: u16,
    served: &Served,
    value: Value,
    wanted: Wanted,
    query: &TableQuery,
) -> Result<Answer, Status> {
    let shown = match wanted.view {
        View::Object | View::Discovery(_) => value,
        View::Metadata { list: true, .. } => {
            return Err(Status::unfit_view(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                internal_type(served, "")
            )));
        }
        View::Metadata { version, .. } => partial(&value, version),
        View::Table(version) => table(served, vec![value], Map::new(), query, version),
    };
    Ok(tree(code, &shown, wanted))
}

/// What upstream calls a kind inside.
fn internal_type(served: &Served, suffix: &str) -> String {
    format!("*{}.{}{suffix}", resources::package_of(served.group()), served.kind())
}

/// The metadata view of an object.
pub(crate) fn partial(value: &Value, version: &str) -> Value {
    let mut map = Map::new();
    map.insert("apiVersion", format!("meta.k8s.io/{version}"));
    map.insert("kind", "PartialObjectMetadata");
    map.insert("metadata", value.get("metadata").cloned().unwrap_or_else(Value::object));
    Value::Object(map)
}

/// What a client may ask of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableQuery {
    /// What ages are told by.
    pub clock: Clock,
    pub include_object: IncludeObject,
    /// Rows only, as the later events of a watch carry them.
    pub no_headers: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl TableQuery {
    pub(crate) fn new(clock: &Clock) -> TableQuery {
        TableQuery { clock: clock.clone(), include_object: IncludeObject::default(), no_headers: false }
    }

    pub(crate) fn parse(clock: &Clock, include_object: &str) -> Result<TableQuery, Status> {
        let include_object = match include_object {
            "" | "Metadata" => IncludeObject::Metadata,
            "None" => IncludeObject::None,
            "Object" => IncludeObject::Object,
            other => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: {why}"
                )));
            }
        };
        Ok(TableQuery { include_object, ..TableQuery::new(clock) })
    }
}

/// The table of some objects; `meta` is the list's.
pub(crate) fn table(
    served: &Served,
    mut objects: Vec<Value>,
    list_meta: Map,
    query: &TableQuery,
    version: &str,
) -> Value {
    let rules = served.rules;
    let mut meta = list_meta;
    if let [object] = objects.as_slice()
        && meta.is_empty()
        && !meta::resource_version(object).is_empty()
    {
        meta.insert("resourceVersion", meta::resource_version(object));
    }
    let marked = match rules.listing {
        Listing::Marked(find) => find(&objects),
        _ => None,
    };
    if let Listing::Sorted(order) = rules.listing {
        objects.sort_by(order);
    }
    let context = RowContext { now: query.clock.now(), marked: marked.as_deref() };
    let rows: Vec<Value> =
        objects.into_iter().map(|object| row(served, object, &context, query, version)).collect();
    let mut map = Map::new();
    map.insert("apiVersion", format!("meta.k8s.io/{version}"));
    map.insert("kind", "Table");
    map.insert("metadata", meta);
    let columns = if query.no_headers { Value::Null } else { columns(rules.columns) };
    map.insert("columnDefinitions", columns);
    map.insert("rows", rows);
    Value::Object(map)
}

/// The table of a `Scale`, whatever it is of.
pub(crate) fn scale_table(scale: Value, query: &TableQuery, version: &str) -> Value {
    let context = RowContext { now: query.clock.now(), marked: None };
    let mut meta = Map::new();
    meta.insert("resourceVersion", meta::resource_version(&scale));
    let mut row = Map::new();
    row.insert("cells", scale_row(&scale, &context));
    row.insert("object", included(scale, query, version));
    let mut map = Map::new();
    map.insert("apiVersion", format!("meta.k8s.io/{version}"));
    map.insert("kind", "Table");
    map.insert("metadata", meta);
    map.insert("columnDefinitions", columns(SCALE_COLUMNS));
    map.insert("rows", vec![Value::Object(row)]);
    Value::Object(map)
}

fn columns(columns: &[corten_registry::Column]) -> Value {
    let column = |c: &corten_registry::Column| {
        let mut map = Map::new();
        map.insert("name", c.name);
        map.insert("type", c.kind);
        map.insert("format", c.format);
        map.insert("description", c.description);
        map.insert("priority", c.priority);
        Value::Object(map)
    };
    Value::Array(columns.iter().map(column).collect())
}

fn row(served: &Served, object: Value, context: &RowContext<'_>, query: &TableQuery, version: &str) -> Value {
    // Rows are made from the stored form, whatever version is served.
    let stored = match (&served.cache, served.is_stored_form) {
        (Some(cache), false) => {
            let mut stored = object.clone();
            match convert::convert(cache.form.kind, &served.api_version, &cache.form.api_version, &mut stored)
            {
                Ok(()) => Some(stored),
                Err(_) => None,
            }
        }
        _ => None,
    };
    let source = stored.as_ref().unwrap_or(&object);
    let mut map = Map::new();
    map.insert("cells", (served.rules.row)(source, context));
    let conditions = (served.rules.row_conditions)(source);
    if !conditions.is_empty() {
        map.insert("conditions", conditions);
    }
    map.insert("object", included(object, query, version));
    Value::Object(map)
}

/// What a row carries of its object.
fn included(object: Value, query: &TableQuery, version: &str) -> Value {
    match query.include_object {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial(&object, version),
        IncludeObject::Object => object,
    }
}

/// The metadata of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListMeta {
    pub revision: u64,
    pub continue_token: String,
    pub remaining: Option<u64>,
}

impl ListMeta {
    fn to_map(&self) -> Map {
        let mut map = Map::new();
        map.insert("resourceVersion", self.revision.to_string());
        if !self.continue_token.is_empty() {
            map.insert("continue", self.continue_token.as_str());
        }
        if let Some(remaining) = self.remaining {
            map.insert("remainingItemCount", remaining as i64);
        }
        map
    }
}

/// Whether objects are sent in the very text they are kept in.
pub(crate) fn is_sent_as_kept(
    served: &Served,
    wanted: Wanted,
    seen_through: Option<node_view::View>,
) -> bool {
    let is_whole = served.is_stored_form && wanted.view == View::Object && seen_through.is_none();
    is_whole && wanted.format == Format::Json && !wanted.pretty
}

/// A list of kept objects.
pub(crate) fn list(
    served: &Served,
    objects: Vec<Arc<Object>>,
    list_meta: &ListMeta,
    wanted: Wanted,
    query: &TableQuery,
    seen_through: Option<node_view::View>,
) -> Result<Answer, Status> {
    let kind = format!("{}List", served.kind());
    let is_whole = served.is_stored_form && wanted.view == View::Object && seen_through.is_none();
    if is_sent_as_kept(served, wanted, seen_through) {
        let mut head = Vec::with_capacity(128);
        head.extend_from_slice(b"{\"kind\":");
        json::write_string(&mut head, &kind);
        head.extend_from_slice(b",\"apiVersion\":");
        json::write_string(&mut head, &served.api_version);
        head.extend_from_slice(b",\"metadata\":");
        json::write(&mut head, &Value::Object(list_meta.to_map()));
        head.extend_from_slice(b",\"items\":[");
        return Ok(bytes(200, "application/json", ResponseBody::List(ListBody::new(head, objects))));
    }
    if is_whole && wanted.format == Format::Protobuf {
        return protobuf_list(served, &objects, list_meta, &kind);
    }
    let shown_tree = |object: &Arc<Object>| {
        let tree = served_tree(served, &object.json)?;
        Ok(match seen_through {
            Some(view) => view(&tree),
            None => tree,
        })
    };
    // The trees of a whole list would be ten times its text: where little is shown of each, one is held at a time.
    if let View::Metadata { version, list: true, .. } = wanted.view {
        let items = objects.iter().map(|object| Ok(partial(&shown_tree(object)?, version)));
        let items = items.collect::<Result<Vec<_>, Status>>()?;
        let api_version = format!("meta.k8s.io/{version}");
        let shown = list_tree(&api_version, "PartialObjectMetadataList", list_meta, items);
        return Ok(tree(200, &shown, wanted));
    }
    let trees = objects.iter().map(shown_tree).collect::<Result<Vec<_>, Status>>()?;
    let shown = match wanted.view {
        View::Table(version) => table(served, trees, list_meta.to_map(), query, version),
        View::Metadata { .. } => {
            return Err(Status::unfit_view(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                internal_type(served, "List")
            )));
        }
        View::Object | View::Discovery(_) => {
            list_tree(&served.api_version, &kind, list_meta, trees.into_iter().map(bare).collect())
        }
    };
    Ok(tree(200, &shown, wanted))
}

/// Items of a list do not repeat their kind.
fn bare(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    value
}

fn list_tree(api_version: &str, kind: &str, list_meta: &ListMeta, items: Vec<Value>) -> Value {
    let mut map = Map::new();
    map.insert("apiVersion", api_version);
    map.insert("kind", kind);
    map.insert("metadata", list_meta.to_map());
    map.insert("items", items);
    Value::Object(map)
}

/// Items are encoded one at a time: the trees of a whole list would be ten times its text.
fn protobuf_list(
    served: &Served,
    objects: &[Arc<Object>],
    list_meta: &ListMeta,
    kind: &str,
) -> Result<Answer, Status> {
    let encode = |object: &Arc<Object>| {
        let mut item = Vec::new();
        let tree = json::parse(&object.json).map_err(Status::internal)?;
        protobuf::encode(&served.schema, &tree, &mut item).map_err(Status::internal)?;
        Ok(item)
    };
    let items = objects.iter().map(encode).collect::<Result<Vec<Vec<u8>>, Status>>()?;
    let mut raw = Vec::new();
    let meta = Value::Object(list_meta.to_map());
    protobuf::encode_list_from_items(&meta, items.iter().map(Vec::as_slice), &mut raw)
        .map_err(Status::internal)?;
    let mut body = Vec::new();
    protobuf::encode_envelope(&served.api_version, kind, &raw, &mut body);
    Ok(bytes(200, Format::Protobuf.content_type(), body))
}
