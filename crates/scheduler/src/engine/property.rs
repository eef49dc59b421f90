//! Random clusters, judged by the independent checker.

use std::collections::BTreeMap;

use corten_api::{meta, value};

use super::independent::World;
use super::*;
use crate::pod::Shapes;
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

/// The API server's side: the objects, and the bindings.
struct Cluster {
    engine: Engine,
    shapes: Shapes,
    random: Random,
    now: Timestamp,
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<String, (Value, Option<String>)>,
    created: usize,
}

fn any_node(random: &mut Random, name: &str) -> NodeBuilder {
    let cpu = (1 + random.below(4)).to_string();
    let mut built = node(name).allocatable(value!({"cpu": (cpu), "memory": "8Gi", "pods": "6"}));
    if random.below(5) > 0 {
        built = built.zone(&format!("z{}", random.below(3)));
    }
    if random.below(6) == 0 {
        built = built.taint("gpu", "", "NoSchedule");
    }
    if random.below(8) == 0 { built.cordoned() } else { built }
}

fn any_pod(random: &mut Random, name: &str) -> PodBuilder {
    let app = |random: &mut Random| format!("app{}", random.below(3));
    let (own, other) = (app(random), app(random));
    let topology = ["zone", "kubernetes.io/hostname"][random.below(2)];
    let mut built = match random.below(8) {
        0 => pod(name).ports(&[("", "TCP", 8000 + random.below(2) as i64)]),
        asked => pod(name).requests(value!({"cpu": (format!("{}m", asked * 200)), "memory": "100Mi"})),
    };
    built = built.label("app", &own);
    if random.below(4) == 0 {
        built = built.priority(1 + random.below(3) as i64);
    }
    match random.below(10) {
        0 => built = built.required("podAffinity", "app", &other, topology),
        1 | 2 => built = built.required("podAntiAffinity", "app", &other, topology),
        3 | 4 => built = built.spread(1 + random.below(2) as i64, topology, "DoNotSchedule", "app", &own),
        5 => built = built.spec("nodeSelector", value!({"zone": (format!("z{}", random.below(3)))})),
        6 => built = built.spec("tolerations", value!([{"key": "gpu", "operator": "Exists"}])),
        _ => {}
    }
    built
}

