//! Whether a request may be done: the authorizers of `--authorization-mode`, asked in their order.
//!
//! What is refused here is refused for every path; there is no way around these functions. Members of
//! `system:masters` are allowed before anybody is asked, so that a cluster can always be repaired.

mod impersonation;

use corten_api::Status;
use corten_api::selector::{FieldSelector, LabelSelector};
use corten_auth::{AUTHENTICATED, Attributes, Decision, MASTERS, User};

use crate::call::Backend;
use crate::request::{Query, RequestInfo};

pub(crate) use impersonation::impersonate;

/// Everybody who has a say.
pub(crate) struct Authorizer;

const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY: [&str; 7] = ["/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"];

impl Authorizer {
    pub(crate) fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_in(MASTERS) {
            return Decision::Allow(String::new());
        }
        if let (Some(path), "get") = (attributes.path, attributes.verb) {
            let public = PUBLIC.contains(&path);
            let discovery =
                DISCOVERY.iter().any(|root| path == *root || path.starts_with(&format!("{root}/")));
            if public || (discovery && attributes.user.is_in(AUTHENTICATED)) {
                return Decision::Allow(String::new());
            }
        }
        Decision::NoOpinion(String::new())
    }
}

/// Whether something may be done: for everybody who has to ask again after a request was let in.
pub(crate) fn authorize(backend: &Backend, attributes: &Attributes<'_>) -> Decision {
    backend.authorizer.authorize(attributes)
}

/// Lets a request pass, or says why not.
pub(crate) fn admit(
    authorizer: &Authorizer,
    user: &User,
    info: &RequestInfo,
    path: &str,
    query: &Query,
) -> Result<(), Status> {
    let selectors = Selectors::of(info, query);
    require(authorizer, &selectors.attributes(user, info, path))
}

/// Refuses what is not allowed.
pub(crate) fn require(authorizer: &Authorizer, attributes: &Attributes<'_>) -> Result<(), Status> {
    match authorizer.authorize(attributes) {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => Err(refusal(attributes, &reason)),
    }
}

/// What a list, a watch or a deletion of many is limited to, as far as it can be understood.
#[derive(Default)]
struct Selectors {
    fields: Option<FieldSelector>,
    labels: Option<LabelSelector>,
    /// The one name that is asked for.
    name: Option<String>,
}

impl Selectors {
    fn of(info: &RequestInfo, query: &Query) -> Selectors {
        let Some(at) = info.resource.as_ref() else { return Selectors::default() };
        if !matches!(info.verb, "list" | "watch" | "deletecollection") {
            return Selectors::default();
        }
        let fields = FieldSelector::parse(query.text("fieldSelector")).ok().filter(|s| !s.is_everything());
        let labels = LabelSelector::parse(query.text("labelSelector")).ok().filter(|s| !s.is_everything());
        let name = fields
            .as_ref()
            .filter(|_| at.name.is_empty() && info.verb != "deletecollection")
            .and_then(|selector| selector.require_exact_match("metadata.name"))
            .filter(|name| corten_api::names::path_segment_name(name).is_empty())
            .map(str::to_owned);
        Selectors { fields, labels, name }
    }

    fn attributes<'a>(&'a self, user: &'a User, info: &'a RequestInfo, path: &'a str) -> Attributes<'a> {
        let Some(at) = &info.resource else { return Attributes::path(user, info.verb, path) };
        Attributes {
            namespace: &at.namespace,
            version: &at.version,
            subresource: &at.subresource,
            name: self.name.as_deref().unwrap_or(&at.name),
            field_selector: self.fields.as_ref(),
            label_selector: self.labels.as_ref(),
            ..Attributes::resource(user, info.verb, &at.group, &at.resource)
        }
    }
}

/// What a client hears that may not do something.
pub(crate) fn refusal(asked: &Attributes<'_>, reason: &str) -> Status {
    let mut why = match (asked.path, asked.namespace) {
        (Some(path), _) => format!("User {:?} cannot {} path {path:?}", asked.user.name, asked.verb),
        (None, namespace) => {
            let resource = match asked.subresource {
                "" => asked.resource.to_owned(),
                sub => format!("{}/{sub}", asked.resource),
            };
            let scope = match namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!(
                "User {:?} cannot {} resource {resource:?} in API group {:?} {scope}",
                asked.user.name, asked.verb, asked.group
            )
        }
    };
    // The text may end up in a browser.
    why = why.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Status::forbidden(asked.group, asked.resource, asked.name, why)
}
