//! Custom resources in the documents: the operations on one served version of a CRD, and its definitions.
//!
//! A version is described by its names, which are always at hand, and by its schema, which is loaded when its
//! definition is written and dropped afterwards.

mod definition;

use std::fmt;

use super::names::{self, GroupVersionKind, gvk, identifier};
use super::operations::{self, Body, Content, Operation, PathItem, Target};
use super::parameters::{self, NAME, NAMESPACE, PRETTY, Parameter, RESOURCE_VERSION};
use crate::Value;
use crate::resources;
use crate::schema::{self, StructRef};

pub(super) use definition::definitions;

/// One served version of a CRD.
pub struct CustomVersion {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub namespaced: bool,
    pub has_status: bool,
    pub has_scale: bool,
    /// The JSON paths of the selectable fields: `.spec.color`.
    pub selectable_fields: Vec<String>,
    /// The CRD's `spec.preserveUnknownFields`.
    pub preserve_unknown_fields: bool,
    /// Differs whenever anything above or the schema differs, such as uid and generation of the CRD.
    pub revision: String,
    /// Loads the version's `openAPIV3Schema`; `None` if there is none, or if it is not structural.
    pub schema: Box<dyn Fn() -> Option<Value> + Send + Sync>,
}

impl fmt::Debug for CustomVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomVersion")
            .field("group", &self.group)
            .field("version", &self.version)
            .field("plural", &self.plural)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// The formats of custom resources.
const OBJECTS: operations::Formats = &["application/json", "application/yaml"];
const PATCHES: operations::Formats =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

impl CustomVersion {
    /// The path of the version 3 document that shows it.
    pub(super) fn document(&self) -> String {
        format!("apis/{}/{}", self.group, self.version)
    }

    /// True if the version 3 document at a path shows it.
    pub(super) fn is_in(&self, path: &str) -> bool {
        let version = path.strip_prefix("apis/").and_then(|rest| rest.strip_prefix(self.group.as_str()));
        version.and_then(|rest| rest.strip_prefix('/')) == Some(&self.version)
    }

    /// The name of the definition of one of its kinds: `com.example.stable.v1.Widget`.
    fn type_name(&self, kind: &str) -> String {
        let group: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{kind}", group.join("."), self.version)
    }

    fn target(&self, kind: &str) -> Target {
        Target { name: self.type_name(kind), of: None }
    }

    fn group_version_kind(&self) -> GroupVersionKind {
        gvk(&self.group, &self.version, &self.kind)
    }

    fn path(&self, everywhere: bool, below: &str) -> String {
        let namespace = if self.namespaced && !everywhere { "/namespaces/{namespace}" } else { "" };
        format!("/apis/{}/{}{namespace}/{}{below}", self.group, self.version, self.plural)
    }
}

/// The built-in types that definitions of custom resources refer to, by name.
pub(super) fn metadata_types() -> impl Iterator<Item = (String, StructRef)> {
    let found = ["ListMeta", "ObjectMeta"].into_iter().filter_map(|name| schema::lookup("meta/v1", name));
    found.map(|of| (names::type_name(&of.package, &of.name), of))
}

/// Every path of a version.
pub(super) fn paths(of: &CustomVersion) -> Vec<PathItem> {
    let verbs = Verbs { of };
    let mut items = Vec::new();
    if of.namespaced {
        let list = verbs.list("ForAllNamespaces", &[PRETTY]);
        items.push(PathItem { path: of.path(true, ""), operations: vec![list] });
    }
    items.push(PathItem { path: of.path(false, ""), operations: verbs.on_collection() });
    let object = of.target(&of.kind);
    let mut operations = verbs.on_object("", &object);
    operations.extend(verbs.delete());
    items.push(PathItem { path: of.path(false, "/{name}"), operations });
    if of.has_status {
        let operations = verbs.on_object("status", &object);
        items.push(PathItem { path: of.path(false, "/{name}/status"), operations });
    }
    if of.has_scale
        && let Some(scale) = resources::schema_of("autoscaling", "v1", "Scale")
    {
        let operations = verbs.on_object("scale", &scale.into());
        items.push(PathItem { path: of.path(false, "/{name}/scale"), operations });
    }
    items
}

struct Verbs<'a> {
    of: &'a CustomVersion,
}

