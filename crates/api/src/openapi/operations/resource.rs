//! The operations on one resource: all of its paths.

use super::{
    ACCEPTED, ANY, Body, CREATED, CREATED_OR_ACCEPTED, Content, LOG, OBJECTS, OK, Operation, PATCHES,
    PathItem, STREAMS,
};
use crate::openapi::names::{self, GroupVersionKind, capitalised, gvk, version_root};
use crate::openapi::parameters::{self, NAME, NAMESPACE, PRETTY, PROXY_PATH, Parameter};
use crate::resources::{self, Resource, Subresource};
use crate::schema::{self, StructRef};

/// Kinds whose deletion returns the object rather than a status.
const ANSWERED_WITH_OBJECT: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ResourceQuota",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "resource.k8s.io",
        &[
            "DeviceClass",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourcePoolStatusRequest",
            "ResourceSlice",
        ],
    ),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
];

/// The end of the description of a watch of one object.
const FILTERED: &str = ", filtered to a single item with the 'fieldSelector' parameter";

/// Every path of a resource.
pub(in crate::openapi) fn of_resource(resource: &Resource) -> Vec<PathItem> {
    let Some(object) = resource.schema() else { return Vec::new() };
    let names = Names::new(resource);
    let mut items = vec![
        item(names.collection("", ""), names.collection_operations(&object)),
        item(names.object(""), names.object_operations(&object)),
    ];
    if resource.namespaced && resource.has_verb("list") {
        items.push(item(
            names.everywhere(""),
            names.list("ForAllNamespaces", &names.scope_parameters(true)).into_iter().collect(),
        ));
    }
    if resource.has_verb("watch") {
        items.extend(names.watches());
    }
    for subresource in &resource.subresources {
        items.extend(names.subresource(subresource));
    }
    items.retain(|item| !item.operations.is_empty());
    items
}

fn item(path: String, operations: Vec<Operation>) -> PathItem {
    PathItem { path, operations }
}

/// A resource with the words of its paths and operations.
struct Names<'a> {
    resource: &'a Resource,
    root: String,
    /// `CoreV1`.
    prefix: String,
    /// `Namespaced` or nothing.
    scope: &'static str,
    tag: String,
    kind: GroupVersionKind,
}

impl<'a> Names<'a> {
    fn new(resource: &'a Resource) -> Self {
        Names {
            resource,
            root: version_root(&resource.group, &resource.version),
            prefix: names::version_prefix(resource),
            scope: if resource.namespaced { "Namespaced" } else { "" },
            tag: format!("{}_{}", names::group_tag(&resource.group), resource.version),
            kind: gvk(&resource.group, &resource.version, &resource.kind),
        }
    }

    fn collection(&self, above: &str, below: &str) -> String {
        let namespace = if self.resource.namespaced { "/namespaces/{namespace}" } else { "" };
        format!("{}{above}{namespace}/{}{below}", self.root, self.resource.name)
    }

    fn object(&self, above: &str) -> String {
        self.collection(above, "/{name}")
    }

    fn everywhere(&self, above: &str) -> String {
        format!("{}{above}/{}", self.root, self.resource.name)
    }

    fn scope_parameters(&self, everywhere: bool) -> Vec<Parameter> {
        let mut parameters = vec![PRETTY];
        if self.resource.namespaced && !everywhere {
            parameters.push(NAMESPACE);
        }
        parameters
    }

    fn object_parameters(&self) -> Vec<Parameter> {
        let mut parameters = self.scope_parameters(false);
        parameters.push(NAME);
        parameters
    }

    /// An operation on this resource that only reads objects; callers change the differing parts.
    fn operation(&self, method: &'static str, action: &'static str, id: &str, content: Content) -> Operation {
        Operation {
            method,
            id: id.to_owned(),
            tag: self.tag.clone(),
            description: String::new(),
            action: Some(action),
            kind: Some(self.kind.clone()),
            parameters: Vec::new(),
            body: Body::None,
            consumes: ANY,
            produces: OBJECTS,
            content,
            codes: OK,
        }
    }

