//! Pods, nodes and small clusters for tests.

use std::sync::Arc;
use std::sync::LazyLock;

use corten_api::{Map, Value, value};

use crate::cluster::Cluster;
use crate::framework::{Plugin, PreFilter, Rejection};
use crate::node::{HOSTNAME, Node};
use crate::pod::{Pod, Shapes};
use crate::snapshot::NodeIx;

static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::default);

/// A pod in the namespace `default` with one container.
pub(crate) fn pod(name: &str) -> PodBuilder {
    PodBuilder(value!({
        "metadata": {"name": (name), "namespace": "default", "uid": (name)},
        "spec": {"containers": [{"name": "c", "image": "app"}]},
    }))
}

pub(crate) struct PodBuilder(pub(crate) Value);

impl PodBuilder {
    pub(crate) fn set(mut self, path: &[&str], value: impl Into<Value>) -> PodBuilder {
        self.0.set(path, value);
        self
    }

    pub(crate) fn spec(self, field: &str, value: Value) -> PodBuilder {
        self.set(&["spec", field], value)
    }

    pub(crate) fn label(self, key: &str, value: &str) -> PodBuilder {
        self.set(&["metadata", "labels", key], value)
    }

    pub(crate) fn namespace(self, namespace: &str) -> PodBuilder {
        self.set(&["metadata", "namespace"], namespace)
    }

    pub(crate) fn priority(self, priority: i64) -> PodBuilder {
        self.spec("priority", value!(priority))
    }

    pub(crate) fn requests(self, requests: Value) -> PodBuilder {
        let container = value!({"name": "c", "image": "app", "resources": {"requests": (requests)}});
        self.spec("containers", value!([(container)]))
    }

    pub(crate) fn images(self, images: &[&str]) -> PodBuilder {
        let containers = images.iter().map(|image| value!({"name": "c", "image": (*image)})).collect();
        self.spec("containers", Value::Array(containers))
    }

    pub(crate) fn ports(self, ports: &[(&str, &str, i64)]) -> PodBuilder {
        let port = |(address, protocol, port): &(&str, &str, i64)| value!({"hostIP": (*address), "protocol": (*protocol), "hostPort": (*port), "containerPort": (*port)});
        let ports: Vec<Value> = ports.iter().map(port).collect();
        self.spec("containers", value!([{"name": "c", "ports": (Value::Array(ports))}]))
    }

    /// A required term of affinity or anti-affinity to pods with a label.
    pub(crate) fn required(self, kind: &str, key: &str, value: &str, topology: &str) -> PodBuilder {
        let term =
            value!({"labelSelector": {"matchLabels": (labels(key, value))}, "topologyKey": (topology)});
        self.add_term(&["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"], term)
    }

    pub(crate) fn preferred(
        self,
        kind: &str,
        weight: i64,
        key: &str,
        value: &str,
        topology: &str,
    ) -> PodBuilder {
        let term =
            value!({"labelSelector": {"matchLabels": (labels(key, value))}, "topologyKey": (topology)});
        let term = value!({"weight": (weight), "podAffinityTerm": (term)});
        self.add_term(&["spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"], term)
    }

    /// A spread constraint over pods with a label.
    pub(crate) fn spread(self, skew: i64, topology: &str, when: &str, key: &str, value: &str) -> PodBuilder {
        let constraint = value!({
            "maxSkew": (skew), "topologyKey": (topology), "whenUnsatisfiable": (when),
            "labelSelector": {"matchLabels": (labels(key, value))},
        });
        self.add_term(&["spec", "topologySpreadConstraints"], constraint)
    }

    fn add_term(mut self, path: &[&str], term: Value) -> PodBuilder {
        let mut terms = self.0.items_at(path).to_vec();
        terms.push(term);
        self.0.set(path, Value::Array(terms));
        self
    }

    pub(crate) fn build(self) -> Pod {
        Pod::of(&self.0, &SHAPES)
    }
}

fn labels(key: &str, value: &str) -> Value {
    let mut labels = Map::new();
    labels.insert(key, value);
    Value::Object(labels)
}

/// A node with ample resources and its own hostname label.
pub(crate) fn node(name: &str) -> NodeBuilder {
    NodeBuilder(value!({
        "metadata": {"name": (name), "labels": {}},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }))
    .label(HOSTNAME, name)
}

pub(crate) struct NodeBuilder(pub(crate) Value);

impl NodeBuilder {
    pub(crate) fn label(mut self, key: &str, value: &str) -> NodeBuilder {
        self.0.set(&["metadata", "labels", key], value);
        self
    }

    pub(crate) fn zone(self, zone: &str) -> NodeBuilder {
        self.label("zone", zone)
    }

    pub(crate) fn allocatable(mut self, list: Value) -> NodeBuilder {
        self.0.set(&["status", "allocatable"], list);
        self
    }

    pub(crate) fn cordoned(mut self) -> NodeBuilder {
        self.0.set(&["spec", "unschedulable"], true);
        self
    }

    pub(crate) fn taint(self, key: &str, value: &str, effect: &str) -> NodeBuilder {
        self.append(&["spec", "taints"], value!({"key": (key), "value": (value), "effect": (effect)}))
    }

    pub(crate) fn image(self, name: &str, size: i64) -> NodeBuilder {
        self.append(&["status", "images"], value!({"names": [(name)], "sizeBytes": (size)}))
    }

    fn append(mut self, path: &[&str], item: Value) -> NodeBuilder {
        let mut items = self.0.items_at(path).to_vec();
        items.push(item);
        self.0.set(path, Value::Array(items));
        self
    }

    pub(crate) fn node(self) -> Node {
        Node::of(&self.0)
    }
}

/// A cluster of a few nodes, in the given order.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) nodes: Vec<NodeIx>,
}

impl Scene {
    pub(crate) fn new(nodes: impl IntoIterator<Item = NodeBuilder>) -> Scene {
        let mut scene = Scene { cluster: Cluster::default(), nodes: Vec::new() };
        for node in nodes {
            let node = node.node();
            let name = node.name.clone();
            scene.cluster.snapshot.set_node(Arc::new(node));
            scene.nodes.extend(scene.cluster.snapshot.find(&name));
        }
        scene
    }

    pub(crate) fn put(&mut self, pod: Pod, node: &str) {
        self.cluster.snapshot.add_pod(Arc::new(pod), node);
    }

    /// The rejections of a plugin for each node.
    pub(crate) fn filter(&mut self, plugin: &dyn Plugin, pod: &Pod) -> Vec<Option<Rejection>> {
        match plugin.pre_filter(pod, &mut self.cluster) {
            PreFilter::Skip => vec![None; self.nodes.len()],
            PreFilter::Reject(rejection) => vec![Some(rejection); self.nodes.len()],
            PreFilter::Filter(filter) => {
                self.nodes.iter().map(|at| filter.check(&self.cluster, *at)).collect()
            }
        }
    }

    /// True for each node that a plugin accepts.
    pub(crate) fn fits(&mut self, plugin: &dyn Plugin, pod: &Pod) -> Vec<bool> {
        self.filter(plugin, pod).iter().map(Option::is_none).collect()
    }

    pub(crate) fn scores(&mut self, plugin: &dyn Plugin, pod: &Pod) -> Option<Vec<i64>> {
        let mut scores = vec![0; self.nodes.len()];
        if plugin.score(pod, &mut self.cluster, &self.nodes, &mut scores) {
            return Some(scores);
        }
        self.nodes.iter().map(|at| plugin.score_node(pod, &self.cluster, *at)).collect()
    }
}
