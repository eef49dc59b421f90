use corten_api::{Value, value};
use corten_client::Key;

use super::*;
use crate::testing::{PodBuilder, Scene, node, pod};
use crate::workloads::Selecting;

const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";

/// Two zones of two nodes, with this number of pods of the app on each.
fn scene(counts: [usize; 4]) -> Scene {
    let mut scene =
        Scene::new([node("a").zone("z1"), node("b").zone("z1"), node("c").zone("z2"), node("d").zone("z2")]);
    for (name, count) in ["a", "b", "c", "d"].iter().zip(counts) {
        for index in 0..count {
            scene.put(pod(&format!("{name}{index}")).label("app", "web").build(), name);
        }
    }
    scene
}

fn web() -> PodBuilder {
    pod("p").label("app", "web")
}

#[track_caller]
fn check(counts: [usize; 4], pod: PodBuilder, expected: [bool; 4]) {
    assert_eq!(scene(counts).fits(&PodTopologySpread::default(), &pod.build()), expected, "{counts:?}");
}

fn by_zone() -> PodBuilder {
    web().spread(1, "zone", HARD, "app", "web")
}

/// Changes the last constraint.
fn with(pod: PodBuilder, key: &'static str, value: Value) -> PodBuilder {
    let mut constraints = pod.0.items_at(&["spec", "topologySpreadConstraints"]).to_vec();
    if let Some(last) = constraints.last_mut() {
        last.set(&[key], value);
    }
    pod.spec("topologySpreadConstraints", Value::Array(constraints))
}

#[test]
fn pods_are_spread_over_zones() {
    check([0, 0, 0, 0], by_zone(), [true; 4]);
    check([1, 0, 0, 0], by_zone(), [false, false, true, true]);
    check([1, 0, 0, 1], by_zone(), [true; 4]);
    check([3, 0, 1, 1], by_zone(), [false, false, true, true]);
    check([3, 0, 1, 1], web().spread(2, "zone", HARD, "app", "web"), [true; 4]);
    check([3, 0, 1, 1], web(), [true; 4]);
    let stranger = pod("p").spread(1, "zone", HARD, "app", "web");
    check([2, 0, 1, 0], stranger, [true; 4]);
}

#[test]
fn pods_are_spread_over_nodes_within_zones() {
    let both = by_zone().spread(1, "kubernetes.io/hostname", HARD, "app", "web");
    check([2, 1, 0, 3], both, [false, false, true, false]);
}

#[test]
fn a_missing_topology_label_is_reported() {
    let mut scene = Scene::new([node("a").zone("z1"), node("b")]);
    let found = scene.filter(&PodTopologySpread::default(), &by_zone().build());
    assert_eq!(found, [None, Some(UNLABELLED)]);
}

#[test]
fn missing_domains_below_min_domains_count_as_empty() {
    check([1, 0, 1, 0], with(by_zone(), "minDomains", value!(3)), [false; 4]);
    check([1, 0, 1, 0], with(by_zone(), "minDomains", value!(2)), [true; 4]);
}

#[test]
fn nodes_excluded_by_affinity_do_not_count() {
    let on_z1 = by_zone().spec("nodeSelector", value!({"zone": "z1"}));
    check([2, 0, 0, 0], on_z1, [true, true, true, true]);
    let ignoring =
        with(by_zone().spec("nodeSelector", value!({"zone": "z1"})), "nodeAffinityPolicy", value!("Ignore"));
    check([2, 0, 0, 0], ignoring, [false, false, true, true]);
}

#[test]
fn tainted_nodes_count_unless_the_policy_excludes_them() {
    let tainted = |pod: PodBuilder| {
        let mut scene =
            Scene::new([node("a").zone("z1"), node("b").zone("z2").taint("k", "v", "NoSchedule")]);
        scene.put(web().set(&["metadata", "uid"], "1").build(), "a");
        scene.fits(&PodTopologySpread::default(), &pod.build())
    };
    assert_eq!(tainted(by_zone()), [false, true]);
    assert_eq!(tainted(with(by_zone(), "nodeTaintsPolicy", value!("Honor"))), [true, true]);
}

#[test]
fn terminating_pods_do_not_count() {
    let mut scene = scene([1, 0, 0, 0]);
    let going =
        web().set(&["metadata", "uid"], "a0").set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    scene.put(going.build(), "a");
    assert_eq!(scene.fits(&PodTopologySpread::default(), &by_zone().build()), [true; 4]);
}

#[test]
fn label_keys_narrow_the_pods() {
    let pod = with(by_zone().label("hash", "2"), "matchLabelKeys", value!(["hash"]));
    check([1, 0, 0, 0], pod, [true; 4]);
}

#[test]
fn domains_with_fewer_pods_score_higher() {
    let plugin = PodTopologySpread::default();
    let soft = || web().spread(1, "kubernetes.io/hostname", SOFT, "app", "web").build();
    assert_eq!(scene([2, 1, 0, 3]).scores(&plugin, &soft()), Some(vec![20, 60, 100, 0]));
    assert_eq!(scene([0, 0, 0, 0]).scores(&plugin, &soft()), Some(vec![100; 4]));
    let zone = || web().spread(1, "zone", SOFT, "app", "web").build();
    assert_eq!(scene([2, 1, 0, 1]).scores(&plugin, &zone()), Some(vec![25, 25, 100, 100]));
    assert_eq!(scene([1, 1, 1, 1]).scores(&plugin, &web().build()), None);
}

#[test]
fn pods_of_a_service_are_spread_by_default() {
    let plugin = PodTopologySpread::default();
    let mut scene = scene([2, 0, 0, 0]);
    let service = value!({"spec": {"selector": {"app": "web"}}});
    scene.cluster.workloads.set(Selecting::Service, &Key::new("default", "web"), Some(&service));
    let scores = scene.scores(&plugin, &web().build()).unwrap();
    assert!(scores[0] < scores[1] && scores[1] == scores[3], "{scores:?}");
    assert_eq!(scene.scores(&plugin, &pod("p").label("app", "other").build()), None);
}

/// An attack: a counter for each of very many constraints, each with the keys of all others.
#[test]
fn a_pod_with_very_many_constraints_is_not_scheduled() {
    let constraint = |i: usize| value!({"maxSkew": 1, "topologyKey": (format!("k{i}")), "whenUnsatisfiable": HARD, "labelSelector": {}});
    let with = |count: usize| {
        let constraints: Vec<Value> = (0..count).map(constraint).collect();
        web().set(&["spec", "topologySpreadConstraints"], constraints).build()
    };
    let mut scene = scene([1, 0, 0, 0]);
    let plugin = PodTopologySpread::default();
    assert_eq!(scene.filter(&plugin, &with(20_000)), vec![Some(TOO_MANY); 4]);
    assert_ne!(scene.filter(&plugin, &with(MOST_TERMS))[0], Some(TOO_MANY));
}
