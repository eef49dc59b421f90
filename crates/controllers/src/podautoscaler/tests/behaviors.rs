//! Tests of scaling behaviors: windows, policies and bounds.

use corten_api::value;

use super::super::*;
use super::scene::{Scene, utilization};
use crate::testing::at;
use behavior::Bounds;

const BOUNDS: Bounds = Bounds { min: 1, max: 1000 };

fn memory(recommendations: &[(i64, i64)], grown: &[(i64, i64)], shrunk: &[(i64, i64)]) -> Memory {
    let times = |list: &[(i64, i64)]| list.iter().map(|(seconds, count)| (at(*seconds), *count)).collect();
    Memory { recommendations: times(recommendations), grown: times(grown), shrunk: times(shrunk) }
}

fn behavior(tree: &Value) -> Behavior {
    Behavior::of(tree, Duration::from_secs(300))
}

/// Replicas, and the reasons of AbleToScale and ScalingLimited.
fn outcome(normalized: &behavior::Normalized) -> (i64, &'static str, bool, &'static str) {
    (normalized.replicas, normalized.able.0, normalized.limited.0, normalized.limited.1)
}

#[test]
fn without_behaviour_targets_double_and_shrink_late() {
    for (recommendations, current, desired, expected) in [
        (vec![], 5, 8, (8, "ReadyForNewScale", false, "DesiredWithinRange")),
        (vec![], 5, 20, (10, "ReadyForNewScale", true, "ScaleUpLimit")),
        (vec![], 1, 20, (4, "ReadyForNewScale", true, "ScaleUpLimit")),
        (vec![], 5, 0, (1, "ReadyForNewScale", true, "TooFewReplicas")),
        (vec![], 900, 1200, (1000, "ReadyForNewScale", true, "TooManyReplicas")),
        (vec![(-299, 7)], 8, 3, (7, "ScaleDownStabilized", false, "DesiredWithinRange")),
        (vec![(-301, 7)], 8, 3, (3, "ReadyForNewScale", false, "DesiredWithinRange")),
        (vec![(-10, 2)], 5, 8, (8, "ReadyForNewScale", false, "DesiredWithinRange")),
    ] {
        let mut memory = memory(&recommendations, &[], &[]);
        let window = Duration::from_secs(300);
        let normalized = memory.normalize(current, desired, BOUNDS, window, at(0));
        assert_eq!(outcome(&normalized), expected, "{recommendations:?} {current} {desired}");
        assert_eq!(memory.recommendations.last(), Some(&(at(0), desired)), "it is remembered as it was");
    }
}

