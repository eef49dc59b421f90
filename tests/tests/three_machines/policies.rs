//! Every pair of pods, within and across nodes, under generated policies: exactly the allowed connections succeed.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;

use corten_e2e::{PORT, eventually};
use serde_json::{Value, json};

use crate::cluster::{COUNT, Cluster, GROUPS};

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
/// The number of different sets of policies.
const ROUNDS: usize = 3;

/// The ingress and egress peers of a group; `None` leaves that direction unrestricted.
struct Policy {
    group: usize,
    from: Option<BTreeSet<usize>>,
    to: Option<BTreeSet<usize>>,
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    /// `None`, or some of the groups.
    fn groups(&mut self) -> Option<BTreeSet<usize>> {
        let some = (0..GROUPS).filter(|_| self.roll(2) == 0).collect();
        (self.roll(3) > 0).then_some(some)
    }

    fn policy(&mut self) -> Policy {
        Policy { group: self.roll(GROUPS), from: self.groups(), to: self.groups() }
    }
}

impl Policy {
    fn manifest(&self, name: &str) -> Value {
        let of = |group: usize| json!({"matchLabels": {"group": format!("g{group}")}});
        let peers = |groups: &BTreeSet<usize>| -> Vec<Value> {
            groups.iter().map(|group| json!({"podSelector": of(*group)})).collect()
        };
        let mut spec = json!({"podSelector": of(self.group), "policyTypes": []});
        let mut say = |kind: &str, field: &str, whom: &str, groups: &Option<BTreeSet<usize>>| {
            let Some(groups) = groups else { return };
            if let Some(kinds) = spec["policyTypes"].as_array_mut() {
                kinds.push(kind.into());
            }
            // A rule without peers would allow all.
            let rules = if groups.is_empty() { json!([]) } else { json!([{whom: peers(groups)}]) };
            spec[field] = rules;
        };
        say("Ingress", "ingress", "from", &self.from);
        say("Egress", "egress", "to", &self.to);
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec,
        })
    }
}

/// Returns true if a connection is allowed: a direction is free unless a policy restricts it, and then if one allows
/// it.
fn allowed(policies: &[Policy], from: usize, to: usize) -> bool {
    let (from, to) = (from % GROUPS, to % GROUPS);
    let free = |of: usize, other: usize, way: fn(&Policy) -> &Option<BTreeSet<usize>>| {
        let speaking: Vec<_> =
            policies.iter().filter(|p| p.group == of).filter_map(|p| way(p).as_ref()).collect();
        speaking.is_empty() || speaking.iter().any(|groups| groups.contains(&other))
    };
    free(to, from, |policy| &policy.from) && free(from, to, |policy| &policy.to)
}

pub(crate) fn matrix(cluster: &Cluster<'_>) {
    let pairs: Vec<(usize, usize)> = (0..COUNT)
        .flat_map(|from| (0..COUNT).map(move |to| (from, to)))
        .filter(|(from, to)| from != to)
        .collect();
    assert!(pairs.len() >= 100);
    let mut dice = Dice(7);
    for round in 0..ROUNDS {
        let policies: Vec<Policy> = (0..4).map(|_| dice.policy()).collect();
        for (n, policy) in policies.iter().enumerate() {
            cluster.client().post(POLICIES, &policy.manifest(&format!("policy-{n}"))).expect_status(201);
        }
        let denied = pairs.iter().filter(|(from, to)| !allowed(&policies, *from, *to)).count();
        assert!(denied > 0 && denied < pairs.len(), "round {round} says something of some");
        let mut wrong = Vec::new();
        eventually(&format!("policies of round {round} hold"), || {
            let next = reached(cluster, &pairs);
            let expected = |pair: &(usize, usize)| allowed(&policies, pair.0, pair.1);
            wrong = pairs
                .iter()
                .zip(next)
                .filter(|(pair, got)| expected(pair) != *got)
                .map(|(pair, _)| *pair)
                .collect();
            wrong.is_empty()
        });
        for n in 0..policies.len() {
            cluster.client().delete(format!("{POLICIES}/policy-{n}")).expect_status(200);
        }
    }
    eventually("without policies all reach all", || reached(cluster, &pairs).iter().all(|got| *got));
}

/// Tries all pairs at once; true for those that connect.
fn reached(cluster: &Cluster<'_>, pairs: &[(usize, usize)]) -> Vec<bool> {
    thread::scope(|scope| {
        let tries: Vec<_> = pairs
            .iter()
            .map(|(from, to)| {
                let (from, to) = (&cluster.pods[*from].inside, &cluster.pods[*to].inside);
                scope.spawn(move || !from.is_blocked_from(SocketAddr::new(to.address, PORT)))
            })
            .collect();
        tries.into_iter().map(|tried| tried.join().expect("no thread panics")).collect()
    })
}
