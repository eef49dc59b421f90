//! The operations on the served resources, and their paths.
//!
//! One description serves both OpenAPI versions; `render` writes it.

mod resource;

pub(super) use resource::of_resource;

use super::names::{self, GroupVersionKind, capitalised, version_root};
use super::parameters::Parameter;
use crate::schema::{self, StructRef};

/// A path with its operations.
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
    /// The formats of the request.
    pub(super) consumes: Formats,
    /// The formats of the response.
    pub(super) produces: Formats,
    pub(super) content: Content,
    /// Codes of success; 401 is always possible.
    pub(super) codes: Codes,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    None,
    Required(Target),
    /// Options of a deletion, which may be left out.
    Delete(Target),
    /// In any of the patch formats.
    Patch(Target),
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    Text,
    Object(Target),
}

/// The type of a body: a built-in one, or one that a CRD describes.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The name of its definition.
    pub(super) name: String,
    pub(super) of: Option<StructRef>,
}

impl From<StructRef> for Target {
    fn from(of: StructRef) -> Self {
        Target { name: names::type_name(&of.package, &of.name), of: Some(of) }
    }
}

/// Media types in the order of the documents.
pub(super) type Formats = &'static [&'static str];

const ANY: Formats = &["*/*"];
const JSON: Formats = &["application/json"];
const OBJECTS: Formats = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Objects, or a stream of them.
const STREAMS: Formats = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Lines of text; errors are objects.
const LOG: Formats =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCHES: Formats = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

pub(super) const OK: Codes = &[("200", "OK")];
pub(super) const CREATED: Codes = &[("200", "OK"), ("201", "Created")];
pub(super) const CREATED_OR_ACCEPTED: Codes = &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];
pub(super) const ACCEPTED: Codes = &[("200", "OK"), ("202", "Accepted")];

/// Codes of success with their descriptions.
pub(super) type Codes = &'static [(&'static str, &'static str)];

/// The paths outside the resources, of groups, versions and the server itself.
/// `document` is the path of the version 3 document that contains them.
pub(super) fn of_root(document: &str) -> Option<PathItem> {
    let (id, tag, description, consumes, produces, content) = match document {
        "api" => {
            let content = meta("APIVersions")?;
            ("getCoreAPIVersions", "core", "get available API versions", OBJECTS, OBJECTS, content)
        }
        "apis" => {
            let content = meta("APIGroupList")?;
            ("getAPIVersions", "apis", "get available API versions", OBJECTS, OBJECTS, content)
        }
        "version" => {
            let info = Content::Object(schema::lookup("version", "Info")?.into());
            ("getCodeVersion", "version", "get the version information for this server", JSON, JSON, info)
        }
        ".well-known/openid-configuration" => (
            "getServiceAccountIssuerOpenIDConfiguration",
            "WellKnown",
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            &[][..],
            JSON,
            Content::Text,
        ),
        "openid/v1/jwks" => (
            "getServiceAccountIssuerOpenIDKeyset",
            "openid",
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            &[][..],
            &["application/jwk-set+json"][..],
            Content::Text,
        ),
        _ => return None,
    };
    let reading = reading(format!("/{document}/"), id.to_owned(), tag.to_owned(), description, content);
    Some(with_formats(reading, consumes, produces))
}

/// `/apis/GROUP/`.
pub(super) fn of_group(group: &str) -> Option<PathItem> {
    let tag = names::group_tag(group);
    let id = format!("get{}APIGroup", capitalised(&tag));
    Some(reading(format!("/apis/{group}/"), id, tag, "get information of a group", meta("APIGroup")?))
}

/// `/api/v1/`, `/apis/GROUP/VERSION/`.
pub(super) fn of_version(group: &str, version: &str) -> Option<PathItem> {
    let group_tag = names::group_tag(group);
    let id = format!("get{}{}APIResources", capitalised(&group_tag), capitalised(version));
    let path = version_root(group, version) + "/";
    let tag = format!("{group_tag}_{version}");
    Some(reading(path, id, tag, "get available resources", meta("APIResourceList")?))
}

fn meta(name: &str) -> Option<Content> {
    schema::lookup("meta/v1", name).map(|of| Content::Object(of.into()))
}

fn reading(path: String, id: String, tag: String, description: &str, content: Content) -> PathItem {
    let operation = Operation {
        method: "get",
        id,
        tag,
        description: description.to_owned(),
        action: None,
        kind: None,
        parameters: Vec::new(),
        body: Body::None,
        consumes: OBJECTS,
        produces: OBJECTS,
        content,
        codes: OK,
    };
    PathItem { path, operations: vec![operation] }
}

fn with_formats(mut item: PathItem, consumes: Formats, produces: Formats) -> PathItem {
    for operation in &mut item.operations {
        (operation.consumes, operation.produces) = (consumes, produces);
    }
    item
}
