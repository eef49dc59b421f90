use corten_api::value;

use super::*;
use crate::config::Config;
use crate::testing::{NodeBuilder, Scene, node, pod};

struct Test {
    scene: Scene,
    profile: Profile,
    search: Search,
}

impl Test {
    fn new(nodes: impl IntoIterator<Item = NodeBuilder>) -> Test {
        let profile = Config::default().profiles.remove(0);
        Test { scene: Scene::new(nodes), profile, search: Search::new(0, Random::new(7)) }
    }

    /// The node of a pod, or the reasons why it is unschedulable.
    fn decide(&mut self, pod: &Pod) -> String {
        let mut shape_cache = self.profile.take_shape_cache(pod);
        let decided = self.decide_knowing(&mut shape_cache, pod);
        self.profile.put_shape_cache(pod, shape_cache);
        decided
    }

    fn decide_knowing(&mut self, shape_cache: &mut ShapeCache, pod: &Pod) -> String {
        match self.search.decide(shape_cache, &self.profile, &mut self.scene.cluster, pod) {
            Decision::Node(at) => self.scene.cluster.snapshot.name(at).to_string(),
            Decision::NoNodes => "no nodes".to_owned(),
            Decision::Unschedulable(diagnosis) => diagnosis.message(),
        }
    }
}

#[test]
fn the_node_with_the_best_score_is_chosen() {
    let mut test = Test::new([node("full"), node("empty"), node("cordoned").cordoned()]);
    test.scene.put(pod("there").requests(value!({"cpu": "4", "memory": "16Gi"})).build(), "full");
    assert_eq!(test.decide(&pod("p").requests(value!({"cpu": "1", "memory": "4Gi"})).build()), "empty");
}

#[test]
fn ties_are_broken_at_random() {
    let mut test = Test::new([node("a"), node("b"), node("c")]);
    let mut found: Vec<String> = (0..50).map(|_| test.decide(&pod("p").build())).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, ["a", "b", "c"]);
}

#[test]
fn only_named_nodes_are_filtered() {
    let mut test = Test::new([node("a"), node("b").cordoned(), node("c")]);
    let on = |name: &str| {
        let fields = value!([{"key": "metadata.name", "operator": "In", "values": [(name)]}]);
        let terms = value!({"nodeSelectorTerms": [{"matchFields": (fields)}]});
        pod("p")
            .spec(
                "affinity",
                value!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (terms)}}),
            )
            .build()
    };
    assert_eq!(test.decide(&on("c")), "c");
    let refused = "0/3 nodes are available: 1 node(s) were unschedulable, \
                   2 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert_eq!(test.decide(&on("b")), refused);
    let unknown = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert_eq!(test.decide(&on("z")), unknown);
}

#[test]
fn every_reason_is_reported() {
    let mut test = Test::new([node("a").cordoned(), node("b").taint("k", "v", "NoExecute"), node("c")]);
    let pod = pod("p").spec("nodeSelector", value!({"disk": "ssd"})).build();
    let reported = "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
                1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.";
    assert_eq!(test.decide(&pod), reported);
}

#[test]
fn filtering_stops_at_enough_feasible_nodes() {
    let search = |percentage| Search::new(percentage, Random::new(1));
    let profile = |percentage| {
        let mut profile = Config::default().profiles.remove(0);
        profile.percentage = percentage;
        profile
    };
    for (all, percentage, own, expected) in [
        (50, 0, None, 50),
        (100, 0, None, 100),
        (1000, 0, None, 420),
        (5000, 0, None, 500),
        (6000, 0, None, 300),
        (50_000, 0, None, 2500),
        (1000, 30, None, 300),
        (1000, 30, Some(70), 700),
        (1000, 100, None, 1000),
        (200, 10, None, 100),
    ] {
        assert_eq!(search(percentage).enough(&profile(own), all), expected, "{all} {percentage} {own:?}");
    }
}

#[test]
fn a_cycle_starts_where_the_last_one_ended() {
    let mut test = Test::new((0..400).map(|at| node(&format!("n{at}"))));
    let enough = test.search.enough(&test.profile, 400);
    test.decide(&pod("p").build());
    assert_eq!(test.search.start, enough);
    for _ in 0..9 {
        test.decide(&pod("p").build());
    }
    assert_eq!(test.search.start, enough * 10 % 400);
}

#[test]
fn resources_are_reserved_for_nominated_pods() {
    let tiny = || node("a").allocatable(value!({"cpu": "2", "memory": "8Gi", "pods": "10"}));
    let mut test = Test::new([tiny()]);
    let important = Arc::new(pod("important").priority(10).requests(value!({"cpu": "2"})).build());
    test.scene.cluster.snapshot.nominate(&important, "a");
    let asking = |priority| pod("p").priority(priority).requests(value!({"cpu": "1"})).build();
    assert!(test.decide(&asking(1)).contains("Insufficient cpu"));
    assert_eq!(test.decide(&asking(11)), "a", "for those who are more important it does not count");
    assert_eq!(test.decide(&important), "a");
    assert_eq!(test.scene.cluster.snapshot.room(0).pods, 0, "nothing is left behind");
}

/// Whatever happens to the nodes, cached rejections equal those of a new evaluation.
#[test]
fn cached_rejections_equal_a_new_evaluation() {
    let mut random = Random::new(11);
    let mut test = Test::new([]);
    let any_node = |random: &mut Random, name: &str| {
        let cpu = (1 + random.below(3)).to_string();
        let built = node(name).allocatable(value!({"cpu": (cpu), "memory": "8Gi", "pods": "2"}));
        if random.below(4) == 0 { built.cordoned() } else { built }
    };
    let asking = |name: &str| pod(name).priority(5).requests(value!({"cpu": "2500m"})).build();
    let pods: Vec<Arc<Pod>> = ["p", "q", "r"].map(|name| Arc::new(asking(name))).into();
    let mut refused = 0;
    for round in 0..3000 {
        let name = format!("n{}", random.below(6));
        let snapshot = &mut test.scene.cluster.snapshot;
        match random.below(7) {
            0 | 1 => snapshot.set_node(Arc::new(any_node(&mut random, &name).node())),
            2 => snapshot.remove_node(&name),
            3 => {
                let there = pod(&format!("there{}", random.below(6))).requests(value!({"cpu": "1"}));
                snapshot.add_pod(Arc::new(there.build()), &name);
            }
            4 => drop(snapshot.remove_pod(&format!("there{}", random.below(6)))),
            5 => snapshot.nominate(&pods[random.below(3)], &name),
            _ => drop(snapshot.unnominate(&pods[random.below(3)].uid)),
        }
        let asking = pods[random.below(3)].clone();
        let remembered = test.decide(&asking);
        if remembered.starts_with("0/") {
            refused += 1;
            assert_eq!(remembered, test.decide_knowing(&mut ShapeCache::default(), &asking), "round {round}");
        }
    }
    assert!(refused > 500, "{refused}");
}
