//! Access reviews: the authorizer's decision about a request that the object describes, in the object's status.

use corten_api::selector::{FieldRequirement, FieldSelector, LabelSelector, Operator, Requirement};
use corten_api::status::ErrorList;
use corten_api::{Map, Status, Str, Value, meta};
use corten_auth::rbac::{self, Rule};
use corten_auth::{Attributes, Decision, User};

use crate::authorization;
use crate::call::Call;
use crate::verbs::{prepare, write};

/// The review with its status filled in.
pub(crate) fn answer(call: &Call, mut object: Value) -> Result<Value, Status> {
    if call.served.name() == "selfsubjectrulesreviews" {
        return rules(call, &object);
    }
    prepare::agree_on_namespace(call, &mut object)?;
    write::own_new(call, &mut object);
    let mut errors = ErrorList::new();
    (call.served.rules.validate_create)(&object, &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid(call.served.group(), "", "", &errors));
    }
    let empty = Value::object();
    let spec = object.get("spec").unwrap_or(&empty);
    let status = match call.served.name() {
        "selfsubjectaccessreviews" => access(call, &call.user, spec),
        _ => access(call, &subject(spec), spec),
    };
    object.set(&["status"], status);
    Ok(object)
}

/// The user of the reviewed request.
fn subject(spec: &Value) -> User {
    let texts = |items: &[Value]| items.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let text = |key| spec.str_at(&[key]).unwrap_or_default().to_owned();
    let extra = spec.get("extra").and_then(Value::as_object);
    let extra = extra.into_iter().flat_map(Map::iter);
    User {
        name: text("user"),
        uid: text("uid"),
        groups: texts(spec.items_at(&["groups"])),
        extra: extra
            .map(|(key, values)| (key.to_string(), texts(values.as_array().unwrap_or_default())))
            .collect(),
    }
}

/// The authorizer's decision about the request that a review describes, as its status.
fn access(call: &Call, user: &User, spec: &Value) -> Value {
    let selectors = Selectors::read(spec.get("resourceAttributes"));
    let text = |at: &Value, key: &str| at.str_at(&[key]).unwrap_or_default().to_owned();
    let decision = match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(at), _) => {
            let [verb, group, version, resource] =
                ["verb", "group", "version", "resource"].map(|k| text(at, k));
            let [namespace, subresource, name] = ["namespace", "subresource", "name"].map(|k| text(at, k));
            let attributes = Attributes {
                namespace: &namespace,
                version: if version.is_empty() { "*" } else { &version },
                subresource: &subresource,
                name: &name,
                field_selector: selectors.fields.as_ref(),
                label_selector: selectors.labels.as_ref(),
                ..Attributes::resource(user, &verb, &group, &resource)
            };
            authorization::authorize(&call.backend, &attributes)
        }
        (None, at) => {
            let empty = Value::Null;
            let at = at.unwrap_or(&empty);
            let (verb, path) = (text(at, "verb"), text(at, "path"));
            authorization::authorize(&call.backend, &Attributes::path(user, &verb, &path))
        }
    };
    let mut status = Map::new();
    status.insert("allowed", decision.is_allowed());
    if matches!(decision, Decision::Deny(_)) {
        status.insert("denied", true);
    }
    let (Decision::Allow(reason) | Decision::Deny(reason) | Decision::NoOpinion(reason)) = decision;
    if !reason.is_empty() {
        status.insert("reason", reason);
    }
    if !selectors.problems.is_empty() {
        status.insert("evaluationError", selectors.problems.join("; "));
    }
    Value::Object(status)
}

/// The selectors of the described request. Requirements that cannot be parsed are left out: the reviewed request is
/// then wider than the described one, never narrower.
#[derive(Default)]
struct Selectors {
    fields: Option<FieldSelector>,
    labels: Option<LabelSelector>,
    problems: Vec<String>,
}

