//! What is asked for, as authorization sees it.

use corten_api::selector::{FieldSelector, LabelSelector};

use crate::User;

/// One question: may this user do that?
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
    /// The path, if the question is not about a resource.
    pub path: Option<&'a str>,
    /// What a list or watch is limited to.
    pub field_selector: Option<&'a FieldSelector>,
    pub label_selector: Option<&'a LabelSelector>,
}

impl<'a> Attributes<'a> {
    /// About a whole resource; what is more particular is set on the outcome.
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

    /// About a path that is not a resource's.
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

/// What an authorizer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes, and why.
    Allow(String),
    /// No, whatever others say.
    Deny(String),
    /// Not this one's business: ask the next.
    NoOpinion(String),
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }
}
