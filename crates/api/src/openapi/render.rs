//! Paths and operations in the format of the documents.

use super::operations::{Body, Content, Operation, PathItem, Target};
use super::parameters::{self, Parameter};
use super::{Dialect, schemas};
use crate::schema::StructRef;
use crate::{Map, Value, value};

/// A path with its operations. Parameters that all of them take are written once, beside them.
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

/// The kind whose name is a parameter of a path.
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
            if !operation.consumes.is_empty() {
                rendered.insert("consumes", strings(operation.consumes));
            }
            rendered.insert("produces", strings(operation.produces));
            rendered.insert("schemes", strings(&["https"]));
            // The parameters are in order of name, and no other name comes before it.
            parameters.splice(0..0, v2_body(&operation.body));
        }
        Dialect::V3 => {
            if let Some(body) = v3_body(operation) {
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
    if dialect == Dialect::V2
        && let Some(name) = parameter.shared_name()
    {
        return shared(&name);
    }
    let mut rendered = self::parameter(parameter, dialect);
    if parameter.name == "name" {
        rendered.set(&["description"], format!("name of the {subject}"));
    }
    rendered
}

fn shared(name: &str) -> Value {
    value!({"$ref": (format!("#/parameters/{name}"))})
}

/// The parameters of version 2 that an operation refers to, by name.
pub(super) fn shared_parameters(operation: &Operation) -> impl Iterator<Item = (String, Value)> {
    let body = match &operation.body {
        Body::Delete(of) => Some((parameters::DELETE_BODY.to_owned(), body_parameter(of, false))),
        Body::Patch(of) => Some((parameters::PATCH_BODY.to_owned(), body_parameter(of, true))),
        Body::None | Body::Required(_) => None,
    };
    let others = operation.parameters.iter().filter_map(|parameter| {
        parameter.shared_name().map(|name| (name, self::parameter(parameter, Dialect::V2)))
    });
    body.into_iter().chain(others)
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

fn v2_body(body: &Body) -> Option<Value> {
    match body {
        Body::None => None,
        Body::Required(of) => Some(body_parameter(of, true)),
        Body::Delete(_) => Some(shared(parameters::DELETE_BODY)),
        Body::Patch(_) => Some(shared(parameters::PATCH_BODY)),
    }
}

fn body_parameter(of: &Target, required: bool) -> Value {
    let mut parameter = value!({"in": "body", "name": "body", "schema": (reference(of, Dialect::V2))});
    if required {
        parameter.set(&["required"], true);
    }
    parameter
}

fn v3_body(operation: &Operation) -> Option<Value> {
    let (of, required) = match &operation.body {
        Body::None => return None,
        Body::Required(of) | Body::Patch(of) => (of, true),
        Body::Delete(of) => (of, false),
    };
    let mut rendered = value!({"content": (content(operation.consumes, &reference(of, Dialect::V3)))});
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
                value!({"content": (content(operation.produces, &schema)), "description": (*description)})
            }
        };
        rendered.insert(*code, response);
    }
    rendered.insert("401", value!({"description": "Unauthorized"}));
    Value::Object(rendered)
}

/// The built-in types that a path refers to directly, by the names of their definitions.
pub(super) fn roots(item: &PathItem) -> impl Iterator<Item = (String, StructRef)> {
    item.operations.iter().flat_map(|operation| {
        let body = match &operation.body {
            Body::None => None,
            Body::Required(of) | Body::Delete(of) | Body::Patch(of) => Some(of),
        };
        let content = match &operation.content {
            Content::Text => None,
            Content::Object(of) => Some(of),
        };
        let both = body.into_iter().chain(content);
        both.filter_map(|target| target.of.clone().map(|of| (target.name.clone(), of)))
    })
}

fn content(types: &[&str], schema: &Value) -> Value {
    types.iter().map(|media| ((*media).into(), value!({"schema": (schema.clone())}))).collect::<Map>().into()
}

fn reference(of: &Target, dialect: Dialect) -> Value {
    value!({"$ref": (dialect.reference(&of.name))})
}

fn strings(items: &[&str]) -> Vec<Value> {
    items.iter().map(|item| Value::from(*item)).collect()
}
