//! An independent checker for tests: whether a pod may run on a node, computed slowly and plainly from the objects
//! themselves. Shares no code with the scheduler.

use corten_api::{Map, Value, meta, quantity::Quantity};

/// Every node, and every bound pod.
pub(super) struct World<'a> {
    pub(super) nodes: &'a [Value],
    pub(super) placed: &'a [(Value, String)],
}

impl World<'_> {
    pub(super) fn allows(&self, pod: &Value, node: &Value) -> bool {
        is_open(pod, node)
            && selects(pod, node)
            && self.has_room(pod, node)
            && self.has_ports(pod, node)
            && self.keeps_affinity(pod, node)
            && self.keeps_anti_affinity(pod, node)
            && self.keeps_spread(pod, node)
    }

    fn node(&self, name: &str) -> Option<&Value> {
        self.nodes.iter().find(|node| meta::name(node) == name)
    }

    fn on<'w>(&'w self, node: &'w Value) -> impl Iterator<Item = &'w Value> {
        self.placed.iter().filter(|(_, on)| on == meta::name(node)).map(|(pod, _)| pod)
    }

    /// Pods on nodes with the same value of a label.
    fn near<'w>(&'w self, node: &'w Value, key: &'w str) -> impl Iterator<Item = &'w Value> {
        let here = label(node, key);
        let near = move |(_, on): &&(Value, String)| {
            here.is_some() && self.node(on).is_some_and(|other| label(other, key) == here)
        };
        self.placed.iter().filter(near).map(|(pod, _)| pod)
    }

    fn has_room(&self, pod: &Value, node: &Value) -> bool {
        let all = |name: &str| number(node.at(&["status", "allocatable", name]));
        let used = |name: &str| self.on(node).map(|pod| asks(pod, name)).sum::<i64>();
        let fits = |name: &str| asks(pod, name) == 0 || used(name) + asks(pod, name) <= all(name);
        fits("cpu") && fits("memory") && (self.on(node).count() as i64 + 1) * 1000 <= all("pods")
    }

    fn has_ports(&self, pod: &Value, node: &Value) -> bool {
        let wanted = ports(pod);
        self.on(node).all(|other| ports(other).iter().all(|port| !wanted.contains(port)))
    }

    fn keeps_affinity(&self, pod: &Value, node: &Value) -> bool {
        let terms = terms(pod, "podAffinity");
        let all = |other: &Value| terms.iter().all(|term| matches(term, pod, other));
        let labelled = terms.iter().all(|term| label(node, topology(term)).is_some());
        let near = terms.iter().all(|term| self.near(node, topology(term)).any(all));
        let counted = |term: &Value| {
            let key = topology(term);
            self.placed
                .iter()
                .any(|(other, on)| all(other) && self.node(on).is_some_and(|node| label(node, key).is_some()))
        };
        let first = !terms.iter().any(counted) && all(pod);
        terms.is_empty() || (labelled && (near || first))
    }

    fn keeps_anti_affinity(&self, pod: &Value, node: &Value) -> bool {
        let own = terms(pod, "podAntiAffinity");
        let ours =
            own.iter().all(|term| !self.near(node, topology(term)).any(|other| matches(term, pod, other)));
        let theirs = self.placed.iter().all(|(other, on)| {
            terms(other, "podAntiAffinity").iter().all(|term| {
                let there = self.node(on).and_then(|node| label(node, topology(term)));
                let shared = there.is_some() && there == label(node, topology(term));
                !shared || !matches(term, other, pod)
            })
        });
        ours && theirs
    }

    fn keeps_spread(&self, pod: &Value, node: &Value) -> bool {
        let all = pod.items_at(&["spec", "topologySpreadConstraints"]);
        let hard: Vec<&Value> =
            all.iter().filter(|c| c.str_at(&["whenUnsatisfiable"]) == Some("DoNotSchedule")).collect();
        let counts =
            |node: &Value| hard.iter().all(|c| label(node, topology(c)).is_some()) && selects(pod, node);
        hard.iter().all(|constraint| {
            let key = topology(constraint);
            let Some(here) = label(node, key) else { return false };
            let selected = |other: &Value| {
                !meta::is_deleting(other)
                    && meta::namespace(other) == meta::namespace(pod)
                    && has_labels(other, constraint.at(&["labelSelector", "matchLabels"]))
            };
            let count = |value: &str| {
                let in_domain = self.nodes.iter().filter(|n| counts(n) && label(n, key) == Some(value));
                in_domain.map(|node| self.on(node).filter(|pod| selected(pod)).count()).sum::<usize>()
            };
            let domains = self.nodes.iter().filter(|node| counts(node)).filter_map(|node| label(node, key));
            let least = domains.map(count).min().unwrap_or(0);
            let skew = constraint.int_at(&["maxSkew"]).unwrap_or(1) as usize;
            count(here) + usize::from(selected(pod)) <= skew + least
        })
    }
}

fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    meta::labels(object)?.get(key)?.as_str()
}

fn topology(term: &Value) -> &str {
    term.str_at(&["topologyKey"]).unwrap_or_default()
}

fn terms<'p>(pod: &'p Value, kind: &str) -> &'p [Value] {
    pod.items_at(&["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"])
}

fn has_labels(object: &Value, wanted: Option<&Value>) -> bool {
    let wanted = wanted.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    wanted.into_iter().all(|(key, value)| label(object, key) == value.as_str())
}

fn matches(term: &Value, of: &Value, other: &Value) -> bool {
    meta::namespace(of) == meta::namespace(other)
        && has_labels(other, term.at(&["labelSelector", "matchLabels"]))
}

/// In thousandths.
fn number(quantity: Option<&Value>) -> i64 {
    quantity
        .and_then(Value::as_str)
        .and_then(|text| Quantity::parse(text).ok())
        .map_or(0, |q| q.milli_value())
}

fn asks(pod: &Value, name: &str) -> i64 {
    let containers = pod.items_at(&["spec", "containers"]).iter();
    containers.map(|container| number(container.at(&["resources", "requests", name]))).sum()
}

fn ports(pod: &Value) -> Vec<i64> {
    let containers = pod.items_at(&["spec", "containers"]).iter();
    containers.flat_map(|c| c.items_at(&["ports"])).filter_map(|port| port.int_at(&["hostPort"])).collect()
}

fn is_open(pod: &Value, node: &Value) -> bool {
    let tolerates = |key: &str| {
        pod.items_at(&["spec", "tolerations"])
            .iter()
            .any(|toleration| toleration.str_at(&["key"]) == Some(key))
    };
    let taints = node.items_at(&["spec", "taints"]).iter();
    let open = node.bool_at(&["spec", "unschedulable"]) != Some(true);
    open && taints.filter_map(|taint| taint.str_at(&["key"])).all(tolerates)
}

fn selects(pod: &Value, node: &Value) -> bool {
    has_labels(node, pod.at(&["spec", "nodeSelector"]))
}
