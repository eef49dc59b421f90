use corten_api::value;

use super::*;
use crate::testing::{Scene, node, pod};

fn check_in(plugin: &NodeResourcesFit, scene: &mut Scene, asks: &Value, expected: &str) {
    let found = scene.filter(plugin, &pod("p").requests(asks.clone()).build());
    let said = found[0].as_ref().map(|rejection| {
        let kind = if rejection.unresolvable { "never: " } else { "" };
        format!("{kind}{}", rejection.message())
    });
    assert_eq!(said.unwrap_or_default(), expected, "{asks:?}");
}

#[test]
fn requests_must_fit() {
    let mut scene = Scene::new([node("a").allocatable(value!({
        "cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "2", "example.com/gpu": "2",
        "hugepages-2Mi": "4Mi"}))]);
    let used = value!({"cpu": "1", "memory": "2Gi", "example.com/gpu": "1", "ephemeral-storage": "2Gi"});
    scene.put(pod("there").requests(used).build(), "a");
    let fit = NodeResourcesFit::default();
    let mut check = |asks: Value, expected| check_in(&fit, &mut scene, &asks, expected);
    check(value!({}), "");
    check(value!({"cpu": "3", "memory": "6Gi"}), "");
    check(value!({"cpu": "3001m"}), "Insufficient cpu");
    check(value!({"cpu": "5"}), "never: Insufficient cpu");
    check(value!({"cpu": "4", "memory": "7Gi"}), "Insufficient cpu, Insufficient memory");
    check(value!({"example.com/gpu": "1"}), "");
    check(value!({"example.com/gpu": "2"}), "Insufficient example.com/gpu");
    check(value!({"example.com/tpu": "1"}), "never: Insufficient example.com/tpu");
    check(value!({"hugepages-2Mi": "6Mi"}), "never: Insufficient hugepages-2Mi");
    check(value!({"ephemeral-storage": "9Gi"}), "Insufficient ephemeral-storage");
    scene.put(pod("there too").build(), "a");
    check_in(&fit, &mut scene, &value!({}), "Too many pods");
    check_in(&fit, &mut scene, &value!({"cpu": "4"}), "Too many pods, Insufficient cpu");
}

#[test]
fn ignored_resources_do_not_count() {
    let mut scene = Scene::new([node("a")]);
    let ignoring = NodeResourcesFit {
        ignored: vec!["example.com/gpu".into()],
        ignored_groups: vec!["group.io".into()],
        ..NodeResourcesFit::default()
    };
    check_in(&ignoring, &mut scene, &value!({"example.com/gpu": "9"}), "");
    check_in(&ignoring, &mut scene, &value!({"group.io/anything": "9"}), "");
    check_in(&ignoring, &mut scene, &value!({"other.io/x": "1"}), "never: Insufficient other.io/x");
}

#[test]
fn emptier_nodes_score_higher() {
    let sized =
        |name, cpu: &str| node(name).allocatable(value!({"cpu": (cpu), "memory": "10000", "pods": "9"}));
    let mut scene = Scene::new([sized("a", "4000m"), sized("b", "6000m")]);
    let asking = pod("p").requests(value!({"cpu": "3000m", "memory": "5000"})).build();
    assert_eq!(scene.scores(&NodeResourcesFit::default(), &asking), Some(vec![37, 50]));
    let most = NodeResourcesFit { strategy: Strategy::MostAllocated, ..NodeResourcesFit::default() };
    assert_eq!(scene.scores(&most, &asking), Some(vec![62, 50]));
}

#[test]
fn queueing_hints() {
    let fit = NodeResourcesFit::default();
    let asking = pod("p").requests(value!({"cpu": "2"})).build();
    let sized =
        |cpu: &str| node("a").allocatable(value!({"cpu": (cpu), "memory": "1Gi", "pods": "9"})).node();
    let (small, large, huge) = (sized("1"), sized("2"), sized("3"));
    assert!(!fit.queueing_hint(&asking, &ClusterEvent::NodeAdded(&small)));
    assert!(fit.queueing_hint(&asking, &ClusterEvent::NodeAdded(&large)));
    assert!(fit.queueing_hint(&asking, &ClusterEvent::NodeChanged { old: &large, new: &huge }));
    assert!(!fit.queueing_hint(&asking, &ClusterEvent::NodeChanged { old: &huge, new: &huge }));
    let there = pod("there").requests(value!({"cpu": "2"})).build();
    let shrunk = pod("there").requests(value!({"cpu": "1"})).build();
    assert!(fit.queueing_hint(&asking, &ClusterEvent::AssignedPodChanged { old: &there, new: &shrunk }));
    assert!(!fit.queueing_hint(&asking, &ClusterEvent::AssignedPodChanged { old: &shrunk, new: &there }));
    assert!(fit.queueing_hint(&asking, &ClusterEvent::PodGone(&there)));
}

/// An attack: a pod that asks for very many resources that no node has, of which each node would name all.
#[test]
fn a_node_does_not_name_very_many_missing_resources() {
    let asks: corten_api::Map =
        (0..10_000).map(|i| (format!("example.com/r{i}").into(), Value::from("1"))).collect();
    let pod = pod("p").requests(Value::Object(asks)).build();
    let mut scene = Scene::new([node("a"), node("b")]);
    for rejection in scene.filter(&NodeResourcesFit::default(), &pod).into_iter().flatten() {
        assert_eq!(rejection.reasons.iter().count(), MOST_REASONS);
        assert!(rejection.unresolvable);
    }
    assert_eq!(scene.fits(&NodeResourcesFit::default(), &pod), [false, false]);
}
