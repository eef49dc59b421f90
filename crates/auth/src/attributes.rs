//! The attributes of a request that authorization decides on.

use corten_api::selector::{FieldSelector, LabelSelector};

use crate::User;

/// The attributes of one request.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub user: &'a User,
    /// `get`, `list`, `create`, …; for paths the lower-case method.
    pub verb: &'a str,
    /// Empty across namespaces and for cluster-scoped resources.
    pub namespace: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    /// The path of a non-resource request.
    pub path: Option<&'a str>,
    /// The selector of a list or watch.
    pub field_selector: Option<&'a FieldSelector>,
    pub label_selector: Option<&'a LabelSelector>,
}

impl<'a> Attributes<'a> {
    /// A request on a whole resource; the caller sets further fields.
    pub fn resource(user: &'a User, verb: &'a str, group: &'a str, resource: &'a str) -> Attributes<'a> {
        Attributes {
            user,
            verb,
            namespace: "",
            group,
            version: "*",
            resource,
            subresource: "",
            name: "",
            path: None,
            field_selector: None,
            label_selector: None,
        }
    }

    /// A request for a non-resource path.
    pub fn path(user: &'a User, verb: &'a str, path: &'a str) -> Attributes<'a> {
        Attributes { path: Some(path), version: "", ..Attributes::resource(user, verb, "", "") }
    }

    pub fn is_resource_request(&self) -> bool {
        self.path.is_none()
    }

    pub fn is_read_only(&self) -> bool {
        matches!(self.verb, "get" | "list" | "watch")
    }
}

/// The decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, with the reason.
    Allow(String),
    /// Denied; later authorizers are not called.
    Deny(String),
    /// Not decided; the next authorizer is called.
    NoOpinion(String),
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }
}
