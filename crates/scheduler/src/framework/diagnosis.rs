//! The reasons why a pod is unschedulable, in upstream's words.

use std::collections::BTreeMap;

use corten_api::Str;

use super::Rejection;
use super::node_rejections::Rejected;

#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// The number of nodes.
    nodes: usize,
    /// The message of PreFilter.
    up_front: Option<String>,
    reasons: BTreeMap<Str, usize>,
    /// The message for nodes that were not filtered.
    unseen: Option<String>,
    /// The number of filtered nodes, and of those on which preemption could help.
    seen: usize,
    resolvable: usize,
    /// The plugins that rejected a node.
    pub(crate) plugins: Vec<&'static str>,
    /// The message of PostFilter.
    pub(crate) afterwards: String,
}

impl Diagnosis {
    pub(crate) fn of(nodes: usize) -> Diagnosis {
        Diagnosis { nodes, ..Diagnosis::default() }
    }

    pub(crate) fn reject_all(&mut self, plugin: &'static str, rejection: &Rejection) {
        self.up_front = Some(rejection.message());
        self.blame(plugin);
    }

    /// PreFilter plugins have excluded all but some nodes.
    pub(crate) fn narrow(&mut self, plugins: &[&'static str]) {
        let mut names = plugins.to_vec();
        names.sort_unstable();
        self.unseen = Some(format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" ")));
        plugins.iter().for_each(|plugin| self.blame(plugin));
    }

    /// Sets the message for nodes that were not filtered.
    pub(crate) fn say_of_unseen(&mut self, reason: &str) {
        self.unseen = Some(reason.to_owned());
    }

    /// Adds nodes that were rejected for the same reasons.
    pub(crate) fn reject(&mut self, (plugin, rejection): &Rejected, nodes: usize) {
        if nodes == 0 {
            return;
        }
        for reason in rejection.reasons.iter() {
            *self.reasons.entry(reason.clone()).or_default() += nodes;
        }
        self.seen += nodes;
        self.resolvable += if rejection.unresolvable { 0 } else { nodes };
        self.blame(plugin);
    }

    fn blame(&mut self, plugin: &'static str) {
        if !self.plugins.contains(&plugin) {
            self.plugins.push(plugin);
        }
    }

    /// True if nodes were filtered one by one.
    pub(crate) fn is_by_node(&self) -> bool {
        self.up_front.is_none()
    }

    /// The number of nodes on which preemption could help.
    pub(crate) fn resolvable(&self) -> usize {
        self.resolvable
    }

    pub(crate) fn message(&self) -> String {
        let mut message = format!("0/{} nodes are available:", self.nodes);
        if let Some(up_front) = &self.up_front {
            message.push_str(&format!(" {up_front}."));
        } else {
            let mut reasons = self.reasons.clone();
            let unseen = self.nodes.saturating_sub(self.seen);
            if let Some(reason) = self.unseen.as_ref().filter(|_| unseen > 0) {
                *reasons.entry(reason.into()).or_default() += unseen;
            }
            let mut counted: Vec<String> =
                reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            counted.sort_unstable();
            if !counted.is_empty() {
                message.push_str(&format!(" {}.", counted.join(", ")));
            }
        }
        if !self.afterwards.is_empty() {
            message.push_str(&format!(" {}", self.afterwards));
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted() {
        let mut diagnosis = Diagnosis::of(3);
        let tainted = Rejection::unresolvable("node(s) had untolerated taint(s)");
        diagnosis.reject(&("NodeResourcesFit", Rejection::unschedulable("Insufficient cpu")), 2);
        diagnosis.reject(&("NodeResourcesFit", Rejection::unschedulable("Too many pods")), 0);
        diagnosis.reject(&("TaintToleration", tainted), 1);
        let counts = "1 node(s) had untolerated taint(s), 2 Insufficient cpu.";
        assert_eq!(diagnosis.message(), format!("0/3 nodes are available: {counts}"));
        assert_eq!(diagnosis.resolvable(), 2);
        diagnosis.afterwards = "preemption: none".to_owned();
        assert_eq!(diagnosis.message(), format!("0/3 nodes are available: {counts} preemption: none"));
    }

    #[test]
    fn nodes_that_were_not_filtered_are_counted_too() {
        let mut diagnosis = Diagnosis::of(5);
        diagnosis.narrow(&["NodeAffinity"]);
        diagnosis.reject(&("NodeResourcesFit", Rejection::unschedulable("Too many pods")), 1);
        let message =
            "0/5 nodes are available: 1 Too many pods, 4 node(s) didn't satisfy plugin(s) [NodeAffinity].";
        assert_eq!(diagnosis.message(), message);
    }
}