impl Verbs<'_> {
    /// An operation that only reads; callers change the differing parts.
    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: [&str; 2],
        content: Target,
    ) -> Operation {
        let CustomVersion { group, version, .. } = self.of;
        let trimmed = group.strip_suffix(".k8s.io").unwrap_or(group);
        let [verb, rest] = id;
        let rest = identifier(rest, true);
        Operation {
            method,
            id: format!("{verb}{}{}{rest}", identifier(trimmed, true), identifier(version, true)),
            tag: format!("{}_{}", identifier(trimmed, false), identifier(version, false)),
            description: String::new(),
            action: Some(action),
            kind: Some(self.of.group_version_kind()),
            parameters: Vec::new(),
            body: Body::None,
            consumes: OBJECTS,
            produces: OBJECTS,
            content: Content::Object(content),
            codes: operations::OK,
        }
    }

    fn scope(&self) -> &'static str {
        if self.of.namespaced { "Namespaced" } else { "" }
    }

    fn common(&self) -> Vec<Parameter> {
        let mut parameters = vec![PRETTY];
        if self.of.namespaced {
            parameters.push(NAMESPACE);
        }
        parameters
    }

    fn list(&self, suffix: &str, common: &[Parameter]) -> Operation {
        let CustomVersion { kind, list_kind, .. } = self.of;
        let scope = if suffix.is_empty() { self.scope() } else { "" };
        Operation {
            description: format!("list objects of kind {kind}"),
            parameters: [common, parameters::SELECT, parameters::LIST].concat(),
            ..self.operation(
                "get",
                "list",
                ["list", &format!("{scope}{kind}{suffix}")],
                self.of.target(list_kind),
            )
        }
    }

    fn on_collection(&self) -> Vec<Operation> {
        let (kind, scope, common) = (&self.of.kind, self.scope(), self.common());
        let object = self.of.target(kind);
        let mut operations = vec![
            self.list("", &common),
            Operation {
                description: format!("create{}{kind}", names::article(kind)),
                parameters: [&common, parameters::WRITE].concat(),
                body: Body::Required(object.clone()),
                codes: operations::CREATED_OR_ACCEPTED,
                ..self.operation("post", "post", ["create", &format!("{scope}{kind}")], object)
            },
        ];
        if let Some(status) = schema::lookup("meta/v1", "Status") {
            let id = ["delete", &format!("collection{scope}{kind}")];
            operations.push(Operation {
                description: format!("delete collection of {kind}"),
                parameters: [&common, parameters::SELECT, parameters::LIST].concat(),
                ..self.operation("delete", "deletecollection", id, status.into())
            });
        }
        operations
    }

    /// Reading and changing one object, or a subresource of it.
    fn on_object(&self, subresource: &str, object: &Target) -> Vec<Operation> {
        let (kind, scope) = (&self.of.kind, self.scope());
        let rest = format!("{scope}{kind}{}", names::capitalised(subresource));
        let what = match subresource {
            "" => format!("the specified {kind}"),
            name => format!("{name} of the specified {kind}"),
        };
        let with = |more: &[Parameter]| [&self.common(), &[NAME][..], more].concat();
        let mut operations = vec![
            Operation {
                description: format!("read {what}"),
                parameters: with(&[RESOURCE_VERSION]),
                ..self.operation("get", "get", ["read", &rest], object.clone())
            },
            Operation {
                description: format!("replace {what}"),
                parameters: with(parameters::WRITE),
                body: Body::Required(object.clone()),
                codes: operations::CREATED,
                ..self.operation("put", "put", ["replace", &rest], object.clone())
            },
        ];
        if let Some(patch) = schema::lookup("meta/v1", "Patch") {
            operations.push(Operation {
                description: format!("partially update {what}"),
                parameters: with(parameters::PATCH),
                body: Body::Patch(patch.into()),
                consumes: PATCHES,
                ..self.operation("patch", "patch", ["patch", &rest], object.clone())
            });
        }
        operations
    }

    fn delete(&self) -> Option<Operation> {
        let (kind, scope) = (&self.of.kind, self.scope());
        let status = schema::lookup("meta/v1", "Status")?;
        let options = schema::lookup("meta/v1", "DeleteOptions")?;
        Some(Operation {
            description: format!("delete{}{kind}", names::article(kind)),
            parameters: [&self.common(), &[NAME][..], parameters::DELETE].concat(),
            body: Body::Delete(options.into()),
            codes: operations::ACCEPTED,
            ..self.operation("delete", "delete", ["delete", &format!("{scope}{kind}")], status.into())
        })
    }
}
