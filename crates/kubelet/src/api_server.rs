//! Access to the API server in the node's identity: requests, caches of the node's own objects, events.
//!
//! The node sees only its own Node and the pods that are bound to it, because it may see no others.

use std::sync::Arc;

use corten_api::{Value, value};
use corten_client::{Cache, Caches, Client, Error, Key, Kind, Object, kinds};
use corten_reconcile::{Event, Recorder};

use crate::events::PodEventRecorder;
use crate::pod::Pod;

/// The API server as the node reaches it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiServer {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    recorder: Recorder,
    pub(crate) node_name: String,
    bound_pods: Kind,
    own_node: Kind,
}

impl ApiServer {
    pub(crate) fn new(client: Client, caches: Caches, recorder: Recorder, node_name: &str) -> ApiServer {
        ApiServer {
            client,
            caches,
            recorder,
            node_name: node_name.to_owned(),
            bound_pods: kinds::PODS.with_fields(format!("spec.nodeName={node_name}")),
            own_node: kinds::NODES.with_fields(format!("metadata.name={node_name}")),
        }
    }

    /// The cache of the pods that are bound to this node.
    pub(crate) fn bound_pods(&self) -> Arc<Cache> {
        self.caches.of(&self.bound_pods)
    }

    /// The cache that holds this node's own object.
    pub(crate) fn own_nodes(&self) -> Arc<Cache> {
        self.caches.of(&self.own_node)
    }

    pub(crate) fn node_key(&self) -> Key {
        Key::new("", self.node_name.as_str())
    }

    /// This node's own object, if it is cached.
    pub(crate) fn own_node(&self) -> Option<Arc<Object>> {
        self.own_nodes().get(&self.node_key())
    }

    /// Reads an object of a pod's namespace; `None` if it does not exist.
    pub(crate) async fn get_in_namespace(
        &self,
        kind: &Kind,
        pod: &Pod,
        name: &str,
    ) -> Result<Option<Value>, Error> {
        match self.client.get(kind, &Key::new(pod.namespace(), name)).await {
            Ok(object) => Ok(Some(object)),
            Err(err) if err.is_not_found() => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// The recorder of a pod's events.
    pub(crate) fn pod_events(&self, pod: &Pod) -> PodEventRecorder {
        PodEventRecorder::new(self.recorder.clone(), pod.clone(), &self.node_name)
    }

    /// Records an event about the node.
    pub(crate) fn record_node_event(&self, warning: bool, reason: &'static str, message: String) {
        let name = self.node_name.as_str();
        // Upstream uses the node's name as the uid before the node's object is known; clients look up both.
        let uid = self.own_node().map_or_else(|| name.to_owned(), |node| node.uid.to_string());
        let node = value!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": (name), "uid": (uid)}});
        let event = match warning {
            true => Event::warning("kubelet", &node, reason, message),
            false => Event::normal("kubelet", &node, reason, message),
        };
        self.recorder.record(Event { host: name.into(), ..event });
    }
}
