//! `serviceaccounts/token`: issues a token for a service account, bound to the object that the client names.

use corten_api::status::ErrorList;
use corten_api::{Status, Value, managed, meta, resources, time};
use corten_auth::authentication::service_account_token::{Issue, Reference};
use corten_auth::authentication::token_request::{self, Bound};
use jiff::SignedDuration;

use super::prepare;
use super::subresource::current;
use super::write::Ownership;
use crate::admission::{self, Write};
use crate::call::Call;
use crate::decode::{self, Expected, FieldValidation};
use crate::random;
use crate::respond::{self, Answer};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const API_VERSION: &str = "authentication.k8s.io/v1";
const SUBRESOURCE: &str = "token";
/// The default lifetime of tokens.
const LIFETIME: i64 = 60 * 60;

/// The objects that a token is bound to.
#[derive(Default)]
struct Binding {
    secret: Option<Reference>,
    pod: Option<Reference>,
    node: Option<Reference>,
}

pub(crate) async fn create(call: &mut Call) -> Result<Answer, Status> {
    let validation = FieldValidation::parse(&call.query)?;
    let dry_run = call.dry_run("CreateOptions")?;
    let wanted = call.wanted_whole()?;
    let no_schema = || Status::internal(format!("no {KIND}"));
    let schema = resources::schema_of(GROUP, "v1", KIND).ok_or_else(no_schema)?;
    let expected = Expected { schema: &schema, custom: None, kind: KIND, api_version: API_VERSION };
    let decoded = decode::object(&call.headers, &call.body, expected, validation)?;
    call.warnings.extend(decoded.warnings);
    let mut request = decoded.object?;
    if request.int_at(&["spec", "expirationSeconds"]).is_none() {
        request.set(&["spec", "expirationSeconds"], LIFETIME);
    }
    prepare::agree_on_namespace(call, &mut request)?;
    let owner = Ownership::of(call, SUBRESOURCE);
    managed::update(&owner.context_for(&schema, API_VERSION), None, &mut request);
    let write = Write::create(SUBRESOURCE, dry_run);
    admission::admit(call, write, &mut request).await?;
    let account = prepare_for(call, &mut request).await?;
    admission::validate(call, write, &request).await?;
    sign(call, &account, &mut request)?;
    decode::conform_whole(&mut request, expected, &mut Vec::new())?;
    Ok(respond::tree(201, &request, wanted))
}

/// Sets the defaults of a request from its service account, and validates it.
async fn prepare_for(call: &Call, request: &mut Value) -> Result<Value, Status> {
    let name = call.at.name.as_str();
    let asked = meta::name(request);
    if !asked.is_empty() && asked != name {
        let mut errors = ErrorList::new();
        errors.invalid(
            "metadata.name",
            &Value::from(asked),
            "must match the service account name if specified",
        );
        return Err(Status::invalid(GROUP, KIND, name, &errors));
    }
    let account = current(call).await?.tree;
    let (asked, found) = (meta::uid(request), meta::uid(&account));
    if !asked.is_empty() && asked != found {
        let why = format!(
            "the UID in the token request ({asked}) does not match the UID of the service account ({found})"
        );
        return Err(Status::conflict(GROUP, KIND, name, why));
    }
    if request.items_at(&["spec", "audiences"]).is_empty() {
        let own = &call.backend.authentication.issuer.audiences;
        let own: Vec<Value> = own.iter().map(|audience| Value::from(audience.as_str())).collect();
        request.set(&["spec", "audiences"], own);
    }
    meta::set_text(request, "name", name);
    meta::set_text(request, "uid", found);
    request.set(&["metadata", "creationTimestamp"], time::format(call.now));
    request.remove(&["status"]);
    let errors = token_request::validate(request.get("spec").unwrap_or(&Value::Null));
    if errors.is_empty() { Ok(account) } else { Err(Status::invalid(GROUP, KIND, "", &errors)) }
}

/// Issues the token and sets it in the request's status.
fn sign(call: &mut Call, account: &Value, request: &mut Value) -> Result<(), Status> {
    let binding = binding(call, request)?;
    let backend = call.backend.clone();
    let issuer = &backend.authentication.issuer;
    let audiences = request.items_at(&["spec", "audiences"]).iter().filter_map(Value::as_str);
    let audiences: Vec<String> = audiences.map(str::to_owned).collect();
    let for_api = audiences.iter().all(|audience| issuer.audiences.contains(audience));
    let asked = request.int_at(&["spec", "expirationSeconds"]).unwrap_or(LIFETIME);
    let lifetime = issuer.lifetimes.lifetime(asked, binding.pod.is_some(), for_api);
    if lifetime.reported < asked {
        let reported = lifetime.reported;
        call.warnings
            .push(format!("requested expiration of {asked} seconds shortened to {reported} seconds"));
        request.set(&["spec", "expirationSeconds"], reported);
    }
    let issue = Issue {
        issuer: &issuer.name,
        account,
        secret: binding.secret,
        pod: binding.pod,
        node: binding.node,
        audiences: &audiences,
        id: &random::uuid(),
        now: call.now,
        lifetime: lifetime.actual,
        warn_after: lifetime.warn_after,
    };
    let token = issuer.key.token(&issue.claims());
    let token = token.ok_or_else(|| Status::internal("failed to generate token"))?;
    let expires =
        call.now.checked_add(SignedDuration::from_secs(lifetime.reported)).map_err(Status::internal)?;
    request.set(&["status", "token"], token);
    request.set(&["status", "expirationTimestamp"], time::format(expires));
    Ok(())
}

/// The object that the request binds its token to, if it exists and may be bound to.
fn binding(call: &Call, request: &Value) -> Result<Binding, Status> {
    let Some(reference) = request.at(&["spec", "boundObjectRef"]).filter(|r| !r.is_null()) else {
        return Ok(Binding::default());
    };
    let kind = token_request::bound_kind(reference).map_err(Status::bad_request)?;
    let name = reference.str_at(&["name"]).unwrap_or_default();
    let namespace = call.at.namespace.as_str();
    let get = |resource: &str, namespace: &str, name: &str| {
        let found = call.backend.catalog.cache("", resource).and_then(|cache| cache.get(namespace, name));
        found.map(|object| object.tree()).ok_or_else(|| Status::not_found("", resource, name))
    };
    let mut binding = Binding::default();
    let (bound, kind) = match kind {
        Bound::Pod => {
            let pod = get("pods", namespace, name)?;
            if pod.str_at(&["spec", "serviceAccountName"]) != Some(&call.at.name) {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    call.at.name
                )));
            }
            binding.node = pod.str_at(&["spec", "nodeName"]).filter(|node| !node.is_empty()).map(|node| {
                // A node without a Node object is still named in the token.
                let unknown = Reference { name: node.to_owned(), uid: String::new() };
                get("nodes", "", node).map_or(unknown, |node| Reference::to(&node))
            });
            (binding.pod.insert(Reference::to(&pod)), "Pod")
        }
        Bound::Node => (binding.node.insert(Reference::to(&get("nodes", "", name)?)), "Node"),
        Bound::Secret => (binding.secret.insert(Reference::to(&get("secrets", namespace, name)?)), "Secret"),
    };
    let asked = reference.str_at(&["uid"]).unwrap_or_default();
    if !asked.is_empty() && asked != bound.uid {
        let why = format!(
            "the UID in the bound object reference ({asked}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", kind, name, why));
    }
    Ok(binding)
}
