//! Resources that are not stored: access reviews, token reviews, bindings, component statuses, metrics.

use corten_api::{Map, Status, Value, meta};

use crate::access_reviews;
use crate::authentication;
use crate::call::Call;
use crate::decode;
use crate::dispatch::check_name;
use crate::resource_metrics;
use crate::respond::{self, Answer};
use crate::verbs::{binding, list, prepare, write};
use crate::write_options::WriteOptions;

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

/// Creates a `Binding`, the older form of `pods/binding`: the binding's own name is the pod's.
async fn bind(call: &mut Call) -> Result<Answer, Status> {
    let WriteOptions { validation, .. } = WriteOptions::read(&call.query, "CreateOptions")?;
    let decoded = decode::object(&call.headers, &call.body, call.expected(), validation)?;
    // Decoding below gives the warnings of a binding of this version.
    let binding = match decoded.object {
        Ok(binding) => binding,
        Err(refusal) => {
            call.warnings.extend(decoded.warnings);
            return Err(refusal);
        }
    };
    call.at.name = meta::name(&binding).into();
    check_name(&call.at.name)?;
    binding::bind(call, "").await
}

/// Creates a review. As upstream, no webhook and no policy sees it: they could shut every client out, themselves included.
fn review(call: &mut Call) -> Result<Answer, Status> {
    let WriteOptions { validation, .. } = WriteOptions::read(&call.query, "CreateOptions")?;
    let wanted = call.wanted_whole()?;
    let decoded = decode::object(&call.headers, &call.body, call.expected(), validation)?;
    call.warnings.extend(decoded.warnings);
    let mut object = decoded.object?;
    prepare::wipe_system_fields(&mut object);
    let status = match call.served.name() {
        "selfsubjectreviews" => {
            return Ok(respond::tree(201, &authentication::review_self(call), wanted));
        }
        "tokenreviews" => {
            prepare::agree_on_namespace(call, &mut object)?;
            write::own_new(call, &mut object);
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

/// The component statuses: only the store, which runs in this process.
const COMPONENTS: [&str; 1] = ["etcd-0"];

fn component_list(call: &Call) -> Result<Answer, Status> {
    let wanted = call.wanted_list()?;
    list::check_options(call)?;
    let filter = list::filter(call)?;
    let items =
        COMPONENTS.iter().filter(|name| filter.matches_name(name)).map(|name| healthy(name)).collect();
    respond::computed_list(&call.served, items, wanted, &call.table_query()?)
}

fn component(call: &Call) -> Result<Answer, Status> {
    let wanted = call.wanted()?;
    if !COMPONENTS.contains(&call.at.name.as_str()) {
        // Upstream names the resource in the singular here.
        return Err(Status::not_found(call.served.group(), "componentstatus", &call.at.name));
    }
    respond::object_tree(200, &call.served, healthy(&call.at.name), wanted, &call.table_query()?)
}
