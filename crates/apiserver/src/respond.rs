//! Responses: objects, lists and errors in the format and view that the client accepts.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Map, Status, Str, Value, convert, json, meta, protobuf, resources, schema, yaml};
use corten_base::Clock;
use corten_registry::{Listing, RowContext, Rules, SCALE_COLUMNS, scale_row};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use crate::body::{ListBody, ResponseBody};
use crate::call::Call;
use crate::catalog::Served;
use crate::column_descriptions;
use crate::crd;
use crate::negotiate::{Format, View, Wanted};
use crate::object::Object;
use crate::rendered::Rendered;
use crate::verbs::node_view;

pub(crate) type Answer = Response<ResponseBody>;

/// A response with a body of a content type.
pub(crate) fn bytes(code: u16, content_type: &'static str, body: impl Into<ResponseBody>) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// Plain text, as of health endpoints.
pub(crate) fn text(code: u16, body: impl Into<String>) -> Answer {
    let mut answer = bytes(code, "text/plain; charset=utf-8", body.into().into_bytes());
    if code >= 400 {
        answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    answer
}

/// A `Status` in the client's format.
pub(crate) fn status(status: &Status, wanted: Wanted) -> Answer {
    let format = Wanted { view: View::Object, ..wanted };
    let mut answer = tree(status.code, &status.to_value(), format);
    if status.details.retry_after_seconds > 0 {
        answer.headers_mut().insert(http::header::RETRY_AFTER, status.details.retry_after_seconds.into());
    }
    answer
}

/// Any object that is not stored, such as a `Status` or a `Scale`: the tree has kind and apiVersion.
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

/// The tree of a stored object in the served version.
pub(crate) fn shown_tree(served: &Served, stored: &[u8]) -> Result<Value, Status> {
    let mut value = json::parse(stored).map_err(Status::internal)?;
    to_served(served, &mut value)?;
    Ok(value)
}

/// Converts a stored object to the served version.
pub(crate) fn to_served(served: &Served, value: &mut Value) -> Result<(), Status> {
    if let Some(converter) = &served.converter {
        // Objects that only a webhook can convert were converted before.
        let converted = converter.convert_in_place(value, &served.api_version);
        return converted.ok_or_else(|| Status::internal("custom resource was not converted"));
    }
    if served.is_stored_form {
        return Ok(());
    }
    let stored = meta::api_version(value).to_owned();
    convert::convert(served.kind(), &stored, &served.api_version, value).map_err(Status::internal)
}

/// One stored object.
pub(crate) async fn object(code: u16, call: &Call, stored: &Bytes, wanted: Wanted) -> Result<Answer, Status> {
    let served = &call.served;
    let is_json = wanted.format == Format::Json && wanted.view == View::Object && !wanted.pretty;
    if is_json && served.sends_stored_text() {
        return Ok(bytes(code, "application/json", stored.clone()));
    }
    let value = match &served.converter {
        Some(_) => crd::served_tree(call, stored).await?,
        None => shown_tree(served, stored)?,
    };
    object_tree(code, served, value, wanted, &call.table_query()?)
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
        View::Object | View::Discovery => value,
        View::Metadata { list: true, .. } => {
            return Err(Status::unfit_view(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                internal_type(served, "")
            )));
        }
        View::Metadata { version, .. } => partial(served.rules, &value, version),
        View::Table(version) => table(served, vec![value], Map::new(), query, version),
    };
    Ok(tree(code, &shown, wanted))
}

/// Upstream's internal type name of a kind.
fn internal_type(served: &Served, suffix: &str) -> String {
    if served.custom().is_some() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    format!("*{}.{}{suffix}", resources::internal_package_of(served.group(), served.kind()), served.kind())
}

/// The metadata view of an object.
pub(crate) fn partial(rules: &Rules, value: &Value, version: &str) -> Value {
    let mut metadata = value.get("metadata").cloned().unwrap_or_else(Value::object);
    for annotation in rules.field_annotations {
        metadata.remove(&["annotations", annotation]);
    }
    if !rules.field_annotations.is_empty()
        && metadata.get("annotations").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        metadata.remove(&["annotations"]);
    }
    let mut map = Map::new();
    map.insert("apiVersion", format!("meta.k8s.io/{version}"));
    map.insert("kind", "PartialObjectMetadata");
    map.insert("metadata", metadata);
    Value::Object(map)
}

/// The table options of a request.
#[derive(Debug, Clone)]
pub(crate) struct TableQuery {
    /// For the ages in rows.
    pub clock: Clock,
    pub include_object: IncludeObject,
    /// Without column definitions, as in the later events of a watch.
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
    table_tree(served, rows, meta, query, version)
}

fn table_tree(served: &Served, rows: Vec<Value>, meta: Map, query: &TableQuery, version: &str) -> Value {
    let mut map = Map::new();
    map.insert("apiVersion", format!("meta.k8s.io/{version}"));
    map.insert("kind", "Table");
    map.insert("metadata", meta);
    let columns = match (query.no_headers, served.custom()) {
        (true, _) => Value::Null,
        (false, Some(version)) => version.columns(),
        (false, None) => columns(served.rules.columns),
    };
    map.insert("columnDefinitions", columns);
    let none = rows.is_empty() && served.custom().is_none() && served.rules.has_null_for_no_rows();
    map.insert("rows", if none { Value::Null } else { Value::from(rows) });
    Value::Object(map)
}

