use corten_api::value;

use super::*;
use crate::testing::{PodBuilder, Scene, node, pod};

const NEAR: &str = "podAffinity";
const APART: &str = "podAntiAffinity";

fn scene() -> Scene {
    Scene::new([node("a").zone("z1"), node("b").zone("z1"), node("c").zone("z2"), node("d")])
}

#[track_caller]
fn check(scene: &mut Scene, pod: PodBuilder, expected: &[Option<Rejection>; 4]) {
    assert_eq!(scene.filter(&InterPodAffinity::default(), &pod.build()), expected);
}

#[test]
fn required_affinity_selects_domains() {
    let mut scene = scene();
    let wants = || pod("p").required(NEAR, "app", "db", "zone");
    check(&mut scene, wants(), &[Some(AFFINITY), Some(AFFINITY), Some(AFFINITY), Some(AFFINITY)]);
    scene.put(pod("db").label("app", "db").build(), "a");
    check(&mut scene, wants(), &[None, None, Some(AFFINITY), Some(AFFINITY)]);
    check(
        &mut scene,
        wants().namespace("other"),
        &[Some(AFFINITY), Some(AFFINITY), Some(AFFINITY), Some(AFFINITY)],
    );
    scene.cluster.snapshot.remove_pod("db");
    check(&mut scene, wants(), &[Some(AFFINITY), Some(AFFINITY), Some(AFFINITY), Some(AFFINITY)]);
}

#[test]
fn the_first_of_a_group_may_go_anywhere_with_the_label() {
    let mut scene = scene();
    let wants = || pod("p").label("app", "web").required(NEAR, "app", "web", "zone");
    check(&mut scene, wants(), &[None, None, None, Some(AFFINITY)]);
    scene.put(wants().build(), "c");
    check(
        &mut scene,
        wants().set(&["metadata", "uid"], "2"),
        &[Some(AFFINITY), Some(AFFINITY), None, Some(AFFINITY)],
    );
}

#[test]
fn one_pod_must_match_all_terms() {
    let mut scene = scene();
    scene.put(pod("1").label("app", "db").build(), "a");
    scene.put(pod("2").label("tier", "back").build(), "a");
    let wants = || pod("p").required(NEAR, "app", "db", "zone").required(NEAR, "tier", "back", "zone");
    check(&mut scene, wants(), &[Some(AFFINITY), Some(AFFINITY), Some(AFFINITY), Some(AFFINITY)]);
    scene.put(pod("3").label("app", "db").label("tier", "back").build(), "c");
    check(&mut scene, wants(), &[Some(AFFINITY), Some(AFFINITY), None, Some(AFFINITY)]);
}

#[test]
fn required_anti_affinity_rejects_domains() {
    let mut scene = scene();
    scene.put(pod("db").label("app", "db").build(), "a");
    let wants = || pod("p").required(APART, "app", "db", "zone");
    check(&mut scene, wants(), &[Some(ANTI_AFFINITY), Some(ANTI_AFFINITY), None, None]);
    let by_host = pod("p").required(APART, "app", "db", "kubernetes.io/hostname");
    check(&mut scene, by_host, &[Some(ANTI_AFFINITY), None, None, None]);
}

#[test]
fn anti_affinity_of_running_pods_rejects_domains() {
    let mut scene = scene();
    scene.put(pod("shy").required(APART, "app", "web", "zone").build(), "c");
    check(&mut scene, pod("p").label("app", "web"), &[None, None, Some(OTHERS), None]);
    check(&mut scene, pod("p").label("app", "db"), &[None, None, None, None]);
    scene.cluster.snapshot.remove_pod("shy");
    check(&mut scene, pod("p").label("app", "web"), &[None, None, None, None]);
}

#[test]
fn namespaces_are_selected_by_labels() {
    let mut scene = scene();
    let team = value!({"team": "x"});
    scene.put(pod("db").namespace("other").label("app", "db").build(), "c");
    let term = value!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone",
        "namespaceSelector": {"matchLabels": {"team": "x"}}});
    let wants = || {
        pod("p").set(
            &["spec", "affinity", APART, "requiredDuringSchedulingIgnoredDuringExecution"],
            value!([(term.clone())]),
        )
    };
    check(&mut scene, wants(), &[None, None, None, None]);
    scene.cluster.snapshot.set_namespace("other", team.as_object().cloned());
    check(&mut scene, wants(), &[None, None, Some(ANTI_AFFINITY), None]);
    scene.cluster.snapshot.set_namespace("other", None);
    check(&mut scene, wants(), &[None, None, None, None]);
}