    fn collection_operations(&self, object: &StructRef) -> Vec<Operation> {
        let Names { resource, prefix, scope, .. } = self;
        let kind = &resource.kind;
        let common = self.scope_parameters(false);
        let mut operations = Vec::new();
        if resource.has_verb("list") {
            operations.extend(self.list("", &common));
        }
        if resource.has_verb("create") {
            let id = format!("create{prefix}{scope}{kind}");
            operations.push(Operation {
                description: format!("create{}{kind}", names::article(kind)),
                parameters: [&common, parameters::WRITE].concat(),
                body: Body::Required(object.clone().into()),
                codes: CREATED_OR_ACCEPTED,
                ..self.operation("post", "post", &id, Content::Object(object.clone().into()))
            });
        }
        if resource.has_verb("deletecollection") {
            let id = format!("delete{prefix}Collection{scope}{kind}");
            let parts = (schema::lookup("meta/v1", "Status"), schema::lookup("meta/v1", "DeleteOptions"));
            if let (Some(status), Some(options)) = parts {
                operations.push(Operation {
                    description: format!("delete collection of {kind}"),
                    parameters: [&common, parameters::DELETE, parameters::SELECT].concat(),
                    body: Body::Delete(options.into()),
                    ..self.operation("delete", "deletecollection", &id, Content::Object(status.into()))
                });
            }
        }
        operations
    }

    fn list(&self, suffix: &str, common: &[Parameter]) -> Option<Operation> {
        let Names { resource, prefix, scope, .. } = self;
        let kind = &resource.kind;
        let list = resources::schema_of(&resource.group, &resource.version, &format!("{kind}List"))?;
        let scope = if suffix.is_empty() { scope } else { "" };
        let id = format!("list{prefix}{scope}{kind}{suffix}");
        let action = if resource.has_verb("watch") { "list or watch" } else { "list" };
        Some(Operation {
            description: format!("{action} objects of kind {kind}"),
            parameters: [common, parameters::SELECT, parameters::LIST].concat(),
            produces: STREAMS,
            ..self.operation("get", "list", &id, Content::Object(list.into()))
        })
    }

    fn object_operations(&self, object: &StructRef) -> Vec<Operation> {
        let mut operations: Vec<Operation> = self
            .resource
            .verbs
            .iter()
            .filter_map(|verb| self.on_object(verb, "", &self.kind, object))
            .collect();
        if self.resource.has_verb("delete") {
            operations.extend(self.delete(object));
        }
        operations
    }

    /// Reading and changing one object, or a subresource of it.
    fn on_object(
        &self,
        verb: &str,
        subresource: &str,
        of: &GroupVersionKind,
        object: &StructRef,
    ) -> Option<Operation> {
        let Names { resource, prefix, scope, .. } = self;
        let kind = &resource.kind;
        let what = if subresource.is_empty() {
            format!("the specified {kind}")
        } else {
            format!("{subresource} of the specified {kind}")
        };
        let id = |word: &str| format!("{word}{prefix}{scope}{kind}{}", capitalised(subresource));
        let with = |more: &[Parameter]| [&self.object_parameters(), more].concat();
        let content = Content::Object(object.clone().into());
        let mut operation = match verb {
            "get" => Operation {
                description: format!("read {what}"),
                parameters: with(&[]),
                ..self.operation("get", "get", &id("read"), content)
            },
            "update" => Operation {
                description: format!("replace {what}"),
                parameters: with(parameters::WRITE),
                body: Body::Required(object.clone().into()),
                codes: CREATED,
                ..self.operation("put", "put", &id("replace"), content)
            },
            "patch" => Operation {
                description: format!("partially update {what}"),
                parameters: with(parameters::PATCH),
                body: Body::Patch(schema::lookup("meta/v1", "Patch")?.into()),
                consumes: PATCHES,
                codes: CREATED,
                ..self.operation("patch", "patch", &id("patch"), content)
            },
            "create" if !subresource.is_empty() => Operation {
                description: format!("create {subresource} of{}{kind}", names::article(kind)),
                parameters: with(parameters::WRITE),
                body: Body::Required(object.clone().into()),
                codes: CREATED_OR_ACCEPTED,
                ..self.operation("post", "post", &id("create"), content)
            },
            _ => return None,
        };
        operation.kind = Some(of.clone());
        Some(operation)
    }

    fn delete(&self, object: &StructRef) -> Option<Operation> {
        let Names { resource, prefix, scope, .. } = self;
        let kind = &resource.kind;
        let answered = ANSWERED_WITH_OBJECT.iter().find(|(group, _)| *group == resource.group);
        let content = match answered {
            Some((_, kinds)) if kinds.contains(&kind.as_str()) => object.clone(),
            // Upstream changed this one with its v1.
            _ if kind == "DeviceTaintRule" && resource.version != "v1" => object.clone(),
            _ => schema::lookup("meta/v1", "Status")?,
        };
        let id = format!("delete{prefix}{scope}{kind}");
        Some(Operation {
            description: format!("delete{}{kind}", names::article(kind)),
            parameters: [&self.object_parameters(), parameters::DELETE].concat(),
            body: Body::Delete(schema::lookup("meta/v1", "DeleteOptions")?.into()),
            codes: ACCEPTED,
            ..self.operation("delete", "delete", &id, Content::Object(content.into()))
        })
    }

