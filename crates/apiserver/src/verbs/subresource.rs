//! Subresources: `status` and similar ones write a part of the object; `binding`, `eviction` and `scale` are objects of
//! their own, in files of their own. Proxied ones are handled by `connect`.

use corten_api::resources::{self, Subresource};
use corten_api::{Status, Value};

use super::write::Current;
use super::{binding, eviction, list, patch as patch_verb, scale, token, write};
use crate::call::Call;
use crate::decode::{self, Expected, FieldValidation};
use crate::respond::Answer;

/// Handles a verb on a subresource.
pub(crate) async fn call(call: &mut Call, verb: &str, subresource: &Subresource) -> Result<Answer, Status> {
    let whole = subresource.group_version.is_none() && subresource.kind == call.served.kind();
    match (subresource.name.as_str(), verb) {
        (_, "get") if whole => list::get(call).await,
        (name, "update") if whole => write::update(call, name).await,
        (name, "patch") if whole => patch_verb::patch(call, name).await,
        ("scale", "get") => scale::get(call).await,
        ("scale", "update" | "patch") => scale::change(call, verb).await,
        ("binding", "create") => binding::bind(call, "binding").await,
        ("eviction", "create") => eviction::evict(call).await,
        ("token", "create") => token::create(call).await,
        _ => Err(Status::method_not_allowed()),
    }
}

pub(super) async fn current(call: &Call) -> Result<Current, Status> {
    Current::read(call, list::cache(call)?).await?.ok_or_else(|| call.not_found())
}

/// Decodes the body as an object of a kind whose versions are all equal.
pub(super) fn decode_as(call: &mut Call, group: &str, version: &str, kind: &str) -> Result<Value, Status> {
    let schema =
        resources::schema_of(group, "v1", kind).ok_or_else(|| Status::internal(format!("no {kind}")))?;
    let api_version = resources::api_version(group, version);
    let expected = Expected { schema: &schema, custom: None, kind, api_version: &api_version };
    let decoded = decode::object(&call.headers, &call.body, expected, FieldValidation::parse(&call.query)?)?;
    call.warnings.extend(decoded.warnings);
    decoded.object
}

/// Sets a condition of a pod to true, with reason and message if there are any; its time is kept if it was
/// true before.
pub(super) fn update_condition(pod: &mut Value, kind: &str, why: Option<(&str, &str)>, now: &str) {
    let conditions = pod.make_object().entry("status").make_object().entry("conditions").make_array();
    let existing = conditions.iter().position(|condition| condition.str_at(&["type"]) == Some(kind));
    let since = existing
        .map(|index| &conditions[index])
        .filter(|condition| condition.str_at(&["status"]) == Some("True"))
        .and_then(|condition| condition.get("lastTransitionTime").cloned());
    let mut condition = Value::object();
    condition.set(&["type"], kind);
    condition.set(&["status"], "True");
    condition.set(&["lastProbeTime"], Value::Null);
    condition.set(&["lastTransitionTime"], since.unwrap_or_else(|| now.into()));
    if let Some((reason, message)) = why {
        condition.set(&["reason"], reason);
        condition.set(&["message"], message);
    }
    match existing {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}
