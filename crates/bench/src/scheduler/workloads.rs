//! The workloads of upstream's scheduler_perf: nodes, initial pods, and measured pods.

use corten_api::{Value, meta, value};

pub(crate) const FIRST_NAMESPACE: &str = "sched-0";
pub(crate) const SECOND_NAMESPACE: &str = "sched-1";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The node that all DaemonSet pods are for.
const CHOSEN_NODE: &str = "scheduler-perf-node";

/// One workload, with upstream's own counts.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) zones: &'static [&'static str],
    /// The default number of nodes.
    pub(crate) nodes: usize,
    /// Initial pods, which are bound before the measurement: their number on the default number of nodes.
    before: (usize, &'static [Template]),
    measured: Template,
    /// Pods that are created during the measurement, one every 200 ms, and not measured.
    meanwhile: Option<Template>,
    /// The default number of measured pods.
    pub(crate) pods: usize,
    /// Upstream's threshold in pods per second, if it has one.
    pub(crate) floor: Option<f64>,
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

const BASIC: Workload = Workload {
    name: "SchedulingBasic",
    zones: &[],
    nodes: 5000,
    before: (1000, &[Template::Plain]),
    measured: Template::Plain,
    meanwhile: None,
    pods: 10_000,
    floor: Some(680.0),
};
const MOONS: &[&str] = &["moon-1", "moon-2", "moon-3"];

pub(crate) const WORKLOADS: [Workload; 14] = [
    BASIC,
    Workload {
        name: "SchedulingNodeAffinity",
        zones: &["zone1"],
        before: (5000, &[Template::NodeAffinity]),
        measured: Template::NodeAffinity,
        floor: Some(540.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPodAffinity",
        zones: &["zone1"],
        before: (5000, &[Template::Affinity]),
        measured: Template::Affinity,
        pods: 5000,
        floor: Some(70.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPodAntiAffinity",
        before: (1000, &[Template::AntiAffinity]),
        measured: Template::AntiAffinity,
        pods: 2000,
        floor: Some(180.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPreferredPodAffinity",
        before: (5000, &[Template::PreferredAffinity]),
        measured: Template::PreferredAffinity,
        pods: 5000,
        floor: Some(160.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingPreferredPodAntiAffinity",
        before: (5000, &[Template::PreferredAntiAffinity]),
        measured: Template::PreferredAntiAffinity,
        pods: 5000,
        floor: Some(190.0),
        ..BASIC
    },
    Workload {
        name: "TopologySpreading",
        zones: MOONS,
        before: (5000, &[Template::Plain]),
        measured: Template::Spread,
        pods: 5000,
        floor: Some(460.0),
        ..BASIC
    },
    Workload {
        name: "PreferredTopologySpreading",
        zones: MOONS,
        before: (5000, &[Template::Plain]),
        measured: Template::PreferredSpread,
        pods: 5000,
        floor: Some(340.0),
        ..BASIC
    },
    Workload {
        name: "MixedSchedulingBasePod",
        zones: &["zone1"],
        before: (10_000, MIXED),
        pods: 5000,
        floor: Some(540.0),
        ..BASIC
    },
    // Every pod preempts three others. Upstream has no threshold for it, and runs it on fewer nodes.
    Workload {
        name: "PreemptionBasic",
        before: (20_000, &[Template::Low]),
        measured: Template::High,
        pods: 5000,
        floor: None,
        ..BASIC
    },
    Workload {
        name: "PreemptionAsync",
        before: (20_000, &[Template::Low]),
        meanwhile: Some(Template::High),
        pods: 5000,
        floor: Some(570.0),
        ..BASIC
    },
    Workload {
        name: "Unschedulable",
        before: (100, &[Template::Plain]),
        meanwhile: Some(Template::Large),
        floor: Some(590.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingCSIPVs",
        before: (5000, &[Template::WithVolume]),
        measured: Template::WithVolume,
        pods: 5000,
        floor: Some(100.0),
        ..BASIC
    },
    Workload {
        name: "SchedulingDaemonset",
        nodes: 15_000,
        before: (0, &[Template::Plain]),
        measured: Template::OnChosenNode,
        pods: 30_000,
        floor: Some(1100.0),
        ..BASIC
    },
];

const MIXED: &[Template] = &[
    Template::Plain,
    Template::Affinity,
    Template::AntiAffinity,
    Template::PreferredAffinity,
    Template::PreferredAntiAffinity,
];

impl Workload {
    pub(crate) fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// The node with this number.
    pub(crate) fn node(&self, index: usize) -> Value {
        let chosen = matches!(self.measured, Template::OnChosenNode) && index == 0;
        let name = if chosen { CHOSEN_NODE.to_owned() } else { format!("scheduler-perf-{index:05}") };
        let pods = if chosen { "90000" } else { "110" };
        let room = value!({"pods": pods, "cpu": "4", "memory": "32Gi"});
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

    /// The CSINode of the node with this number, with its volume limit.
    pub(crate) fn csi_node(&self, index: usize) -> Value {
        let name = meta::name(&self.node(index)).to_owned();
        value!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": (name.clone())},
            "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": (name), "allocatable": {"count": 39}}]},
        })
    }

    /// The number of initial pods for a number of nodes.
    pub(crate) fn pods_before(&self, nodes: usize) -> usize {
        nodes * self.before.0 / self.nodes
    }

    /// An initial pod.
    pub(crate) fn pod_before(&self, index: usize) -> Value {
        let (_, kinds) = self.before;
        kinds[index % kinds.len()].pod(&format!("before-{index:06}"), FIRST_NAMESPACE)
    }

    /// A measured pod.
    pub(crate) fn pod(&self, index: usize) -> Value {
        self.measured.pod(&format!("pod-{index:06}"), SECOND_NAMESPACE)
    }

    /// A pod that is created during the measurement.
    pub(crate) fn pod_meanwhile(&self, index: usize) -> Option<Value> {
        Some(self.meanwhile?.pod(&format!("meanwhile-{index:06}"), FIRST_NAMESPACE))
    }

    /// True if every pod needs a volume of its own.
    pub(crate) fn has_volumes(&self) -> bool {
        matches!(self.measured, Template::WithVolume)
    }
}

impl Template {
    fn pod(self, name: &str, namespace: &str) -> Value {
        let mut container = value!({"name": "pause", "image": "registry.k8s.io/pause:3.10.2"});
        if !matches!(self, Template::OnChosenNode) {
            let cpu = match self {
                Template::Low => "900m",
                Template::High => "3000m",
                Template::Large => "9",
                _ => "100m",
            };
            let requests = value!({"cpu": cpu, "memory": "500Mi"});
            container.set(&["ports"], value!([{"containerPort": 80}]));
            container.set(&["resources"], value!({"limits": (requests.clone()), "requests": (requests)}));
        }
        let mut pod = value!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": (name), "namespace": (namespace)},
            "spec": {"containers": [(container)]},
        });
        self.shape(&mut pod, name);
        pod
    }

    fn shape(self, pod: &mut Value, name: &str) {
        let spec: &[(&str, Value)] = &match self {
            Template::Plain => return,
            Template::Low => [("terminationGracePeriodSeconds", value!(0))],
            Template::High | Template::Large => [("priority", value!(10))],
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
