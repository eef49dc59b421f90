//! EndpointSlices: the parts that are read of existing ones, and the encoding of new and changed ones.

use std::sync::Arc;

use corten_api::{Map, Str, Value, meta};
use corten_client::{DeleteOptions, Object, View, kinds};
use corten_reconcile::Action;

use super::MANAGED_BY;
use super::endpoint::{Endpoint, Print};
use crate::{claims, services};

/// The label with the name of a slice's service.
pub(crate) const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";

/// A port of a slice's endpoints. Port lists that differ only in order are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port {
    name: Str,
    number: Option<i64>,
    protocol: Str,
    app_protocol: Option<Str>,
}

/// The parts of a slice that are read.
#[derive(Debug, Clone)]
pub(super) struct SliceView {
    pub(super) address_type: Str,
    /// In order.
    pub(super) ports: Vec<Port>,
    pub(super) endpoints: Box<[Print]>,
}

impl View for SliceView {
    fn of(slice: &Value) -> SliceView {
        let mut ports: Vec<_> = slice.items_at(&["ports"]).iter().map(Port::of).collect();
        ports.sort_unstable();
        SliceView {
            address_type: slice.str_at(&["addressType"]).unwrap_or_default().into(),
            ports,
            endpoints: endpoints(slice).map(|endpoint| endpoint.print()).collect(),
        }
    }
}

/// A slice and its view.
#[derive(Debug, Clone)]
pub(super) struct Slice {
    pub(super) object: Arc<Object>,
    pub(super) view: Arc<SliceView>,
}

impl From<Arc<Object>> for Slice {
    fn from(object: Arc<Object>) -> Slice {
        Slice { view: object.view(), object }
    }
}

impl Slice {
    pub(super) fn is_owned_by(&self, service: &Object) -> bool {
        self.object.owners.iter().any(|owner| owner.uid == service.uid && owner.kind == "Service")
    }

    /// All its endpoints, decoded.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        endpoints(&self.object.tree()).collect()
    }

    pub(super) fn has_hints(&self) -> bool {
        let none = Endpoint::default().print().hints;
        self.view.endpoints.iter().any(|print| print.hints != none)
    }

    pub(super) fn delete(&self) -> Action {
        let options = DeleteOptions { uid: Some(self.object.uid.clone()), ..DeleteOptions::default() };
        Action::Delete { kind: &kinds::ENDPOINT_SLICES, key: self.object.key.clone(), options }
    }
}

fn endpoints(slice: &Value) -> impl Iterator<Item = Endpoint> + '_ {
    slice.items_at(&["endpoints"]).iter().map(Endpoint::of)
}

/// A slice as it should become.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The slice to be updated; `None` for a new one.
    pub(super) of: Option<Slice>,
    pub(super) address_type: Str,
    pub(super) ports: Vec<Port>,
    pub(super) endpoints: Vec<Endpoint>,
}

impl Draft {
    /// The object, for a service.
    pub(super) fn to_value(&self, service: &Value) -> Value {
        let mut slice = match &self.of {
            Some(slice) => slice.object.tree(),
            None => new_slice(service),
        };
        slice.set(&["metadata", "labels"], labels(service));
        slice.set(&["addressType"], self.address_type.clone());
        slice.set(&["ports"], list(self.ports.iter().map(Port::to_value)));
        slice.set(&["endpoints"], list(self.endpoints.iter().map(Endpoint::to_value)));
        slice
    }
}

/// A list as slices encode it: null if empty.
pub(crate) fn list(items: impl Iterator<Item = Value>) -> Value {
    let items: Vec<_> = items.collect();
    if items.is_empty() { Value::Null } else { Value::from(items) }
}

fn new_slice(service: &Value) -> Value {
    let mut slice = kinds::ENDPOINT_SLICES.new_object(meta::namespace(service), "");
    slice.remove(&["metadata", "name"]);
    slice.set(&["metadata", "generateName"], format!("{}-", meta::name(service)));
    slice.set(&["metadata", "ownerReferences"], vec![claims::reference(service)]);
    slice
}

fn is_reserved(label: &str) -> bool {
    [SERVICE_NAME_LABEL, MANAGED_BY_LABEL, services::HEADLESS].contains(&label)
}

fn unreserved(labels: Option<&Map>) -> Map {
    let mut labels = labels.cloned().unwrap_or_default();
    labels.retain(|label, _| !is_reserved(label));
    labels
}

/// The labels of a service's slices: those of the service, its name and the manager.
pub(super) fn labels(service: &Value) -> Map {
    let mut labels = unreserved(meta::labels(service));
    if services::is_headless(service) {
        labels.insert(services::HEADLESS, "");
    }
    labels.insert(SERVICE_NAME_LABEL, meta::name(service));
    labels.insert(MANAGED_BY_LABEL, MANAGED_BY);
    labels
}

/// True if a slice has the labels of its service.
pub(super) fn is_labelled(slice: &Slice, service: &Value) -> bool {
    unreserved(Some(&slice.object.labels)) == unreserved(meta::labels(service))
}

impl Port {
    /// Decodes a port of a slice, or of Endpoints.
    pub(crate) fn of(port: &Value) -> Port {
        Port {
            name: port.str_at(&["name"]).unwrap_or_default().into(),
            number: port.int_at(&["port"]),
            protocol: services::protocol(port).into(),
            app_protocol: port.str_at(&["appProtocol"]).map(Str::new),
        }
    }

    /// The port of a service with this target port number.
    pub(super) fn of_service(port: &Value, number: i64) -> Port {
        Port { number: Some(number), ..Port::of(port) }
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut port = Map::new();
        port.insert("name", self.name.clone());
        port.insert("protocol", self.protocol.clone());
        if let Some(number) = self.number {
            port.insert("port", number);
        }
        if let Some(app_protocol) = &self.app_protocol {
            port.insert("appProtocol", app_protocol.clone());
        }
        Value::Object(port)
    }
}
