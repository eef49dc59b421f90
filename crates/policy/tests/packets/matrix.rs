//! Every pair of pods of a generated cluster, under generated policies that change one after the other: exactly the traffic gets
//! through that a literal implementation of the definition allows.

use std::thread;

use corten_api::selector::LabelSelector;
use corten_api::{Value, value};

use crate::world::{PORTS, Pod, World};

const NAMESPACES: [(&str, &str); 3] = [("red", "warm"), ("blue", "cold"), ("green", "cold")];
const PODS: [(&str, &str, &str); 11] = [
    ("red", "r1", "web"),
    ("red", "r2", "db"),
    ("red", "r3", "web"),
    ("red", "r4", "job"),
    ("blue", "b1", "web"),
    ("blue", "b2", "db"),
    ("blue", "b3", "job"),
    ("blue", "b4", "web"),
    ("green", "g1", "web"),
    ("green", "g2", "db"),
    ("green", "g3", "job"),
];

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len())]
    }

    fn pods(&mut self) -> Value {
        match self.of(&["all", "web", "db", "job", "not-web"]) {
            "all" => value!({}),
            "not-web" => {
                value!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]})
            }
            app => value!({"matchLabels": {"app": (app)}}),
        }
    }

    fn peer(&mut self) -> Value {
        let warmth = self.of(&["warm", "cold"]);
        let namespaces = value!({"matchLabels": {"warmth": (warmth)}});
        match self.roll(4) {
            0 => value!({"podSelector": (self.pods())}),
            1 => value!({"namespaceSelector": (namespaces)}),
            2 => value!({"namespaceSelector": (namespaces), "podSelector": (self.pods())}),
            _ => value!({"ipBlock": {"cidr": "10.244.1.0/28", "except": ["10.244.1.4/31"]}}),
        }
    }

    fn rule(&mut self, peers: &str) -> Value {
        let mut rule = Value::object();
        if self.roll(4) > 0 {
            let count = 1 + self.roll(2);
            rule.set(&[peers], (0..count).map(|_| self.peer()).collect::<Vec<Value>>());
        }
        match self.roll(4) {
            0 => rule.set(&["ports"], vec![value!({"port": 80})]),
            1 => rule.set(&["ports"], vec![value!({"port": 81, "endPort": 90})]),
            2 => rule.set(&["ports"], vec![value!({"port": "web"})]),
            _ => {}
        }
        rule
    }

    fn policy(&mut self) -> Value {
        let types = self.of(&[&["Ingress"] as &[&str], &["Egress"], &["Ingress", "Egress"]]);
        let types: Vec<Value> = types.iter().map(|kind| Value::from(*kind)).collect();
        let (ingress, egress) = (self.roll(3), self.roll(3));
        value!({
            "podSelector": (self.pods()), "policyTypes": (types),
            "ingress": ((0..ingress).map(|_| self.rule("from")).collect::<Vec<Value>>()),
            "egress": ((0..egress).map(|_| self.rule("to")).collect::<Vec<Value>>()),
        })
    }
}

/// The literal implementation of the definition.
struct Definition<'a> {
    policies: &'a [(&'static str, Value)],
}

impl Definition<'_> {
    fn allows_connection(&self, from: &Pod, to: &Pod, port: u16) -> bool {
        from.address == to.address
            || self.allows("Egress", "egress", "to", from, to, port)
                && self.allows("Ingress", "ingress", "from", to, from, port)
    }

    fn allows(&self, kind: &str, rules: &str, peers: &str, selected: &Pod, other: &Pod, port: u16) -> bool {
        let selecting: Vec<_> = self
            .policies
            .iter()
            .filter(|(namespace, spec)| {
                let of_kind = spec.items_at(&["policyTypes"]).iter().any(|one| one.as_str() == Some(kind));
                of_kind
                    && selected.name().0 == *namespace
                    && selects(spec.get("podSelector"), &selected.object)
            })
            .collect();
        selecting.is_empty()
            || selecting.iter().any(|(namespace, spec)| {
                spec.items_at(&[rules]).iter().any(|rule| {
                    let peers = rule.items_at(&[peers]);
                    let ports = rule.items_at(&["ports"]);
                    let is_any = peers.is_empty() || peers.iter().any(|peer| is_peer(peer, namespace, other));
                    // Only pods have names for ports: a block that is an egress peer has none.
                    let has_name = kind == "Ingress"
                        || peers.is_empty()
                        || peers
                            .iter()
                            .any(|peer| peer.get("ipBlock").is_none() && is_peer(peer, namespace, other));
                    is_any && (ports.is_empty() || ports.iter().any(|wanted| is_port(wanted, port, has_name)))
                })
            })
    }
}

