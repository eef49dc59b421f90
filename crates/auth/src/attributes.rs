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
    /// Empty if the question is about a path.
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    /// The path, if the question is not about a resource.
    pub path: &'a str,
    /// What a list or watch is limited to.
    pub field_selector: Option<&'a FieldSelector>,
    pub label_selector: Option<&'a LabelSelector>,
}

impl Attributes<'_> {
    pub fn is_resource_request(&self) -> bool {
        !self.resource.is_empty()
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