impl Selectors {
    fn read(attributes: Option<&Value>) -> Selectors {
        let mut selectors = Selectors::default();
        let part = |key| attributes.and_then(|a| a.get(key)).filter(|selector| !selector.is_null());
        if let Some(selector) = part("fieldSelector") {
            let (fields, bad) = match selector.items_at(&["requirements"]) {
                [] => parsed(FieldSelector::parse(raw(selector))),
                items => {
                    let (good, bad) = each(items, field_requirement);
                    ((!good.is_empty()).then(|| FieldSelector::all(good)), bad)
                }
            };
            selectors.report_invalid("fieldSelector", fields.is_some(), bad);
            selectors.fields = fields;
        }
        if let Some(selector) = part("labelSelector") {
            let (labels, bad) = match selector.items_at(&["requirements"]) {
                [] => parsed(LabelSelector::parse(raw(selector))),
                items => {
                    let (good, bad) = each(items, label_requirement);
                    ((!good.is_empty()).then(|| LabelSelector::all(good)), bad)
                }
            };
            selectors.report_invalid("labelSelector", labels.is_some(), bad);
            selectors.labels = labels;
        }
        selectors
    }

    fn report_invalid(&mut self, field: &str, some: bool, bad: bool) {
        if bad {
            let how = if some { "partially ignored" } else { "ignored" };
            self.problems.push(format!("spec.resourceAttributes.{field} {how} due to parse error"));
        }
    }
}

fn raw(selector: &Value) -> &str {
    selector.str_at(&["rawSelector"]).unwrap_or_default()
}

/// A selector, and true if it could not be parsed.
fn parsed<S, E>(selector: Result<S, E>) -> (Option<S>, bool) {
    let bad = selector.is_err();
    (selector.ok(), bad)
}

/// The valid requirements, and true if there are invalid ones.
fn each<R>(items: &[Value], read: fn(&Value) -> Option<R>) -> (Vec<R>, bool) {
    let good: Vec<R> = items.iter().filter_map(read).collect();
    let bad = good.len() < items.len();
    (good, bad)
}

fn values(requirement: &Value) -> Vec<Str> {
    requirement.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::new).collect()
}

fn field_requirement(requirement: &Value) -> Option<FieldRequirement> {
    let equal = match requirement.str_at(&["operator"])? {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let field = requirement.str_at(&["key"]).unwrap_or_default().into();
    match values(requirement).as_slice() {
        [value] => Some(FieldRequirement { field, equal, value: value.clone() }),
        _ => None,
    }
}

fn label_requirement(requirement: &Value) -> Option<Requirement> {
    let operator = match requirement.str_at(&["operator"])? {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    Requirement::new(key, operator, values(requirement)).ok()
}

/// The rules of the requesting user in a namespace.
fn rules(call: &Call, object: &Value) -> Result<Value, Status> {
    let namespace = object.str_at(&["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let found = call.backend.authorizer.rules_for(&call.user, namespace);
    let list = |of: fn(&Rule) -> bool, keys: [&str; 2]| -> Vec<Value> {
        let shown = |rule: &Rule| {
            let mut rule = rule.to_value();
            keys.iter().for_each(|key| drop(rule.remove(&[key])));
            rule
        };
        found.rules.iter().filter(|rule| of(rule)).map(shown).collect()
    };
    let mut status = Map::new();
    let resource_rules = list(|rule| !rule.resources.is_empty(), ["nonResourceURLs", ""]);
    status.insert("resourceRules", resource_rules);
    let mut other_rules = list(|rule| !rule.non_resource_urls.is_empty(), ["apiGroups", "resources"]);
    other_rules.iter_mut().for_each(|rule| drop(rule.remove(&["resourceNames"])));
    status.insert("nonResourceRules", other_rules);
    status.insert("incomplete", found.incomplete);
    if let Some(error) = rbac::summary(found.errors.into_iter()) {
        status.insert("evaluationError", error);
    }
    let mut answer = Value::object();
    answer.set(&["kind"], meta::kind(object));
    answer.set(&["apiVersion"], meta::api_version(object));
    answer.set(&["metadata"], Map::new());
    answer.set(&["spec"], Map::new());
    answer.set(&["status"], status);
    Ok(answer)
}