impl Cluster {
    fn new(seed: u64) -> Cluster {
        Cluster {
            engine: Engine::new(Config::default(), seed),
            shapes: Shapes::default(),
            random: Random::new(seed),
            now: Timestamp::from_second(1_000_000).unwrap(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            created: 0,
        }
    }

    fn tell_node(&mut self, name: &str) {
        let node = self.nodes.get(name).map(|node| Arc::new(Node::of(node)));
        self.engine.apply(Change::Node { name: name.into(), node }, self.now);
    }

    fn tell_pod(&mut self, name: &str) {
        let pod = self.pods.get(name).map(|(pod, on)| {
            let mut pod = pod.clone();
            if let Some(on) = on {
                pod.set(&["spec", "nodeName"], on.as_str());
            }
            Arc::new(Pod::of(&pod, &self.shapes))
        });
        self.engine.apply(Change::Pod { key: Key::new("default", name), pod }, self.now);
    }

    /// A random change.
    fn disturb(&mut self) {
        let name = format!("n{}", self.random.below(8));
        match self.random.below(10) {
            0..=2 => {
                let node = any_node(&mut self.random, &name).0;
                self.nodes.insert(name.clone(), node);
                self.tell_node(&name);
            }
            3 => {
                self.nodes.remove(&name);
                self.tell_node(&name);
            }
            4 | 5 if !self.pods.is_empty() => {
                let at = self.random.below(self.pods.len());
                let name = self.pods.keys().nth(at).cloned().unwrap();
                self.pods.remove(&name);
                self.tell_pod(&name);
            }
            _ => {
                self.created += 1;
                let name = format!("p{}", self.created);
                let pod = any_pod(&mut self.random, &name).0;
                self.pods.insert(name.clone(), (pod, None));
                self.tell_pod(&name);
            }
        }
    }

    /// Builds a new engine from the objects, as after a restart.
    fn restart(&mut self) {
        self.engine = Engine::new(Config::default(), self.created as u64);
        let (nodes, pods): (Vec<_>, Vec<_>) =
            (self.nodes.keys().cloned().collect(), self.pods.keys().cloned().collect());
        nodes.iter().for_each(|name| self.tell_node(name));
        pods.iter().for_each(|name| self.tell_pod(name));
    }

    fn filter_node(&self, pod: &Value, node: &str) -> bool {
        let nodes: Vec<Value> = self.nodes.values().cloned().collect();
        let others = self.pods.values().filter(|(other, _)| meta::uid(other) != meta::uid(pod));
        let placed: Vec<_> = others.filter_map(|(pod, on)| Some((pod.clone(), on.clone()?))).collect();
        let world = World { nodes: &nodes, placed: &placed };
        self.nodes.get(node).is_some_and(|node| world.allows(pod, node))
    }

    /// Deletes the victims of a preemption, before or after the response, or refuses.
    fn make_way(&mut self, pod: &Pod, victims: &[Arc<Pod>], seed: u64) {
        for victim in victims {
            assert!(
                victim.shape.priority < pod.shape.priority,
                "seed {seed}: {} for {}",
                victim.key,
                pod.key
            );
        }
        let (asked, agreed) = (self.random.below(victims.len() + 1), self.random.below(8) > 0);
        let gone = if agreed { victims.len() } else { asked };
        for (at, victim) in victims[..gone].iter().enumerate() {
            if at == asked {
                self.preempted(pod, agreed);
            }
            self.pods.remove(victim.key.name.as_str());
            self.tell_pod(&victim.key.name);
        }
        self.preempted(pod, agreed);
    }

    fn preempted(&mut self, pod: &Pod, agreed: bool) {
        self.engine.apply(Change::Preempted { uid: pod.uid.clone(), agreed }, self.now);
    }

    /// Runs the engine until it waits; some requests are refused.
    fn settle(&mut self, seed: u64) {
        for _ in 0..1000 {
            match self.engine.step(self.now) {
                Step::Bind { pod, node, .. } => {
                    let name = pod.key.name.to_string();
                    let (object, before) = self.pods.get(&name).cloned().unwrap();
                    assert_eq!(before, None, "seed {seed}: {name} is bound twice");
                    assert!(
                        self.filter_node(&object, &node),
                        "seed {seed}: {name} must not be on {node}: {object:?}"
                    );
                    if self.random.below(12) == 0 {
                        let outcome = Err("conflict".to_owned());
                        self.engine.apply(Change::Bound { uid: pod.uid.clone(), outcome }, self.now);
                        continue;
                    }
                    self.pods.insert(name.clone(), (object, Some(node.to_string())));
                    self.engine.apply(Change::Bound { uid: pod.uid.clone(), outcome: Ok(()) }, self.now);
                    self.tell_pod(&name);
                }
                Step::Preempt { pod, victims, .. } => self.make_way(&pod, &victims, seed),
                Step::Wait(Some(due)) if due.duration_since(self.now).as_secs() < 60 => self.now = due,
                Step::Wait(_) => return,
                _ => {}
            }
        }
        panic!("seed {seed}: it never ends");
    }

    /// Checks that no pending pod has a feasible node.
    fn check(&self, seed: u64) {
        for (name, (pod, _)) in self.pods.iter().filter(|(_, (_, on))| on.is_none()) {
            let fits: Vec<&String> = self.nodes.keys().filter(|node| self.filter_node(pod, node)).collect();
            assert!(fits.is_empty(), "seed {seed}: {name} waits but could be on {fits:?}: {pod:?}");
        }
    }
}

/// Whatever happens, every placement is allowed and no schedulable pod stays pending, by the independent checker.
#[test]
fn every_placement_is_allowed_and_no_schedulable_pod_stays_pending() {
    for seed in 1..60 {
        let mut cluster = Cluster::new(seed * 104_729);
        for round in 0..12 {
            for _ in 0..1 + cluster.random.below(8) {
                cluster.disturb();
            }
            if round % 5 == 4 {
                cluster.restart();
            }
            cluster.settle(seed);
            cluster.check(seed);
        }
    }
}