#[test]
fn windows_hold_back_either_way() {
    let windows = value!({"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {"stabilizationWindowSeconds": 120}});
    for (recommendations, current, desired, expected) in [
        (vec![(-50, 4), (-30, 6)], 5, 9, (5, "ScaleUpStabilized")),
        (vec![(-50, 7), (-30, 6)], 5, 9, (6, "ScaleUpStabilized")),
        (vec![(-70, 4)], 5, 9, (9, "ReadyForNewScale")),
        (vec![(-110, 8), (-30, 2)], 9, 3, (8, "ScaleDownStabilized")),
        (vec![(-130, 8)], 9, 3, (3, "ReadyForNewScale")),
        (vec![(-110, 8)], 5, 3, (5, "ScaleDownStabilized")),
    ] {
        let mut memory = memory(&recommendations, &[], &[]);
        let normalized = memory.normalize_by(&behavior(&windows), current, desired, BOUNDS, at(0));
        let (replicas, able, ..) = outcome(&normalized);
        assert_eq!((replicas, able), expected, "{recommendations:?} {current} {desired}");
    }
}

/// Rules with policies (percent, value, seconds), and how to choose among them.
fn rules(select: &str, policies: &[(bool, i64, i64)]) -> Value {
    let policy = |(percent, value, period): &(bool, i64, i64)| {
        let kind = if *percent { "Percent" } else { "Pods" };
        value!({"type": (kind), "value": (*value), "periodSeconds": (*period)})
    };
    let mut rules = value!({"selectPolicy": (select), "stabilizationWindowSeconds": 0});
    rules.set(&["policies"], policies.iter().map(policy).collect::<Vec<_>>());
    rules
}

#[test]
fn policies_limit_growth() {
    let up = |select: &str, policies: &[(bool, i64, i64)], grown: &[(i64, i64)], shrunk: &[(i64, i64)]| {
        let tree = value!({"scaleUp": (rules(select, policies))});
        let normalized = memory(&[], grown, shrunk).normalize_by(&behavior(&tree), 10, 500, BOUNDS, at(0));
        normalized.replicas
    };
    assert_eq!(up("Max", &[(false, 4, 60), (true, 100, 60)], &[], &[]), 20);
    assert_eq!(up("Min", &[(false, 4, 60), (true, 100, 60)], &[], &[]), 14);
    assert_eq!(up("Disabled", &[(false, 4, 60)], &[], &[]), 10);
    assert_eq!(up("Max", &[(false, 4, 60)], &[(-30, 3)], &[]), 11, "it grew already");
    assert_eq!(up("Max", &[(false, 4, 60)], &[(-30, 9)], &[]), 10, "and by too much");
    assert_eq!(up("Max", &[(false, 4, 60)], &[(-61, 3)], &[]), 14, "but that is long ago");
    assert_eq!(up("Max", &[(false, 4, 60)], &[], &[(-30, 3)]), 17, "back to where it was, and more");
    assert_eq!(up("Max", &[(true, 15, 60)], &[], &[]), 12, "rounded up");
    let few = value!({"scaleUp": (rules("Max", &[(true, 1, 60)]))});
    assert_eq!(memory(&[], &[], &[]).normalize_by(&behavior(&few), 1, 5, BOUNDS, at(0)).replicas, 2);
}

#[test]
fn policies_limit_shrinking() {
    let down = |select: &str, policies: &[(bool, i64, i64)], grown: &[(i64, i64)], shrunk: &[(i64, i64)]| {
        let tree = value!({"scaleDown": (rules(select, policies))});
        let normalized = memory(&[], grown, shrunk).normalize_by(&behavior(&tree), 100, 2, BOUNDS, at(0));
        normalized.replicas
    };
    assert_eq!(down("Max", &[(false, 4, 60), (true, 10, 60)], &[], &[]), 90);
    assert_eq!(down("Min", &[(false, 4, 60), (true, 10, 60)], &[], &[]), 96);
    assert_eq!(down("Disabled", &[(false, 4, 60)], &[], &[]), 100);
    assert_eq!(down("Max", &[(false, 4, 60)], &[], &[(-30, 3)]), 99);
    assert_eq!(down("Max", &[(false, 4, 60)], &[], &[(-30, 9)]), 100);
    assert_eq!(down("Max", &[(false, 4, 60)], &[(-30, 20)], &[]), 76);
    assert_eq!(down("Max", &[(true, 33, 60)], &[], &[]), 67);
    let mut all = memory(&[], &[], &[]);
    let everything = value!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    let normalized = all.normalize_by(&behavior(&everything), 100, 0, BOUNDS, at(0));
    assert_eq!(outcome(&normalized), (1, "ReadyForNewScale", true, "TooFewReplicas"));
}

#[test]
fn scaling_limits_are_reported() {
    let tree = value!({"scaleUp": (rules("Max", &[(false, 4, 60)])), "scaleDown": (rules("Max", &[(false, 4, 60)]))});
    let of = |current, desired, max| {
        let bounds = Bounds { min: 3, max };
        let normalized =
            memory(&[], &[], &[]).normalize_by(&behavior(&tree), current, desired, bounds, at(0));
        (normalized.replicas, normalized.limited.1)
    };
    assert_eq!(of(10, 20, 50), (14, "ScaleUpLimit"));
    assert_eq!(of(10, 20, 12), (12, "TooManyReplicas"));
    assert_eq!(of(10, 2, 50), (6, "ScaleDownLimit"));
    assert_eq!(of(5, 2, 50), (3, "TooFewReplicas"));
    assert_eq!(of(10, 12, 50), (12, "DesiredWithinRange"));
}

#[test]
fn scale_events_limit_later_changes() {
    let tree = value!({"scaleUp": (rules("Max", &[(false, 4, 60)])), "scaleDown": (rules("Max", &[(false, 4, 60)]))});
    let mut scene = Scene::new(2, utilization(50))
        .change(&["spec", "behavior"], tree)
        .change(&["spec", "maxReplicas"], 100);
    let follow = |scene: Scene, count: i64, used: &str| {
        let mut scene = scene;
        scene.pods = (0..count).map(|number| super::scene::pod(&format!("p{number}"))).collect();
        scene.scale.set(&["status", "replicas"], count);
        scene.cpu(&vec![used; usize::try_from(count).unwrap()])
    };
    scene = follow(scene, 2, "10");
    assert_eq!(scene.reconcile().scaled, Some(6));
    scene.now = 15;
    scene = follow(scene, 6, "10");
    assert_eq!(scene.reconcile().scaled, None, "four a minute");
    assert_eq!(scene.condition("ScalingLimited")[1], "ScaleUpLimit");
    scene.now = 61;
    assert_eq!(scene.reconcile().scaled, Some(10));
    scene.now = 200;
    scene = follow(scene, 10, "1m");
    assert_eq!(scene.reconcile().scaled, Some(6));
}

#[test]
fn shrinking_waits_for_the_window_of_the_flag() {
    let mut scene = Scene::new(4, utilization(50)).cpu(&["10m"; 4]);
    assert_eq!(scene.reconcile().scaled, None, "the scale that was found is the first recommendation");
    assert_eq!(
        scene.condition("AbleToScale"),
        [
            "True",
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent recommendation"
        ]
    );
    scene.now = 299;
    assert_eq!(scene.reconcile().scaled, None);
    scene.now = 301;
    assert_eq!(scene.reconcile().scaled, Some(1));
    let mut hasty = Scene::new(4, utilization(50)).cpu(&["10m"; 4]);
    hasty.controller.options.downscale_stabilization = Duration::from_secs(10);
    hasty.reconcile();
    hasty.now = 11;
    assert_eq!(hasty.reconcile().scaled, Some(1));
}
