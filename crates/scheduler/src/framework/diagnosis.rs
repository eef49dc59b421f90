//! Why a pod has no node: told to people in upstream's words, and to preemption by node.

use std::collections::BTreeMap;

use corten_api::Str;

use super::Rejection;
use crate::snapshot::NodeIx;

#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// How many nodes there are.
    nodes: usize,
    /// What was said before any node was looked at.
    up_front: Option<String>,
    reasons: BTreeMap<Str, usize>,
    /// What is said of the nodes that were not looked at.
    unseen: Option<String>,
    /// Nodes that were looked at, and whether taking pods away could help.
    pub(crate) rejected: Vec<(NodeIx, bool)>,
    /// The plugins that rejected something.
    pub(crate) plugins: Vec<&'static str>,
    /// What preemption has to say.
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

    /// Only some nodes come into question, because of these plugins.
    pub(crate) fn narrow(&mut self, plugins: &[&'static str]) {
        let mut names = plugins.to_vec();
        names.sort_unstable();
        self.unseen = Some(format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" ")));
        plugins.iter().for_each(|plugin| self.blame(plugin));
    }

    /// What is to be said of nodes that were not looked at.
    pub(crate) fn say_of_unseen(&mut self, reason: &str) {
        self.unseen = Some(reason.to_owned());
    }

    pub(crate) fn reject(&mut self, at: NodeIx, plugin: &'static str, rejection: &Rejection) {
        for reason in rejection.reasons.iter() {
            match self.reasons.get_mut(reason) {
                Some(count) => *count += 1,
                None => drop(self.reasons.insert(reason.clone(), 1)),
            }
        }
        self.rejected.push((at, !rejection.unresolvable));
        self.blame(plugin);
    }

    fn blame(&mut self, plugin: &'static str) {
        if !self.plugins.contains(&plugin) {
            self.plugins.push(plugin);
        }
    }

    /// Whether taking pods away might make room somewhere.
    pub(crate) fn is_resolvable(&self) -> bool {
        self.up_front.is_none() && self.rejected.iter().any(|(_, resolvable)| *resolvable)
    }

    pub(crate) fn message(&self) -> String {
        let mut message = format!("0/{} nodes are available:", self.nodes);
        if let Some(up_front) = &self.up_front {
            message.push_str(&format!(" {up_front}."));
        } else {
            let mut reasons = self.reasons.clone();
            let unseen = self.nodes.saturating_sub(self.rejected.len());
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
        let full = Rejection::unschedulable("Insufficient cpu");
        diagnosis.reject(0, "NodeResourcesFit", &full);
        diagnosis.reject(1, "NodeResourcesFit", &full);
        diagnosis.reject(2, "TaintToleration", &Rejection::unresolvable("node(s) had untolerated taint(s)"));
        let counts = "1 node(s) had untolerated taint(s), 2 Insufficient cpu.";
        assert_eq!(diagnosis.message(), format!("0/3 nodes are available: {counts}"));
        assert!(diagnosis.is_resolvable());
        diagnosis.afterwards = "preemption: none".to_owned();
        assert_eq!(diagnosis.message(), format!("0/3 nodes are available: {counts} preemption: none"));
    }

    #[test]
    fn nodes_that_were_not_looked_at_are_counted_too() {
        let mut diagnosis = Diagnosis::of(5);
        diagnosis.narrow(&["NodeAffinity"]);
        diagnosis.reject(0, "NodeResourcesFit", &Rejection::unschedulable("Too many pods"));
        let message =
            "0/5 nodes are available: 1 Too many pods, 4 node(s) didn't satisfy plugin(s) [NodeAffinity].";
        assert_eq!(diagnosis.message(), message);
    }
}