    /// The watch paths from before lists could watch.
    fn watches(&self) -> Vec<PathItem> {
        let Names { resource, prefix, scope, .. } = self;
        let kind = &resource.kind;
        let Some(event) = schema::lookup("meta/v1", "WatchEvent") else { return Vec::new() };
        let watch = |path: String, action, id: String, common: Vec<Parameter>| {
            let (what, instead) = match action {
                "watch" => ("changes to an object of kind", FILTERED),
                _ => ("individual changes to a list of", ""),
            };
            let operation = Operation {
                description: format!(
                    "watch {what} {kind}. deprecated: use the 'watch' parameter with a list operation instead{instead}."
                ),
                parameters: [&common, parameters::SELECT, parameters::LIST].concat(),
                produces: STREAMS,
                ..self.operation("get", action, &id, Content::Object(event.clone().into()))
            };
            item(path, vec![operation])
        };
        let mut items = vec![
            watch(
                self.collection("/watch", ""),
                "watchlist",
                format!("watch{prefix}{scope}{kind}List"),
                self.scope_parameters(false),
            ),
            watch(
                self.object("/watch"),
                "watch",
                format!("watch{prefix}{scope}{kind}"),
                self.object_parameters(),
            ),
        ];
        if resource.namespaced {
            let id = format!("watch{prefix}{kind}ListForAllNamespaces");
            items.push(watch(self.everywhere("/watch"), "watchlist", id, self.scope_parameters(true)));
        }
        items
    }

    fn subresource(&self, subresource: &Subresource) -> Vec<PathItem> {
        let (group, version) =
            subresource.group_version.unwrap_or((&self.resource.group, &self.resource.version));
        let kind = gvk(group, version, &subresource.kind);
        let path = format!("{}/{}", self.object(""), subresource.name);
        if subresource.kind.ends_with("Options") {
            return self.connect(path, subresource, &kind);
        }
        let Some(object) = resources::schema_of(group, version, &subresource.kind) else { return Vec::new() };
        let mut operations: Vec<Operation> = subresource
            .verbs
            .iter()
            .filter_map(|verb| self.on_object(verb, &subresource.name, &kind, &object))
            .collect();
        if subresource.name == "log" {
            for operation in &mut operations {
                operation.parameters = [&self.object_parameters(), parameters::LOG].concat();
                operation.content = Content::Text;
                operation.produces = LOG;
            }
        }
        vec![item(path, operations)]
    }

    /// Requests that are forwarded unchanged.
    fn connect(&self, path: String, subresource: &Subresource, kind: &GroupVersionKind) -> Vec<PathItem> {
        let methods: &[&str] = match subresource.name.as_str() {
            "proxy" => &["delete", "get", "head", "options", "patch", "post", "put"],
            _ => &["get", "post"],
        };
        let operations = |suffix: &str, more: &[Parameter]| {
            let operation = |method: &&'static str| self.connection(method, suffix, subresource, kind, more);
            methods.iter().map(operation).collect::<Vec<_>>()
        };
        let mut items = vec![item(path.clone(), operations("", &[]))];
        if subresource.name == "proxy" {
            items.push(item(path + "/{path}", operations("WithPath", &[PROXY_PATH])));
        }
        items
    }

    fn connection(
        &self,
        method: &'static str,
        suffix: &str,
        subresource: &Subresource,
        kind: &GroupVersionKind,
        more: &[Parameter],
    ) -> Operation {
        let Names { resource, prefix, scope, .. } = self;
        let (of, name) = (&resource.kind, &subresource.name);
        let id = format!("connect{prefix}{}{scope}{of}{}{suffix}", capitalised(method), capitalised(name));
        let mut parameters = self.object_parameters();
        parameters.retain(|parameter| *parameter != PRETTY);
        Operation {
            description: format!("connect {} requests to {name} of {of}", method.to_uppercase()),
            kind: Some(kind.clone()),
            parameters: [&parameters, parameters::of_options(&subresource.kind), more].concat(),
            produces: ANY,
            ..self.operation(method, "connect", &id, Content::Text)
        }
    }
}
