//! A request as webhooks and policies see it: its resource and kind, its options, and the fields of an `AdmissionRequest`.

use corten_api::{Map, Str, Value, meta};

use super::matching::{GroupVersionKind, Target};
use super::{Attributes, Operation};
use crate::call::Call;
use crate::catalog::Served;

impl Attributes<'_> {
    /// The name in the request. A create may leave it to the object, and a deletion of a collection has none.
    pub(super) fn request_name<'n>(&'n self, object: Option<&'n Value>) -> &'n str {
        if self.in_collection { "" } else { self.name(object) }
    }

    /// The namespace of the request. That of a namespace is its own name.
    pub(super) fn request_namespace<'n>(&'n self, object: Option<&'n Value>) -> &'n str {
        match self.namespace() {
            "" if self.call.served.is_namespaces() && self.creates() => self.name(object),
            namespace => namespace,
        }
    }

    /// The namespace of a namespaced object. A namespace itself has none.
    pub(super) fn namespace_of_object(&self) -> Option<&str> {
        let is_namespace = self.call.served.is_namespaces() && self.is_own_kind();
        Some(self.namespace()).filter(|name| !name.is_empty() && !is_namespace)
    }

    /// The kind of the request's object in a version of its resource.
    pub(super) fn kind_in(&self, served: &Served) -> GroupVersionKind {
        let resource = &served.resource;
        let own = GroupVersionKind {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
        };
        match resource.subresource(self.subresource) {
            Some(found) => match found.group_version {
                Some((group, version)) => GroupVersionKind {
                    group: group.into(),
                    version: version.into(),
                    kind: found.kind.clone(),
                },
                None => GroupVersionKind { kind: found.kind.clone(), ..own },
            },
            None => own,
        }
    }

    /// True if the object is of the resource's own kind, not of a kind that only a subresource has.
    pub(super) fn is_own_kind(&self) -> bool {
        let served = &self.call.served;
        match served.resource.subresource(self.subresource) {
            Some(found) => found.group_version.is_none() && found.kind == served.kind(),
            None => true,
        }
    }

    /// The options of the request: `CreateOptions`, `UpdateOptions` or `DeleteOptions`; null for a connection.
    pub(super) fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => {
                return self.delete_options.map_or(Value::Null, super::DeleteOptions::to_value);
            }
            Operation::Connect => return Value::Null,
        };
        let mut options = Map::new();
        options.insert("kind", kind);
        options.insert("apiVersion", "meta.k8s.io/v1");
        let dry_run: Vec<Value> = self.call.query.all("dryRun").map(Value::from).collect();
        if !dry_run.is_empty() {
            options.insert("dryRun", dry_run);
        }
        for key in ["fieldManager", "fieldValidation"] {
            let text = self.call.query.text(key);
            if !text.is_empty() {
                options.insert(key, text);
            }
        }
        Value::Object(options)
    }

    /// The `AdmissionRequest` without its uid, its objects and its options.
    pub(super) fn admission_request(&self, target: &Target, object: Option<&Value>) -> Map {
        let own = &self.call.served;
        let mut request = Map::with_capacity(16);
        request.insert("kind", kind_value(&target.kind));
        request.insert("resource", resource_value(&target.served));
        request.insert("requestKind", kind_value(&self.kind_in(own)));
        request.insert("requestResource", resource_value(own));
        for (key, text) in [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.request_name(object)),
            ("namespace", self.request_namespace(object)),
        ] {
            if !text.is_empty() {
                request.insert(key, text);
            }
        }
        request.insert("operation", self.operation.name());
        request.insert("userInfo", self.call.user.to_value());
        request.insert("dryRun", self.dry_run);
        request
    }
}

fn kind_value(kind: &GroupVersionKind) -> Value {
    let mut map = Map::with_capacity(3);
    map.insert("group", kind.group.clone());
    map.insert("version", kind.version.clone());
    map.insert("kind", kind.kind.clone());
    Value::Object(map)
}

fn resource_value(served: &Served) -> Value {
    let mut map = Map::with_capacity(3);
    map.insert("group", served.resource.group.clone());
    map.insert("version", served.resource.version.clone());
    map.insert("resource", served.resource.name.clone());
    Value::Object(map)
}

/// The streams of a session.
const STREAMS: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// The options of a connection, such as `PodExecOptions`, from the query.
pub(super) fn connect_options(call: &Call, subresource: &str) -> Value {
    let kind = call.served.resource.subresource(subresource).map(|found| found.kind.clone());
    let mut options = Map::new();
    options.insert("kind", kind.unwrap_or_default());
    options.insert("apiVersion", "v1");
    let query = &call.query;
    match subresource {
        "exec" | "attach" => {
            for stream in STREAMS {
                if query.flag(stream) {
                    options.insert(stream, true);
                }
            }
            if !query.text("container").is_empty() {
                options.insert("container", query.text("container"));
            }
            let command: Vec<Value> = query.all("command").map(Value::from).collect();
            if subresource == "exec" && !command.is_empty() {
                options.insert("command", command);
            }
        }
        "portforward" => {
            let ports = query.all("ports").flat_map(|ports| ports.split(','));
            let ports: Vec<Value> = ports.filter_map(|port| port.parse().ok().map(Value::Int)).collect();
            if !ports.is_empty() {
                options.insert("ports", ports);
            }
        }
        _ => {
            let rest = call.at.rest.as_str();
            if !rest.is_empty() {
                options.insert("path", format!("/{rest}"));
            }
        }
    }
    Value::Object(options)
}

/// Puts the options of a connection into force that webhooks or policies changed. Returns the path of a proxied request.
pub(super) fn set_connect_options(call: &mut Call, subresource: &str, options: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = |key: &'static str| {
        let values = options.items_at(&[key]).iter().filter_map(text);
        values.map(|value| (key.to_owned(), value)).collect::<Vec<_>>()
    };
    match subresource {
        "exec" | "attach" => {
            let is_set = |stream: &&str| options.bool_at(&[stream]) == Some(true);
            let streams = STREAMS.into_iter().filter(is_set);
            let mut all: Vec<(String, String)> =
                streams.map(|stream| (stream.to_owned(), "true".to_owned())).collect();
            all.extend(options.str_at(&["container"]).map(|name| ("container".to_owned(), name.to_owned())));
            all.extend(texts("command"));
            call.query.replace(&STREAMS, []);
            call.query.replace(&["container", "command"], all);
            None
        }
        "portforward" => {
            let ports = options.items_at(&["ports"]).iter().filter_map(Value::as_int);
            call.query.replace(&["ports"], ports.map(|port| ("ports".to_owned(), port.to_string())));
            None
        }
        _ => Some(options.str_at(&["path"]).unwrap_or_default().to_owned()),
    }
}

/// Sets kind and version of an object that is sent to a webhook.
pub(super) fn set_kind(object: &mut Value, kind: &GroupVersionKind) {
    let api_version = kind.api_version();
    if meta::kind(object) == kind.kind && meta::api_version(object) == api_version {
        return;
    }
    let map = object.make_object();
    map.insert("kind", kind.kind.clone());
    map.insert("apiVersion", api_version);
}

impl GroupVersionKind {
    pub(super) fn api_version(&self) -> Str {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version).into(),
        }
    }
}
