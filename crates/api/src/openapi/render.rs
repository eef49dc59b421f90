//! Paths and operations as the documents spell them.

use super::operations::{Body, Content, Media, Operation, PathItem};
use super::parameters::Parameter;
use super::{Dialect, names, schemas};
use crate::schema::StructRef;
use crate::{Map, Value, value};

const OBJECTS: &[&str] = &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"];
const STREAMS: &[&str] = &[
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
];
const LOG: &[&str] =
    &["application/json", "application/vnd.kubernetes.protobuf", "application/yaml", "text/plain"];
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

impl Media {
    fn types(self) -> Vec<&'static str> {
        match self {
            Media::Objects => OBJECTS.to_vec(),
            Media::Streams => STREAMS.to_vec(),
            Media::Log => LOG.to_vec(),
            Media::Any => vec!["*/*"],
            Media::Only(one) => vec![one],
        }
    }
}

/// A path with its operations. What all of them take stands once, beside them.
pub(super) fn path_item(item: &PathItem, dialect: Dialect) -> Value {
    let mut common = item.operations.first().map(|o| o.parameters.clone()).unwrap_or_default();
    common.retain(|parameter| item.operations.iter().all(|o| o.parameters.contains(parameter)));
    let mut rendered = Map::new();
    for operation in &item.operations {
        let own: Vec<Parameter> =
            operation.parameters.iter().copied().filter(|parameter| !common.contains(parameter)).collect();
        rendered.insert(operation.method, self::operation(operation, &own, dialect));
    }
    if !common.is_empty() {
        rendered.insert("parameters", parameter_list(&common, subject(item), dialect));
    }
    Value::Object(rendered)
}

/// The kind whose name a path asks for.
fn subject(item: &PathItem) -> &str {
    item.operations.first().and_then(|o| o.kind.as_ref()).map_or("object", |kind| kind.kind.as_str())
}

fn operation(operation: &Operation, own: &[Parameter], dialect: Dialect) -> Value {
    let mut rendered = Map::new();
    rendered.insert("description", operation.description.as_str());
    rendered.insert("operationId", operation.id.as_str());
    rendered.insert("tags", vec![Value::from(operation.tag.as_str())]);
    if let Some(action) = operation.action {
        rendered.insert("x-kubernetes-action", action);
    }
    if let Some(kind) = &operation.kind {
        rendered.insert("x-kubernetes-group-version-kind", schemas::kind_value(kind));
    }
    let mut parameters = parameter_list(own, "object", dialect);
    match dialect {
        Dialect::V2 => {
            let (consumes, body) = v2_body(&operation.body);
            rendered.insert("consumes", strings(consumes));
            rendered.insert("produces", strings(&operation.media.types()));
            rendered.insert("schemes", strings(&["https"]));
            parameters.extend(body);
        }
        Dialect::V3 => {
            if let Some(body) = v3_body(&operation.body) {
                rendered.insert("requestBody", body);
            }
        }
    }
    if !parameters.is_empty() {
        rendered.insert("parameters", parameters);
    }
    rendered.insert("responses", responses(operation, dialect));
    Value::Object(rendered)
}

fn parameter_list(parameters: &[Parameter], subject: &str, dialect: Dialect) -> Vec<Value> {
    let mut sorted = parameters.to_vec();
    sorted.sort_by_key(|parameter| (parameter.name, parameter.place));
    sorted.iter().map(|parameter| parameter_or_reference(parameter, subject, dialect)).collect()
}

fn parameter_or_reference(parameter: &Parameter, subject: &str, dialect: Dialect) -> Value {
    if dialect == Dialect::V2 && parameter.shared() {
        return value!({"$ref": (format!("#/parameters/{}", parameter.shared_name()))});
    }
    let mut rendered = self::parameter(parameter, dialect);
    if parameter.name == "name" {
        rendered.set(&["description"], format!("name of the {subject}"));
    }
    rendered
}

pub(super) fn parameter(parameter: &Parameter, dialect: Dialect) -> Value {
    let mut rendered = Map::new();
    rendered.insert("description", parameter.description);
    rendered.insert("in", parameter.place.name());
    rendered.insert("name", parameter.name);
    if parameter.place.name() == "path" {
        rendered.insert("required", true);
    }
    match dialect {
        Dialect::V2 => {
            rendered.insert("type", parameter.kind);
            rendered.insert("uniqueItems", true);
        }
        Dialect::V3 => {
            drop(rendered.insert("schema", value!({"type": (parameter.kind), "uniqueItems": true})))
        }
    }
    Value::Object(rendered)
}

fn v2_body(body: &Body) -> (&'static [&'static str], Option<Value>) {
    let (types, of, required) = match body {
        Body::None => return (&["*/*"], None),
        Body::Required(of) => (&["*/*"][..], of, true),
        Body::Optional(of) => (&["*/*"][..], of, false),
        Body::Patch(of) => (PATCHES, of, true),
    };
    let mut parameter = value!({"in": "body", "name": "body", "schema": (reference(of, Dialect::V2))});
    if required {
        parameter.set(&["required"], true);
    }
    (types, Some(parameter))
}

fn v3_body(body: &Body) -> Option<Value> {
    let (types, of, required) = match body {
        Body::None => return None,
        Body::Required(of) => (&["*/*"][..], of, true),
        Body::Optional(of) => (&["*/*"][..], of, false),
        Body::Patch(of) => (PATCHES, of, true),
    };
    let mut rendered = value!({"content": (content(types, &reference(of, Dialect::V3)))});
    if required {
        rendered.set(&["required"], true);
    }
    Some(rendered)
}

fn responses(operation: &Operation, dialect: Dialect) -> Value {
    let schema = match &operation.content {
        Content::Text => value!({"type": "string"}),
        Content::Object(of) => reference(of, dialect),
    };
    let mut rendered = Map::new();
    for (code, description) in operation.codes {
        let response = match dialect {
            Dialect::V2 => value!({"description": (*description), "schema": (schema.clone())}),
            Dialect::V3 => {
                value!({"content": (content(&operation.media.types(), &schema)), "description": (*description)})
            }
        };
        rendered.insert(*code, response);
    }
    rendered.insert("401", value!({"description": "Unauthorized"}));
    Value::Object(rendered)
}

fn content(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|media| ((*media).into(), value!({"schema": (schema.clone())}))).collect::<Map>().into()
}

fn reference(of: &StructRef, dialect: Dialect) -> Value {
    value!({"$ref": (dialect.reference(&names::type_name(&of.package, &of.name)))})
}

fn strings(items: &[&str]) -> Vec<Value> {
    items.iter().map(|item| Value::from(*item)).collect()
}