#[test]
fn preferences_are_scaled_to_the_full_range() {
    let plugin = InterPodAffinity::default();
    let mut scene = scene();
    scene.put(pod("db").label("app", "db").build(), "a");
    scene.put(pod("web").label("app", "web").build(), "c");
    let near = pod("p").preferred(NEAR, 10, "app", "db", "zone").build();
    assert_eq!(scene.scores(&plugin, &near), Some(vec![100, 100, 0, 0]));
    let both = pod("p").preferred(NEAR, 10, "app", "db", "zone").preferred(APART, 10, "app", "web", "zone");
    assert_eq!(scene.scores(&plugin, &both.build()), Some(vec![100, 100, 0, 50]));
    assert_eq!(scene.scores(&plugin, &pod("p").build()), None);
}

#[test]
fn preferences_of_running_pods_count() {
    let plugin = InterPodAffinity::default();
    let mut scene = scene();
    scene.put(pod("needs").required(NEAR, "app", "web", "zone").build(), "c");
    scene.put(pod("likes").preferred(NEAR, 4, "app", "web", "zone").build(), "a");
    let web = pod("p").label("app", "web").build();
    assert_eq!(scene.scores(&plugin, &web), Some(vec![100, 100, 25, 0]));
    let deaf = InterPodAffinity { ignores_others: true, ..InterPodAffinity::default() };
    assert_eq!(scene.scores(&deaf, &web), None);
}

#[test]
fn queueing_hints() {
    let plugin = InterPodAffinity::default();
    let wants = pod("p").required(NEAR, "app", "db", "zone").build();
    let db = pod("db").label("app", "db").build();
    assert!(plugin.queueing_hint(&wants, &ClusterEvent::PodAssigned(&db)));
    assert!(!plugin.queueing_hint(&wants, &ClusterEvent::PodGone(&db)));
    let shuns = pod("p").required(APART, "app", "db", "zone").build();
    assert!(plugin.queueing_hint(&shuns, &ClusterEvent::PodGone(&db)));
    assert!(!plugin.queueing_hint(&shuns, &ClusterEvent::PodAssigned(&db)));
    let (plain, zoned) = (node("n").node(), node("n").zone("z").node());
    assert!(plugin.queueing_hint(&wants, &ClusterEvent::NodeChanged { old: &plain, new: &zoned }));
    assert!(!plugin.queueing_hint(&shuns, &ClusterEvent::NodeChanged { old: &zoned, new: &zoned }));
    assert!(plugin.queueing_hint(&shuns, &ClusterEvent::NodeChanged { old: &zoned, new: &plain }));
}

/// An attack: each required term is counted by the selectors of all, and so their number squared is held in memory.
#[test]
fn a_pod_with_very_many_terms_is_not_scheduled() {
    let term = |i: usize| value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": (format!("v{i}"))}}});
    let with = |kind: &str, list: &str, count: usize| {
        let terms: Vec<Value> = (0..count).map(term).collect();
        pod("p").set(&["spec", "affinity", kind, list], terms).build()
    };
    let mut scene = scene();
    let plugin = InterPodAffinity::default();
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    for kind in [NEAR, APART] {
        assert_eq!(scene.filter(&plugin, &with(kind, REQUIRED, 10_000)), vec![Some(TOO_MANY); 4], "{kind}");
        assert_ne!(scene.filter(&plugin, &with(kind, REQUIRED, 100))[0], Some(TOO_MANY));
    }
    let preferred = with(NEAR, "preferredDuringSchedulingIgnoredDuringExecution", 10_000);
    assert_eq!(scene.filter(&plugin, &preferred), vec![Some(TOO_MANY); 4]);
    // One that is on a node nevertheless burdens others with no more than counts.
    scene.put(with(APART, REQUIRED, 10_000), "a");
    let kept = crate::pod::terms::MOST_TERMS;
    assert!(scene.cluster.snapshot.terms_about(&pod("q").label("app", "v1").build().shape).len() <= kept);
}
