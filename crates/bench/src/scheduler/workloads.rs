//! Upstream's workloads for measuring schedulers: nodes, pods that are there before, and pods that are measured.

use corten_api::{Value, meta, value};

pub(crate) const FIRST_NAMESPACE: &str = "sched-0";
pub(crate) const SECOND_NAMESPACE: &str = "sched-1";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The node that all pods of a daemon set's kind are for.
const CHOSEN_NODE: &str = "scheduler-perf-node";

/// One workload. Counts are for five thousand nodes and change with the number of nodes.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) zones: &'static [&'static str],
    before: Template,
    measured: Template,
    /// How many pods there are before, for every ten nodes.
    pub(crate) before_per_ten_nodes: usize,
    /// How many pods are measured unless it is said.
    pub(crate) pods: usize,
    /// How many pods a second upstream's scheduler must reach.
    pub(crate) floor: f64,
    /// Whether pods are measured that can never have a node.
    pub(crate) hopeless: usize,
}

#[derive(Clone, Copy)]
enum Template {
    Plain,
    Low,
    High,
    Large,
    NodeAffinity,
    Affinity,
    AntiAffinity,
    PreferredAffinity,
    PreferredAntiAffinity,
    Spread,
    PreferredSpread,
    OnChosenNode,
    WithVolume,
}

const NONE: Workload = Workload {
    name: "",
    zones: &[],
    before: Template::Plain,
    measured: Template::Plain,
    before_per_ten_nodes: 10,
    pods: 10_000,
    floor: 0.0,
    hopeless: 0,
};
const MOONS: &[&str] = &["moon-1", "moon-2", "moon-3"];

pub(crate) const WORKLOADS: [Workload; 13] = [
    Workload { name: "SchedulingBasic", floor: 680.0, ..NONE },
    Workload {
        name: "SchedulingNodeAffinity",
        zones: &["zone1"],
        before: Template::NodeAffinity,
        measured: Template::NodeAffinity,
        floor: 540.0,
        ..NONE
    },
    Workload {
        name: "SchedulingPodAffinity",
        zones: &["zone1"],
        before: Template::Affinity,
        measured: Template::Affinity,
        pods: 5000,
        floor: 70.0,
        ..NONE
    },
    Workload {
        name: "SchedulingPodAntiAffinity",
        before: Template::AntiAffinity,
        measured: Template::AntiAffinity,
        before_per_ten_nodes: 2,
        pods: 2000,
        floor: 180.0,
        ..NONE
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        before: Template::PreferredAffinity,
        measured: Template::PreferredAffinity,
        pods: 5000,
        floor: 160.0,
        ..NONE
    },
    Workload {
        name: "SchedulingPreferredPodAntiAffinity",
        before: Template::PreferredAntiAffinity,
        measured: Template::PreferredAntiAffinity,
        pods: 5000,
        floor: 190.0,
        ..NONE
    },
    Workload {
        name: "TopologySpreading",
        zones: MOONS,
        measured: Template::Spread,
        pods: 5000,
        floor: 460.0,
        ..NONE
    },
    Workload {
        name: "PreferredTopologySpreading",
        zones: MOONS,
        measured: Template::PreferredSpread,
        pods: 5000,
        floor: 340.0,
        ..NONE
    },
    Workload {
        name: "MixedSchedulingBasePod",
        zones: &["zone1"],
        measured: Template::Plain,
        floor: 540.0,
        ..NONE
    },
    Workload {
        name: "PreemptionBasic",
        before: Template::Low,
        measured: Template::High,
        before_per_ten_nodes: 40,
        pods: 5000,
        floor: 570.0,
        ..NONE
    },
    Workload { name: "Unschedulable", hopeless: 200, floor: 590.0, ..NONE },
    Workload {
        name: "SchedulingCSIPVs",
        before: Template::WithVolume,
        measured: Template::WithVolume,
        pods: 5000,
        floor: 100.0,
        ..NONE
    },
    Workload {
        name: "SchedulingDaemonset",
        measured: Template::OnChosenNode,
        before_per_ten_nodes: 0,
        pods: 30_000,
        floor: 1100.0,
        ..NONE
    },
];

