//! The filters of every request: impersonation and authorization.

use std::sync::Arc;

use corten_api::Status;
use corten_api::selector::{FieldSelector, LabelSelector};
use corten_auth::{Attributes, User};

use super::{Authorizer, impersonation, require};
use crate::request::{Query, RequestInfo};

/// The effective user of a request: the authenticated one, or the impersonated one if that is allowed.
pub(crate) fn effective_user(
    authorizer: &Authorizer,
    user: Arc<User>,
    headers: &http::HeaderMap,
    info: &RequestInfo,
    query: &Query,
) -> Result<Arc<User>, Status> {
    let selectors = Selectors::of(info, query);
    let other = impersonation::impersonate(authorizer, headers, &selectors.attributes(&user, info))?;
    Ok(other.map_or(user, Arc::new))
}

/// Authorizes a request.
pub(crate) fn authorize_request(
    authorizer: &Authorizer,
    user: &User,
    info: &RequestInfo,
    query: &Query,
) -> Result<(), Status> {
    require(authorizer, &Selectors::of(info, query).attributes(user, info))
}

/// The selectors of a list, watch or deletecollection, as far as they can be parsed.
#[derive(Default)]
struct Selectors {
    fields: Option<FieldSelector>,
    labels: Option<LabelSelector>,
    /// The name that the field selector requires.
    name: Option<String>,
}

impl Selectors {
    fn of(info: &RequestInfo, query: &Query) -> Selectors {
        let Some(at) = info.resource.as_ref() else { return Selectors::default() };
        // Paths with a verb prefix do not all support selectors.
        if !matches!(info.verb, "list" | "watch" | "deletecollection") || info.verb_in_path {
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

    fn attributes<'a>(&'a self, user: &'a User, info: &'a RequestInfo) -> Attributes<'a> {
        let Some(at) = &info.resource else { return Attributes::path(user, info.verb, &info.path) };
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
