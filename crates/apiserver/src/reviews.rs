//! Resources that are answered and not kept: access reviews, token reviews, bindings, component statuses, metrics.

use corten_api::{Map, Status, Value, meta};

use crate::access_reviews;
use crate::authentication;
use crate::call::Call;
use crate::decode::{self, FieldValidation};
use crate::resource_metrics;
use crate::respond::{self, Answer};
use crate::verbs::{binding, write};

pub(crate) async fn answer(call: &mut Call, verb: &str) -> Result<Answer, Status> {
    if call.served.group() == resource_metrics::GROUP {
        return resource_metrics::answer(call, verb);
    }
    match (call.served.name(), verb) {
        ("bindings", "create") => bind(call).await,
        ("componentstatuses", "list") => component_list(call),
        ("componentstatuses", "get") => component(call),
        (_, "create") => review(call),
        _ => Err(Status::method_not_allowed()),
    }
}

/// The old way to bind a pod: named by the binding itself.
async fn bind(call: &mut Call) -> Result<Answer, Status> {
    let decoded =
        decode::object(&call.headers, &call.body, call.expected(), FieldValidation::parse(&call.query)?)?;
    call.at.name = meta::name(&decoded.object).into();
    let pods = call.backend.catalog.get("", "v1", "pods").ok_or_else(Status::unknown_path)?.clone();
    call.served = pods;
    binding::bind(call).await
}

fn review(call: &mut Call) -> Result<Answer, Status> {
    let wanted = call.wanted_whole()?;
    let validation = FieldValidation::parse(&call.query)?;
    let decoded = decode::object(&call.headers, &call.body, call.expected(), validation)?;
    call.warnings.extend(decoded.warnings);
    let mut object = decoded.object;
    let status = match call.served.name() {
        "selfsubjectreviews" => {
            return Ok(respond::tree(201, &authentication::review_self(call), wanted));
        }
        "tokenreviews" => {
            write::own_changes(call, "", None, &mut object);
            authentication::review_token(call, &object)?
        }
        _ => {
            let mut answer = access_reviews::answer(call, object)?;
            decode::conform_whole(&mut answer, call.expected(), &mut Vec::new())?;
            return Ok(respond::tree(201, &answer, wanted));
        }
    };
    object.set(&["status"], status);
    decode::conform_whole(&mut object, call.expected(), &mut Vec::new())?;
    Ok(respond::tree(201, &object, wanted))
}

fn healthy(name: &str) -> Value {
    let mut condition = Map::new();
    condition.insert("type", "Healthy");
    condition.insert("status", "True");
    condition.insert("message", "ok");
    let mut object = Value::object();
    object.set(&["kind"], "ComponentStatus");
    object.set(&["apiVersion"], "v1");
    object.set(&["metadata", "name"], name);
    object.set(&["conditions"], vec![Value::Object(condition)]);
    object
}

/// The parts that run in this process and can be told to be well: the store.
const COMPONENTS: [&str; 1] = ["etcd-0"];

fn component_list(call: &Call) -> Result<Answer, Status> {
    let wanted = crate::negotiate::wanted(&call.headers, call.query.get("pretty"), true)?;
    let items: Vec<Value> = COMPONENTS.iter().map(|name| healthy(name)).collect();
    if let crate::negotiate::View::Table(version) = wanted.view {
        let table = respond::table(&call.served, items, Map::new(), &call.table_query()?, version);
        return Ok(respond::tree(200, &table, wanted));
    }
    let mut list = Value::object();
    list.set(&["kind"], "ComponentStatusList");
    list.set(&["apiVersion"], "v1");
    list.set(&["metadata"], Map::new());
    list.set(&["items"], items);
    Ok(respond::tree(200, &list, wanted))
}

fn component(call: &Call) -> Result<Answer, Status> {
    if !COMPONENTS.contains(&call.at.name.as_str()) {
        return Err(call.not_found());
    }
    respond::object_tree(200, &call.served, healthy(&call.at.name), call.wanted()?, &call.table_query()?)
}
