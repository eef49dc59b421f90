//! A profile: the plugins that decide for the pods of one scheduler name, and what they have found out about shapes.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;

use super::{Filter, Plugin, PreFilter, Rejection};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::snapshot::NodeIx;

/// For how many shapes judgements of nodes are kept.
const SHAPES: usize = 256;

pub(crate) struct Profile {
    pub(crate) scheduler: Str,
    /// How many of the nodes are looked for, in per cent; as many as upstream would unless it is said.
    pub(crate) percentage: Option<i64>,
    pub(crate) gates: Vec<Arc<dyn Plugin>>,
    pub(crate) filters: Vec<Arc<dyn Plugin>>,
    pub(crate) post_filters: Vec<Arc<dyn Plugin>>,
    pub(crate) reserves: Vec<Arc<dyn Plugin>>,
    pub(crate) scores: Vec<(Arc<dyn Plugin>, i64)>,
    judgements: HashMap<u64, Judgements>,
}

/// The plugins that have a say at each point, in order.
pub(crate) struct Plugins {
    pub(crate) gates: Vec<Arc<dyn Plugin>>,
    pub(crate) filters: Vec<Arc<dyn Plugin>>,
    pub(crate) post_filters: Vec<Arc<dyn Plugin>>,
    pub(crate) reserves: Vec<Arc<dyn Plugin>>,
    pub(crate) scores: Vec<(Arc<dyn Plugin>, i64)>,
}

/// What the plugins say about nodes for one shape, by nothing but what the nodes say of themselves.
#[derive(Default)]
struct Judgements {
    /// By node: at which generation it was judged, and as which of the rejections, from one.
    nodes: Vec<(u32, u32)>,
    rejections: Vec<(usize, Rejection)>,
}

/// What is to be asked about each node for one pod.
pub(crate) struct Filters {
    /// Plugins by their position, with what they want to see.
    dynamic: Vec<(usize, Box<dyn Filter>)>,
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
            judgements: HashMap::new(),
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
    pub(crate) fn pre_filter(
        &self,
        pod: &Pod,
        cluster: &mut Cluster,
    ) -> Result<Filters, (&'static str, Rejection)> {
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
    ) -> Option<(&'static str, Rejection)> {
        let node = cluster.snapshot.node(at);
        let judged = self.filters.iter().find_map(|plugin| Some((plugin.name(), plugin.judge(pod, node)?)));
        judged.or_else(|| self.check_pods(filters, cluster, at))
    }

    /// Whether a node will do, although pods came or went since the filters were made.
    pub(crate) fn check_again(
        &self,
        filters: &Filters,
        pod: &Pod,
        cluster: &mut Cluster,
        at: NodeIx,
    ) -> Option<(&'static str, Rejection)> {
        if filters.dynamic.iter().all(|(_, filter)| filter.outlasts_pods()) {
            return self.check(filters, pod, cluster, at);
        }
        match self.pre_filter(pod, cluster) {
            Ok(filters) => self.check(&filters, pod, cluster, at),
            Err(rejected) => Some(rejected),
        }
    }

    /// The same, with what is already known about nodes for pods of this shape.
    pub(crate) fn check_remembering(
        &mut self,
        filters: &Filters,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<(&'static str, Rejection)> {
        match self.judge(pod, cluster, at) {
            0 => self.check_pods(filters, cluster, at),
            judged => {
                let (plugin, rejection) = &self.judgements[&pod.shape.serial].rejections[judged as usize - 1];
                Some((self.filters[*plugin].name(), rejection.clone()))
            }
        }
    }

    fn check_pods(
        &self,
        filters: &Filters,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<(&'static str, Rejection)> {
        let found =
            filters.dynamic.iter().find_map(|(plugin, filter)| Some((*plugin, filter.check(cluster, at)?)));
        found.map(|(plugin, rejection)| (self.filters[plugin].name(), rejection))
    }

    fn judge(&mut self, pod: &Pod, cluster: &Cluster, at: NodeIx) -> u32 {
        let place = cluster.snapshot.place(at);
        if self.judgements.len() > SHAPES && !self.judgements.contains_key(&pod.shape.serial) {
            self.judgements.clear();
        }
        let known = self.judgements.entry(pod.shape.serial).or_default();
        if known.nodes.len() <= at as usize {
            known.nodes.resize(at as usize + 1, (0, 0));
        }
        let (generation, judged) = known.nodes[at as usize];
        if generation == place.generation {
            return judged;
        }
        let node = cluster.snapshot.node(at);
        let plugins = self.filters.iter().enumerate();
        let rejection = plugins.into_iter().find_map(|(at, plugin)| Some((at, plugin.judge(pod, node)?)));
        let judged = rejection.map_or(0, |rejection| known.remember(rejection));
        known.nodes[at as usize] = (place.generation, judged);
        judged
    }
}

impl Judgements {
    fn remember(&mut self, rejection: (usize, Rejection)) -> u32 {
        let at = self.rejections.iter().position(|known| *known == rejection).unwrap_or_else(|| {
            self.rejections.push(rejection);
            self.rejections.len() - 1
        });
        u32::try_from(at + 1).unwrap_or(u32::MAX)
    }
}
