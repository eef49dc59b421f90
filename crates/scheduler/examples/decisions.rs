//! Benchmark: decisions per second, by the size of the cluster and the constraints of pods:
//! `cargo run --release -p corten-scheduler --example decisions [PODS [KIND]]`.

use corten_api::{Value, value};
use corten_scheduler::rehearse;

const NODES: [usize; 5] = [100, 1000, 5000, 15_000, 50_000];
const KINDS: [&str; 6] = ["plain", "affinity", "preferred affinity", "spread", "hopeless", "preempting"];
const ZONE: &str = "topology.kubernetes.io/zone";

fn node(index: usize) -> Value {
    let name = format!("node-{index}");
    let room = value!({"cpu": "400", "memory": "3200Gi", "pods": "11000"});
    let mut node =
        value!({"metadata": {"name": (name.clone()), "labels": {}}, "status": {"allocatable": (room)}});
    node.set(&["metadata", "labels", "kubernetes.io/hostname"], name);
    node.set(&["metadata", "labels", ZONE], format!("zone-{}", index % 3));
    node
}

fn pod(index: usize, kind: &str) -> Value {
    let requests = value!({"cpu": "100m", "memory": "500Mi"});
    let mut pod = value!({
        "metadata": {"name": (format!("pod-{index}")), "namespace": "default", "uid": (format!("uid-{index}")),
            "labels": {"color": "blue"}},
        "spec": {"containers": [{"name": "pause", "image": "pause", "resources": {"requests": (requests)}}]},
    });
    let term = |topology: &str| value!({"labelSelector": {"matchLabels": {"color": "blue"}}, "topologyKey": (topology)});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    match kind {
        "affinity" => pod.set(&["spec", "affinity", "podAffinity", required], value!([(term(ZONE))])),
        "preferred affinity" => {
            let weighted = value!({"weight": 1, "podAffinityTerm": (term("kubernetes.io/hostname"))});
            pod.set(&["spec", "affinity", "podAffinity", preferred], value!([(weighted)]));
        }
        "spread" => {
            let mut constraint = term(ZONE);
            constraint.set(&["maxSkew"], 5);
            constraint.set(&["whenUnsatisfiable"], "DoNotSchedule");
            pod.set(&["spec", "topologySpreadConstraints"], value!([(constraint)]));
        }
        "preempting" => {
            pod.set(&["spec", "priority"], 10);
            set_cpu(&mut pod, "300");
        }
        "hopeless" => pod.set(&["spec", "nodeSelector"], value!({"no": "such node"})),
        _ => {}
    }
    pod
}

fn set_cpu(pod: &mut Value, cpu: &str) {
    let container = value!({"name": "pause", "image": "pause", "resources": {"requests": {"cpu": (cpu)}}});
    pod.set(&["spec", "containers"], value!([(container)]));
}

/// Four pods on every node that leave no room for an important one.
fn in_the_way(nodes: usize) -> impl Iterator<Item = Value> {
    (0..4 * nodes).map(|index| {
        let name = format!("before-{index}");
        let mut pod = value!({
            "metadata": {"name": (name.clone()), "namespace": "default", "uid": (name)},
            "spec": {"nodeName": (format!("node-{}", index / 4))},
        });
        set_cpu(&mut pod, "90");
        pod
    })
}

/// The number of decisions per second.
fn rate(nodes: usize, pods: usize, kind: &str) -> f64 {
    // Each of the important ones has a node to itself.
    let preempting = kind == "preempting";
    let (pods, before) = if preempting { (pods.min(nodes), nodes) } else { (pods, 0) };
    let asking = (0..pods).map(|index| pod(index, kind));
    let rehearsed = rehearse((0..nodes).map(node), in_the_way(before).chain(asking));
    let expected = if kind == "hopeless" { 0 } else { pods };
    assert_eq!(rehearsed.placed, expected, "{kind} pods on {nodes} nodes");
    pods as f64 / rehearsed.took.as_secs_f64()
}

fn main() {
    let pods: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    println!("{:>20} {}", "nodes", NODES.map(|nodes| format!("{nodes:>9}")).join(" "));
    let only = std::env::args().nth(2);
    for kind in KINDS.into_iter().filter(|kind| only.as_ref().is_none_or(|only| only == kind)) {
        let rates = NODES.map(|nodes| format!("{:>9.0}", rate(nodes, pods, kind)));
        println!("{kind:>20} {}  decisions/s", rates.join(" "));
    }
}
