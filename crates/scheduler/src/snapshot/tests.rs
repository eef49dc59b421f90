use corten_api::value;

use super::*;
use crate::framework::Plugin;
use crate::plugins::inter_pod_affinity::InterPodAffinity;
use crate::plugins::pod_topology_spread::PodTopologySpread;
use crate::random::Random;
use crate::testing::{NodeBuilder, PodBuilder, Scene, node, pod};

#[test]
fn requested_resources_are_subtracted() {
    let mut scene = Scene::new([node("a")]);
    let asking = || pod("p").requests(value!({"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"}));
    scene.put(asking().build(), "a");
    scene.put(asking().build(), "a");
    let snapshot = &mut scene.cluster.snapshot;
    assert_eq!((snapshot.room(0).used_milli_cpu, snapshot.room(0).pods), (1000, 1), "a pod counts once");
    assert_eq!(snapshot.place(0).used_scalar("example.com/gpu"), 2);
    snapshot.remove_pod("p");
    assert_eq!((snapshot.room(0).used_milli_cpu, snapshot.room(0).pods), (0, 0));
    assert_eq!(snapshot.place(0).used_scalar("example.com/gpu"), 0);
    assert!(snapshot.place(0).used_scalars.is_empty(), "names of pods that are gone take no room");
}

#[test]
fn pods_may_be_observed_before_their_node() {
    let mut scene = Scene::new([]);
    scene.put(pod("p").requests(value!({"cpu": "1"})).build(), "late");
    assert_eq!(scene.cluster.snapshot.len(), 0);
    scene.cluster.snapshot.set_node(Arc::new(node("late").node()));
    let at = scene.cluster.snapshot.find("late").unwrap();
    assert_eq!(scene.cluster.snapshot.room(at).used_milli_cpu, 1000);
    scene.cluster.snapshot.remove_node("late");
    assert_eq!(scene.cluster.snapshot.find("late"), None);
    scene.cluster.snapshot.remove_pod("p");
    assert!(scene.cluster.snapshot.by_name.is_empty(), "nothing is left behind");
}

fn any_node(random: &mut Random) -> NodeBuilder {
    let built = node(&format!("n{}", random.below(6)));
    let built = if random.below(4) > 0 { built.zone(&format!("z{}", random.below(3))) } else { built };
    if random.below(4) == 0 { built.taint("k", "v", "NoSchedule") } else { built }
}

fn any_pod(random: &mut Random) -> PodBuilder {
    let app = |random: &mut Random| format!("app{}", random.below(3));
    let mut built = pod(&format!("p{}", random.below(20))).label("app", &app(random));
    let topology = ["zone", "kubernetes.io/hostname"][random.below(2)];
    let other = app(random);
    match random.below(7) {
        0 => built = built.required("podAffinity", "app", &other, topology),
        1 => built = built.required("podAntiAffinity", "app", &other, topology),
        2 => built = built.preferred("podAffinity", 10, "app", &other, topology),
        3 => built = built.preferred("podAntiAffinity", 5, "app", &other, topology),
        4 => built = built.spread(1, topology, "DoNotSchedule", "app", &other),
        5 => built = built.spread(1, topology, "ScheduleAnyway", "app", &other),
        _ => {}
    }
    if random.below(5) == 0 {
        built = built.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    }
    built
}

/// The same nodes and pods, counted anew.
fn anew(scene: &Scene) -> Scene {
    let mut fresh = Scene::new([]);
    let snapshot = &scene.cluster.snapshot;
    for place in &snapshot.places {
        if let Some(node) = &place.node {
            fresh.cluster.snapshot.set_node(node.clone());
        }
        for pod in place.pods.iter().filter(|pod| snapshot.pods.contains_key(&pod.uid)) {
            fresh.cluster.snapshot.add_pod(pod.clone(), &place.name);
        }
    }
    fresh.nodes =
        scene.nodes.iter().filter_map(|at| fresh.cluster.snapshot.find(snapshot.name(*at))).collect();
    fresh
}

/// Whatever happens in whatever order, the counters equal a recount.
#[test]
fn counters_equal_a_recount() {
    let plugins: [&dyn Plugin; 2] = [&InterPodAffinity::default(), &PodTopologySpread::default()];
    for seed in 1..40 {
        let mut random = Random::new(seed * 7919);
        let mut scene = Scene::new([]);
        let asking: Vec<_> =
            (0..6).map(|_| any_pod(&mut random).set(&["metadata", "uid"], "new").build()).collect();
        for _ in 0..60 {
            let name = format!("n{}", random.below(6));
            match random.below(8) {
                0..=1 => scene.cluster.snapshot.set_node(Arc::new(any_node(&mut random).node())),
                2 => scene.cluster.snapshot.remove_node(&name),
                3 => drop(scene.cluster.snapshot.remove_pod(&format!("p{}", random.below(20)))),
                _ => scene.put(any_pod(&mut random).build(), &name),
            }
            scene.nodes = scene.cluster.snapshot.order().to_vec();
            let mut fresh = anew(&scene);
            for pod in &asking {
                for plugin in plugins {
                    let (kept, counted) = (scene.filter(plugin, pod), fresh.filter(plugin, pod));
                    assert_eq!(kept, counted, "seed {seed}, {}", plugin.name());
                    let (kept, counted) = (scene.scores(plugin, pod), fresh.scores(plugin, pod));
                    assert_eq!(kept, counted, "seed {seed}, {}", plugin.name());
                }
            }
        }
    }
}
