//! What can be done to the served resources, and at which paths.
//!
//! One description serves both OpenAPI versions; `render` writes it down.

mod resource;

pub(super) use resource::of_resource;

use super::names::{self, GroupVersionKind, capitalised, version_root};
use super::parameters::Parameter;
use crate::schema::{self, StructRef};

/// A path with what can be done there.
#[derive(Debug)]
pub(super) struct PathItem {
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
}

#[derive(Debug)]
pub(super) struct Operation {
    /// In lower case.
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) description: String,
    pub(super) action: Option<&'static str>,
    pub(super) kind: Option<GroupVersionKind>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Body,
    pub(super) media: Media,
    pub(super) content: Content,
    /// Codes of success; 401 is always possible.
    pub(super) codes: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    None,
    Required(StructRef),
    Optional(StructRef),
    /// In any of the patch formats.
    Patch(StructRef),
}

/// The formats of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Objects,
    /// Objects, or a stream of them.
    Streams,
    /// Objects, or lines of text.
    Log,
    Any,
    Only(&'static str),
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Text,
    Object(StructRef),
}

const OK: &[(&str, &str)] = &[("200", "OK")];
/// The paths outside the resources: where groups, versions and the server itself are described.
/// `document` is the path of the version 3 document that holds them.
pub(super) fn of_root(document: &str) -> Option<PathItem> {
    let (id, tag, description, media, content) = match document {
        "api" => (
            "getCoreAPIVersions",
            "core",
            "the versions of the core group",
            Media::Objects,
            meta("APIVersions")?,
        ),
        "apis" => ("getAPIVersions", "apis", "the API groups", Media::Objects, meta("APIGroupList")?),
        "version" => {
            let info = Content::Object(schema::lookup("version", "Info")?);
            ("getCodeVersion", "version", "the version of this server", Media::Only("application/json"), info)
        }
        ".well-known/openid-configuration" => (
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "the OpenID configuration of the issuer of service account tokens",
            Media::Only("application/json"),
            Content::Text,
        ),
        "openid/v1/jwks" => (
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "the keys that verify service account tokens",
            Media::Only("application/jwk-set+json"),
            Content::Text,
        ),
        _ => return None,
    };
    Some(reading(format!("/{document}/"), id.to_owned(), tag.to_owned(), description, media, content))
}

/// `/apis/GROUP/`.
pub(super) fn of_group(group: &str) -> Option<PathItem> {
    let tag = names::group_tag(group);
    let id = format!("get{}APIGroup", capitalised(&tag));
    Some(reading(
        format!("/apis/{group}/"),
        id,
        tag,
        "the versions of the group",
        Media::Objects,
        meta("APIGroup")?,
    ))
}

/// `/api/v1/`, `/apis/GROUP/VERSION/`.
pub(super) fn of_version(group: &str, version: &str) -> Option<PathItem> {
    let group_tag = names::group_tag(group);
    let id = format!("get{}{}APIResources", capitalised(&group_tag), capitalised(version));
    let path = version_root(group, version) + "/";
    let tag = format!("{group_tag}_{version}");
    Some(reading(path, id, tag, "the resources of the version", Media::Objects, meta("APIResourceList")?))
}

fn meta(name: &str) -> Option<Content> {
    schema::lookup("meta/v1", name).map(Content::Object)
}

fn reading(path: String, id: String, tag: String, what: &str, media: Media, content: Content) -> PathItem {
    let operation = Operation {
        method: "get",
        id,
        tag,
        description: format!("get {what}"),
        action: None,
        kind: None,
        parameters: Vec::new(),
        body: Body::None,
        media,
        content,
        codes: OK,
    };
    PathItem { path, operations: vec![operation] }
}
