//! The order in which nodes are looked at: one of every zone in turn, as they came.

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

    /// Thousands of nodes come one by one at the start: each is put where it belongs.
    pub(crate) fn add(&mut self, at: NodeIx, zone: String) {
        let known = self.zones.iter().position(|(known, _)| *known == zone);
        let number = known.unwrap_or_else(|| {
            self.zones.push((zone, Vec::new()));
            self.zones.len() - 1
        });
        let round = self.zones[number].1.len();
        self.zones[number].1.push(at);
        // Those of earlier rounds come first, and of this one those of the zones before.
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
    fn zones_take_turns() {
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