fn selects(selector: Option<&Value>, object: &Value) -> bool {
    LabelSelector::from_object(selector).unwrap().matches_object(object)
}

fn is_peer(peer: &Value, namespace: &str, other: &Pod) -> bool {
    if peer.get("ipBlock").is_some() {
        let last = other.address.to_string().rsplit('.').next().unwrap().parse::<u8>().unwrap();
        return last < 16 && last != 4 && last != 5;
    }
    let within = match peer.get("namespaceSelector") {
        None => other.name().0 == namespace,
        selector => {
            let (_, warmth) = NAMESPACES.iter().find(|(name, _)| *name == other.name().0).unwrap();
            selects(selector, &value!({"metadata": {"labels": {"warmth": (*warmth)}}}))
        }
    };
    let pods = peer.get("podSelector");
    within && (pods.is_none() || selects(pods, &other.object))
}

fn is_port(wanted: &Value, port: u16, has_name: bool) -> bool {
    match wanted.get("port").unwrap() {
        Value::Int(first) => {
            let last = wanted.int_at(&["endPort"]).unwrap_or(*first);
            (*first..=last).contains(&i64::from(port))
        }
        _ => port == 80 && has_name,
    }
}

#[test]
fn exactly_the_intended_pairs_get_through() {
    let mut world = World::new();
    for (name, warmth) in NAMESPACES {
        world.namespace(name, value!({"warmth": (warmth)}));
    }
    for (namespace, name, app) in PODS {
        world.pod(namespace, name, value!({"app": (app)}));
    }
    let mut dice = Dice(37);
    let (mut open, mut closed) = (0, 0);
    for round in 0..4 {
        let policies: Vec<(&'static str, Value)> =
            (0..4).map(|n| (NAMESPACES[(n + round) % 3].0, dice.policy())).collect();
        world.inputs.policies.clear();
        for (n, (namespace, spec)) in policies.iter().enumerate() {
            world.policy(namespace, &format!("p{n}"), spec.clone());
        }
        world.enforce();
        let definition = Definition { policies: &policies };
        let seen = all_pairs(&world);
        for (from, to, port, reached) in seen {
            let (from, to) = (&world.pods[from], &world.pods[to]);
            let expected = definition.allows_connection(from, to, port);
            assert_eq!(
                reached,
                expected,
                "round {round}: {:?} to {:?}:{port}\n{policies:#?}",
                from.name(),
                to.name()
            );
            if reached { open += 1 } else { closed += 1 }
        }
    }
    assert!(open > 100 && closed > 100, "{open} open and {closed} closed pairs prove little");
}

/// The results of all pairs of pods and ports, tested concurrently.
fn all_pairs(world: &World) -> Vec<(&'static str, &'static str, u16, bool)> {
    thread::scope(|scope| {
        let mut asked = Vec::new();
        for (_, from, _) in PODS {
            for (_, to, _) in PODS {
                for port in PORTS {
                    let ask = move || world.pods[from].reaches(world.pods[to].address, port);
                    asked.push((from, to, port, scope.spawn(ask)));
                }
            }
        }
        asked.into_iter().map(|(from, to, port, answer)| (from, to, port, answer.join().unwrap())).collect()
    })
}