/// The table of a `Scale`, whatever it is of.
pub(crate) fn scale_table(served: &Served, scale: Value, query: &TableQuery, version: &str) -> Value {
    let context = RowContext { now: query.clock.now(), marked: None };
    let (cells, columns) = match served.custom().is_some() {
        true => crd::scale_row(&scale, context.now),
        false => (scale_row(&scale, &context), columns(SCALE_COLUMNS)),
    };
    let mut meta = Map::new();
    meta.insert("resourceVersion", meta::resource_version(&scale));
    let mut row = Map::new();
    row.insert("cells", cells);
    row.insert("object", included(served.rules, scale, query, version));
    let mut map = Map::new();
    map.insert("apiVersion", format!("meta.k8s.io/{version}"));
    map.insert("kind", "Table");
    map.insert("metadata", meta);
    map.insert("columnDefinitions", columns);
    map.insert("rows", vec![Value::Object(row)]);
    Value::Object(map)
}

fn columns(columns: &[corten_registry::Column]) -> Value {
    let column = |(c, description): (&corten_registry::Column, Str)| {
        let mut map = Map::new();
        map.insert("name", c.name);
        map.insert("type", c.kind);
        map.insert("format", c.format);
        map.insert("description", description);
        map.insert("priority", c.priority);
        Value::Object(map)
    };
    Value::Array(columns.iter().zip(column_descriptions::of(columns)).map(column).collect())
}

