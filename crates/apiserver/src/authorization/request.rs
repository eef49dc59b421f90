//! A request on its way in: in whose name, and whether it may pass.

use std::sync::Arc;

use corten_api::Status;
use corten_api::selector::{FieldSelector, LabelSelector};
use corten_auth::{Attributes, User};

use super::{Authorizer, impersonation, require};
use crate::request::{Query, RequestInfo};

/// The user a request is to be treated as: the one who asks, or the one they act as, if they may.
pub(crate) fn act_as(
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

/// Lets a request pass, or says why not.
pub(crate) fn pass(
    authorizer: &Authorizer,
    user: &User,
    info: &RequestInfo,
    query: &Query,
) -> Result<(), Status> {
    require(authorizer, &Selectors::of(info, query).attributes(user, info))
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
        // Those that say the verb in their path do not all look at selectors.
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
