//! The order of nodes: round-robin by zone, in order of arrival.

use super::NodeIx;

#[derive(Default)]
pub(crate) struct Order {
    zones: Vec<(String, Vec<NodeIx>)>,
    list: Vec<NodeIx>,
}

impl Order {
    pub(crate) fn list(&self) -> &[NodeIx] {
        &self.list
    }

    /// Inserts a node at its place, because thousands are added one by one at the start.
    pub(crate) fn add(&mut self, at: NodeIx, zone: String) {
        let known = self.zones.iter().position(|(known, _)| *known == zone);
        let number = known.unwrap_or_else(|| {
            self.zones.push((zone, Vec::new()));
            self.zones.len() - 1
        });
        let round = self.zones[number].1.len();
        self.zones[number].1.push(at);
        // Nodes of earlier rounds come first, and in this round those of the zones before.
        let before = self.zones.iter().enumerate().map(|(other, (_, nodes))| {
            let rounds = if other < number { round + 1 } else { round };
            nodes.len().min(rounds)
        });
        self.list.insert(before.sum(), at);
    }

    pub(crate) fn remove(&mut self, at: NodeIx, zone: &str) {
        if let Some((_, nodes)) = self.zones.iter_mut().find(|(known, _)| known == zone) {
            nodes.retain(|node| *node != at);
        }
        self.zones.retain(|(_, nodes)| !nodes.is_empty());
        self.arrange();
    }

    fn arrange(&mut self) {
        self.list.clear();
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        for index in 0..longest {
            self.list.extend(self.zones.iter().filter_map(|(_, nodes)| nodes.get(index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_ordered_round_robin_by_zone() {
        let mut order = Order::default();
        for (at, zone) in [(0, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "c")] {
            order.add(at, zone.to_owned());
        }
        assert_eq!(order.list(), [0, 2, 4, 1, 3]);
        let mut arranged = Order { zones: order.zones.clone(), list: Vec::new() };
        arranged.arrange();
        assert_eq!(arranged.list(), order.list());
        order.remove(2, "b");
        assert_eq!(order.list(), [0, 4, 1, 3]);
    }
}