fn row(
    served: &Served,
    object: Value,
    context: &RowContext<'_>,
    query: &TableQuery,
    table_version: &str,
) -> Value {
    if let Some(version) = served.custom() {
        let mut map = Map::new();
        map.insert("cells", version.row(&object, context.now));
        map.insert("object", included(served.rules, object, query, table_version));
        return Value::Object(map);
    }
    // Rows are made from the stored form, whatever version is served.
    let stored = match (&served.cache, served.is_stored_form) {
        (Some(cache), false) => {
            let mut stored = object.clone();
            match convert::convert(
                &cache.form.kind,
                &served.api_version,
                &cache.form.api_version,
                &mut stored,
            ) {
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
    map.insert("object", included(served.rules, object, query, table_version));
    Value::Object(map)
}

/// The object of a row, as far as the client wants it.
fn included(rules: &Rules, object: Value, query: &TableQuery, version: &str) -> Value {
    match query.include_object {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial(rules, &object, version),
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
    /// The metadata of a list of whole objects. That of custom resources has a continue token even if it is empty.
    fn of_objects(&self, served: &Served) -> Map {
        let mut map = self.to_map();
        if served.custom().is_some() && self.continue_token.is_empty() {
            map.insert("continue", "");
        }
        map
    }

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

/// True if the response consists of the stored text of objects.
pub(crate) fn is_sent_as_kept(
    served: &Served,
    wanted: Wanted,
    seen_through: Option<node_view::View>,
) -> bool {
    let is_whole = served.sends_converted_text() && wanted.view == View::Object && seen_through.is_none();
    is_whole && wanted.format == Format::Json && !wanted.pretty
}

/// A list of stored objects.
pub(crate) fn list(
    served: &Served,
    objects: Vec<Arc<Object>>,
    list_meta: &ListMeta,
    wanted: Wanted,
    query: &TableQuery,
    seen_through: Option<node_view::View>,
) -> Result<Answer, Status> {
    let kind = served.list_kind();
    let is_whole = served.is_stored_form && wanted.view == View::Object && seen_through.is_none();
    let shown_meta = list_meta.of_objects(served);
    if is_sent_as_kept(served, wanted, seen_through) {
        let mut head = Vec::with_capacity(128);
        head.extend_from_slice(b"{\"kind\":");
        json::write_string(&mut head, &kind);
        head.extend_from_slice(b",\"apiVersion\":");
        json::write_string(&mut head, &served.api_version);
        head.extend_from_slice(b",\"metadata\":");
        json::write(&mut head, &Value::Object(shown_meta));
        head.extend_from_slice(b",\"items\":[");
        return Ok(bytes(200, "application/json", ResponseBody::List(ListBody::new(head, objects))));
    }
    if is_whole && wanted.format == Format::Protobuf {
        return protobuf_list(served, &objects, list_meta, &kind);
    }
    let tree_of = |object: &Arc<Object>| {
        let tree = shown_tree(served, &object.json)?;
        Ok(match seen_through {
            Some(view) => view(&tree),
            None => tree,
        })
    };
    // The trees of a whole list would be ten times its text: for metadata alone, one is held at a time.
    if let View::Metadata { version, list: true, .. } = wanted.view {
        let items = objects.iter().map(|object| Ok(partial(served.rules, &tree_of(object)?, version)));
        let items = items.collect::<Result<Vec<_>, Status>>()?;
        return Ok(tree(200, &metadata_list(version, list_meta.to_map(), items), wanted));
    }
    let trees = objects.iter().map(tree_of).collect::<Result<Vec<_>, Status>>()?;
    tree_list(served, trees, (list_meta.to_map(), shown_meta), wanted, query)
}

/// A list of objects that are not stored.
pub(crate) fn computed_list(
    served: &Served,
    trees: Vec<Value>,
    wanted: Wanted,
    query: &TableQuery,
) -> Result<Answer, Status> {
    if let View::Metadata { version, list: true, .. } = wanted.view {
        let items = trees.iter().map(|tree| partial(served.rules, tree, version)).collect();
        return Ok(tree(200, &metadata_list(version, Map::new(), items), wanted));
    }
    tree_list(served, trees, (Map::new(), Map::new()), wanted, query)
}

fn metadata_list(version: &str, list_meta: Map, items: Vec<Value>) -> Value {
    let is_empty = items.is_empty();
    let api_version = format!("meta.k8s.io/{version}");
    let mut shown = list_tree(&api_version, "PartialObjectMetadataList", list_meta, items);
    if is_empty {
        shown.make_object().insert("items", Value::Null);
    }
    shown
}

/// A list of whole objects or a table, with the metadata of either.
fn tree_list(
    served: &Served,
    trees: Vec<Value>,
    (table_meta, shown_meta): (Map, Map),
    wanted: Wanted,
    query: &TableQuery,
) -> Result<Answer, Status> {
    let shown = match wanted.view {
        View::Table(version) => table(served, trees, table_meta, query, version),
        View::Metadata { .. } => {
            return Err(Status::unfit_view(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                internal_type(served, "List")
            )));
        }
        View::Object | View::Discovery => {
            let items = trees.into_iter().map(|tree| item(served, tree)).collect();
            list_tree(&served.api_version, &served.list_kind(), shown_meta, items)
        }
    };
    Ok(tree(200, &shown, wanted))
}

/// A large list in another form than objects are kept in, one object at a time. `None` for what can only be made from all
/// objects at once: protobuf, and tables that sort or mark their rows.
pub(crate) fn rendered_list(
    served: &Arc<Served>,
    objects: &[Arc<Object>],
    list_meta: &ListMeta,
    wanted: Wanted,
    query: &TableQuery,
    seen_through: Option<node_view::View>,
) -> Option<Answer> {
    if is_sent_as_kept(served, wanted, seen_through) {
        return None;
    }
    let of = served.clone();
    let tree_of = move |object: &Object| {
        let tree = shown_tree(&of, &object.json)?;
        Ok::<Value, Status>(match seen_through {
            Some(view) => view(&tree),
            None => tree,
        })
    };
    let objects = objects.to_vec();
    let rendered = match wanted.view {
        View::Metadata { version, list: true, .. } => {
            let api_version = format!("meta.k8s.io/{version}");
            let surround =
                |items| list_tree(&api_version, "PartialObjectMetadataList", list_meta.to_map(), items);
            let rules = served.rules;
            let show = move |object: &Object| Ok(partial(rules, &tree_of(object)?, version));
            Rendered::new(wanted, surround, objects, Box::new(show))
        }
        View::Table(version) if matches!(served.rules.listing, Listing::Plain) => {
            // Tables have no protobuf form: they are JSON then.
            let json = Wanted { format: Format::Json, pretty: false, ..wanted };
            let wanted = if wanted.format == Format::Protobuf { json } else { wanted };
            let surround = |rows| table_tree(served, rows, list_meta.to_map(), query, version);
            let (of, query, now) = (served.clone(), query.clone(), query.clock.now());
            let show = move |object: &Object| {
                let context = RowContext { now, marked: None };
                Ok(row(&of, tree_of(object)?, &context, &query, version))
            };
            return Some(rendered_answer(wanted, Rendered::new(wanted, surround, objects, Box::new(show))?));
        }
        View::Object | View::Discovery => {
            let kind = served.list_kind();
            let (of, meta) = (served.clone(), list_meta.of_objects(served));
            let surround = |items| list_tree(&served.api_version, &kind, meta, items);
            let show = move |object: &Object| Ok(item(&of, tree_of(object)?));
            Rendered::new(wanted, surround, objects, Box::new(show))
        }
        View::Metadata { .. } | View::Table(_) => None,
    };
    rendered.map(|list| rendered_answer(wanted, list))
}

fn rendered_answer(wanted: Wanted, list: Rendered) -> Answer {
    bytes(200, wanted.format.content_type(), ResponseBody::Rendered(Box::new(list)))
}

/// An item of a list: those of built-in kinds do not repeat their kind.
fn item(served: &Served, mut value: Value) -> Value {
    if let (Some(map), None) = (value.as_object_mut(), served.custom()) {
        map.remove("kind");
        map.remove("apiVersion");
    }
    value
}

fn list_tree(api_version: &str, kind: &str, list_meta: Map, items: Vec<Value>) -> Value {
    let mut map = Map::new();
    map.insert("apiVersion", api_version);
    map.insert("kind", kind);
    map.insert("metadata", list_meta);
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
        protobuf::encode(&served.schema(), &tree, &mut item).map_err(Status::internal)?;
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
