//! A profile: the plugins that decide for the pods of one scheduler name, and what they have found out about shapes.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;

use super::diagnosis::Diagnosis;
use super::opinions::Opinions;
use super::verdicts::Rejected;
use super::{Filter, Nomination, Plugin, PostFilter, PreFilter, Rejection};
use crate::cluster::Cluster;
use crate::node::Node;
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;

/// How much is remembered of nodes for shapes at most.
const REMEMBERED: usize = 4 << 20;

pub(crate) struct Profile {
    pub(crate) scheduler: Str,
    /// How many of the nodes are looked for, in per cent; as many as upstream would unless it is said.
    pub(crate) percentage: Option<i64>,
    pub(crate) gates: Vec<Arc<dyn Plugin>>,
    pub(crate) filters: Vec<Arc<dyn Plugin>>,
    pub(crate) post_filters: Vec<Arc<dyn Plugin>>,
    pub(crate) reserves: Vec<Arc<dyn Plugin>>,
    pub(crate) scores: Vec<(Arc<dyn Plugin>, i64)>,
    opinions: HashMap<(u64, u64), Opinions>,
    /// How much is remembered in all.
    remembered: usize,
}

/// The plugins that have a say at each point, in order.
pub(crate) struct Plugins {
    pub(crate) gates: Vec<Arc<dyn Plugin>>,
    pub(crate) filters: Vec<Arc<dyn Plugin>>,
    pub(crate) post_filters: Vec<Arc<dyn Plugin>>,
    pub(crate) reserves: Vec<Arc<dyn Plugin>>,
    pub(crate) scores: Vec<(Arc<dyn Plugin>, i64)>,
}

/// What is to be asked about each node for one pod.
pub(crate) struct Filters {
    /// Plugins by their position, with what they want to see.
    dynamic: Vec<(usize, Box<dyn Filter>)>,
}

impl Filters {
    /// Whether nothing counts but a node and the pods on it.
    pub(crate) fn are_local(&self) -> bool {
        self.dynamic.iter().all(|(_, filter)| filter.is_local())
    }
}

impl Profile {
    pub(crate) fn new(scheduler: Str, percentage: Option<i64>, plugins: Plugins) -> Profile {
        let Plugins { gates, filters, post_filters, reserves, scores } = plugins;
        Profile {
            scheduler,
            percentage,
            gates,
            filters,
            post_filters,
            reserves,
            scores,
            opinions: HashMap::new(),
            remembered: 0,
        }
    }

    /// Why a pod must not be tried, and who says so.
    pub(crate) fn holds_back(&self, pod: &Pod) -> Option<(&'static str, String)> {
        self.gates.iter().find_map(|plugin| Some((plugin.name(), plugin.holds_back(pod)?)))
    }