impl Workload {
    pub(crate) fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// The node with this number.
    pub(crate) fn node(&self, index: usize) -> Value {
        let daemons = matches!(self.measured, Template::OnChosenNode) && index == 0;
        let name = if daemons { CHOSEN_NODE.to_owned() } else { format!("scheduler-perf-{index:05}") };
        let room = if daemons {
            value!({"pods": "90000", "cpu": "4000", "memory": "32Ti"})
        } else {
            value!({"pods": "110", "cpu": "4", "memory": "32Gi"})
        };
        let mut node = value!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": (name.clone()), "labels": {}},
            "status": {"capacity": (room.clone()), "allocatable": (room),
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        node.set(&["metadata", "labels", HOSTNAME], name);
        if !self.zones.is_empty() {
            node.set(&["metadata", "labels", ZONE], self.zones[index % self.zones.len()]);
        }
        node
    }

    /// How many volumes the node with this number can have.
    pub(crate) fn csi_node(&self, index: usize) -> Value {
        let name = meta::name(&self.node(index)).to_owned();
        value!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": (name.clone())},
            "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": (name), "allocatable": {"count": 39}}]},
        })
    }

    /// A pod that is there before.
    pub(crate) fn pod_before(&self, index: usize) -> Value {
        let kind = match self.name {
            // A fifth of each kind, beside those that are measured.
            "MixedSchedulingBasePod" => [
                Template::Plain,
                Template::Affinity,
                Template::AntiAffinity,
                Template::PreferredAffinity,
                Template::PreferredAntiAffinity,
            ][index % 5],
            _ => self.before,
        };
        kind.pod(&format!("before-{index:06}"), FIRST_NAMESPACE)
    }

    /// A pod that is measured.
    pub(crate) fn pod(&self, index: usize) -> Value {
        self.measured.pod(&format!("pod-{index:06}"), SECOND_NAMESPACE)
    }

    /// A pod that fits nowhere.
    pub(crate) fn hopeless_pod(index: usize) -> Value {
        Template::Large.pod(&format!("large-{index:06}"), FIRST_NAMESPACE)
    }

    /// Whether pods have volumes of their own, which have to be there.
    pub(crate) fn has_volumes(&self) -> bool {
        matches!(self.measured, Template::WithVolume)
    }
}

impl Template {
    fn pod(self, name: &str, namespace: &str) -> Value {
        let requests = match self {
            Template::Low => value!({"cpu": "900m", "memory": "500Mi"}),
            Template::High => value!({"cpu": "3000m", "memory": "500Mi"}),
            Template::Large => value!({"cpu": "9", "memory": "500Mi"}),
            _ => value!({"cpu": "100m", "memory": "500Mi"}),
        };
        let container = value!({
            "name": "pause", "image": "registry.k8s.io/pause:3.10.2", "ports": [{"containerPort": 80}],
            "resources": {"limits": (requests.clone()), "requests": (requests)},
        });
        let mut pod = value!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": (name), "namespace": (namespace)},
            "spec": {"containers": [(container)]},
        });
        self.shape(&mut pod, name);
        pod
    }

    fn shape(self, pod: &mut Value, name: &str) {
        let spec: &[(&str, Value)] = &match self {
            Template::Plain | Template::Large => return,
            Template::Low => [("terminationGracePeriodSeconds", value!(0))],
            Template::High => [("priority", value!(10))],
            Template::NodeAffinity => {
                let expression = value!({"key": (ZONE), "operator": "In", "values": ["zone1", "zone2"]});
                [("affinity", node_affinity(value!({"matchExpressions": [(expression)]})))]
            }
            Template::OnChosenNode => {
                let field = value!({"key": "metadata.name", "operator": "In", "values": [(CHOSEN_NODE)]});
                [("affinity", node_affinity(value!({"matchFields": [(field)]})))]
            }
            Template::Affinity => [("affinity", required("podAffinity", "blue", ZONE))],
            Template::AntiAffinity => [("affinity", required("podAntiAffinity", "green", HOSTNAME))],
            Template::PreferredAffinity => [("affinity", preferred("podAffinity", "red", HOSTNAME))],
            Template::PreferredAntiAffinity => {
                [("affinity", preferred("podAntiAffinity", "yellow", HOSTNAME))]
            }
            Template::Spread => [("topologySpreadConstraints", spread("DoNotSchedule"))],
            Template::PreferredSpread => [("topologySpreadConstraints", spread("ScheduleAnyway"))],
            Template::WithVolume => {
                [("volumes", value!([{"name": "vol", "persistentVolumeClaim": {"claimName": (name)}}]))]
            }
        };
        for (field, value) in spec {
            pod.set(&["spec", field], value.clone());
        }
        if let Some(color) = self.color() {
            pod.set(&["metadata", "labels", "color"], color);
        }
    }

    fn color(self) -> Option<&'static str> {
        match self {
            Template::Affinity | Template::Spread | Template::PreferredSpread => Some("blue"),
            Template::AntiAffinity => Some("green"),
            Template::PreferredAffinity => Some("red"),
            Template::PreferredAntiAffinity => Some("yellow"),
            _ => None,
        }
    }
}

fn node_affinity(term: Value) -> Value {
    value!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [(term)]}}})
}

fn term(color: &str, topology: &str) -> Value {
    value!({"labelSelector": {"matchLabels": {"color": (color)}}, "topologyKey": (topology),
        "namespaces": [(SECOND_NAMESPACE), (FIRST_NAMESPACE)]})
}

fn required(kind: &str, color: &str, topology: &str) -> Value {
    let mut affinity = Value::object();
    affinity
        .set(&[kind, "requiredDuringSchedulingIgnoredDuringExecution"], value!([(term(color, topology))]));
    affinity
}

fn preferred(kind: &str, color: &str, topology: &str) -> Value {
    let mut affinity = Value::object();
    let weighted = value!({"weight": 1, "podAffinityTerm": (term(color, topology))});
    affinity.set(&[kind, "preferredDuringSchedulingIgnoredDuringExecution"], value!([(weighted)]));
    affinity
}

fn spread(when: &str) -> Value {
    value!([{"maxSkew": 5, "topologyKey": (ZONE), "whenUnsatisfiable": (when),
        "labelSelector": {"matchLabels": {"color": "blue"}}}])
}