    /// The names of the only nodes that come into question, if that is so, and who says it.
    pub(crate) fn narrow(&self, pod: &Pod) -> Option<(Vec<Str>, Vec<&'static str>)> {
        let mut narrowed: Option<(Vec<Str>, Vec<&'static str>)> = None;
        for plugin in &self.filters {
            let Some(names) = plugin.narrow(pod) else { continue };
            let (known, plugins) = narrowed.get_or_insert_with(|| (names.clone(), Vec::new()));
            known.retain(|name| names.contains(name));
            plugins.push(plugin.name());
        }
        narrowed
    }

    /// Prepares for looking at nodes.
    pub(crate) fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> Result<Filters, Rejected> {
        let mut dynamic = Vec::new();
        for (at, plugin) in self.filters.iter().enumerate() {
            match plugin.pre_filter(pod, cluster) {
                PreFilter::Skip => {}
                PreFilter::Filter(filter) => dynamic.push((at, filter)),
                PreFilter::Reject(rejection) => return Err((plugin.name(), rejection)),
            }
        }
        Ok(Filters { dynamic })
    }

    /// Why a pod cannot have a node, and who says so.
    pub(crate) fn check(
        &self,
        filters: &Filters,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<Rejected> {
        match self.judge(pod, cluster.snapshot.node(at)) {
            None => self.check_pods(filters, cluster, at),
            Some((plugin, rejection)) => Some((self.filters[plugin].name(), rejection)),
        }
    }

    /// Whether a node will do, although pods came or went since the filters were made.
    pub(crate) fn check_again(
        &self,
        filters: &Filters,
        pod: &Pod,
        cluster: &mut Cluster,
        at: NodeIx,
    ) -> Option<Rejected> {
        if filters.dynamic.iter().all(|(_, filter)| filter.outlasts_pods()) {
            return self.check(filters, pod, cluster, at);
        }
        match self.pre_filter(pod, cluster) {
            Ok(filters) => self.check(&filters, pod, cluster, at),
            Err(rejected) => Some(rejected),
        }
    }

    /// The same, with what is already known about nodes for pods of this shape.
    pub(crate) fn check_knowing(
        &self,
        opinions: &mut Opinions,
        filters: &Filters,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<Rejected> {
        match opinions.judgement(self, pod, cluster, at) {
            None => self.check_pods(filters, cluster, at),
            Some((plugin, rejection)) => Some((self.filters[*plugin].name(), rejection.clone())),
        }
    }

    fn check_pods(&self, filters: &Filters, cluster: &Cluster, at: NodeIx) -> Option<Rejected> {
        let found =
            filters.dynamic.iter().find_map(|(plugin, filter)| Some((*plugin, filter.check(cluster, at)?)));
        found.map(|(plugin, rejection)| (self.filters[plugin].name(), rejection))
    }

    /// What can be done for a pod that fits nowhere: what the first plugin does that can do something, else what all of
    /// them say.
    pub(crate) fn post_filter(
        &self,
        pod: &Pod,
        cluster: &mut Cluster,
        diagnosis: &Diagnosis,
        opinions: &mut Opinions,
        random: &mut Random,
    ) -> Option<PostFilter> {
        let mut all: Option<PostFilter> = None;
        for plugin in &self.post_filters {
            let Some(said) = plugin.post_filter(pod, cluster, self, diagnosis, opinions, random) else {
                continue;
            };
            if matches!(said.nomination, Nomination::Node(_)) {
                return Some(said);
            }
            match &mut all {
                None => all = Some(said),
                Some(all) => {
                    all.message = format!("{}, {}", all.message, said.message);
                    if said.nomination != Nomination::Keep {
                        all.nomination = said.nomination;
                    }
                }
            }
        }
        all
    }

    /// Which plugin does not let a pod have a node for what it is, and why.
    pub(super) fn judge(&self, pod: &Pod, node: &Node) -> Option<(usize, Rejection)> {
        let mut plugins = self.filters.iter().enumerate();
        plugins.find_map(|(at, plugin)| Some((at, plugin.judge(pod, node)?)))
    }

    /// How good a node is for a pod, by nothing but the node and what is taken of it.
    pub(super) fn rate(&self, pod: &Pod, cluster: &Cluster, at: NodeIx) -> i64 {
        let plugins = self.scores.iter();
        plugins.map(|(plugin, weight)| weight * plugin.rate(pod, cluster, at).unwrap_or(0)).sum()
    }

    /// Adds how good nodes are for a pod to what they have already.
    pub(crate) fn rate_all(
        &self,
        opinions: &mut Opinions,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &[NodeIx],
        totals: &mut [i64],
    ) {
        for (at, total) in nodes.iter().zip(totals) {
            *total += opinions.rating(self, pod, cluster, *at);
        }
    }

    /// What is known about nodes for pods of a shape, to be given back.
    pub(crate) fn recall(&mut self, pod: &Pod) -> Opinions {
        let opinions = self.opinions.remove(&pod.shape.outline).unwrap_or_default();
        self.remembered -= opinions.len();
        opinions
    }

    pub(crate) fn remember(&mut self, pod: &Pod, opinions: Opinions) {
        if self.remembered > REMEMBERED {
            self.opinions.clear();
            self.remembered = 0;
        }
        self.remembered += opinions.len();
        self.opinions.insert(pod.shape.outline, opinions);
    }
}
