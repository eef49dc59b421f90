//! A profile: the plugins of one scheduler name, and their cached results for shapes.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;

use super::diagnosis::Diagnosis;
use super::node_rejections::Rejected;
use super::shape_cache::ShapeCache;
use super::{Filter, Nomination, Plugin, PostFilter, PreFilter, Rejection};
use crate::cluster::Cluster;
use crate::node::Node;
use crate::pod::Pod;
use crate::random::Random;
use crate::snapshot::NodeIx;

/// The largest size of the caches.
const REMEMBERED: usize = 4 << 20;

pub(crate) struct Profile {
    pub(crate) scheduler: Str,
    /// The percentage of nodes to find; the configuration's default if `None`.
    pub(crate) percentage: Option<i64>,
    pub(crate) gates: Vec<Arc<dyn Plugin>>,
    pub(crate) filters: Vec<Arc<dyn Plugin>>,
    pub(crate) post_filters: Vec<Arc<dyn Plugin>>,
    pub(crate) reserves: Vec<Arc<dyn Plugin>>,
    pub(crate) scores: Vec<(Arc<dyn Plugin>, i64)>,
    shape_cache: HashMap<(u64, u64), ShapeCache>,
    /// The size of all caches.
    remembered: usize,
}

/// The plugins at each extension point, in order.
pub(crate) struct Plugins {
    pub(crate) gates: Vec<Arc<dyn Plugin>>,
    pub(crate) filters: Vec<Arc<dyn Plugin>>,
    pub(crate) post_filters: Vec<Arc<dyn Plugin>>,
    pub(crate) reserves: Vec<Arc<dyn Plugin>>,
    pub(crate) scores: Vec<(Arc<dyn Plugin>, i64)>,
}

/// The filters of one pod.
pub(crate) struct Filters {
    /// The positions of plugins, with their filters.
    dynamic: Vec<(usize, Box<dyn Filter>)>,
}

impl Filters {
    /// True if all filters depend only on a node and its pods.
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
            shape_cache: HashMap::new(),
            remembered: 0,
        }
    }

    /// The plugin that keeps a pod out of the active queue, and its reason.
    pub(crate) fn pre_enqueue(&self, pod: &Pod) -> Option<(&'static str, String)> {
        self.gates.iter().find_map(|plugin| Some((plugin.name(), plugin.pre_enqueue(pod)?)))
    }

    /// The names of the only nodes that may be feasible, if plugins restrict them, and those plugins.
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

    /// Calls PreFilter of all plugins.
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

    /// The rejection of a node for a pod.
    pub(crate) fn check(
        &self,
        filters: &Filters,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<Rejected> {
        match self.filter_node(pod, cluster.snapshot.node(at)) {
            None => self.check_pods(filters, cluster, at),
            Some((plugin, rejection)) => Some((self.filters[plugin].name(), rejection)),
        }
    }

    /// The same, although pods were added or removed since PreFilter.
    pub(crate) fn recheck(
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

    /// The same, with the cached results for this shape.
    pub(crate) fn check_cached(
        &self,
        shape_cache: &mut ShapeCache,
        filters: &Filters,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<Rejected> {
        match shape_cache.node_rejection(self, pod, cluster, at) {
            None => self.check_pods(filters, cluster, at),
            Some((plugin, rejection)) => Some((self.filters[*plugin].name(), rejection.clone())),
        }
    }

    fn check_pods(&self, filters: &Filters, cluster: &Cluster, at: NodeIx) -> Option<Rejected> {
        let found =
            filters.dynamic.iter().find_map(|(plugin, filter)| Some((*plugin, filter.check(cluster, at)?)));
        found.map(|(plugin, rejection)| (self.filters[plugin].name(), rejection))
    }

    /// Calls PostFilter: the result of the first plugin that nominates a node, or the joined messages of all.
    pub(crate) fn post_filter(
        &self,
        pod: &Pod,
        cluster: &mut Cluster,
        diagnosis: &Diagnosis,
        shape_cache: &mut ShapeCache,
        random: &mut Random,
    ) -> Option<PostFilter> {
        let mut all: Option<PostFilter> = None;
        for plugin in &self.post_filters {
            let Some(said) = plugin.post_filter(pod, cluster, self, diagnosis, shape_cache, random) else {
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

    /// The first plugin that rejects a node by the node object alone, and its rejection.
    pub(super) fn filter_node(&self, pod: &Pod, node: &Node) -> Option<(usize, Rejection)> {
        let mut plugins = self.filters.iter().enumerate();
        plugins.find_map(|(at, plugin)| Some((at, plugin.filter_node(pod, node)?)))
    }

    /// The score of a node by the node and its requested resources alone.
    pub(super) fn score_node(&self, pod: &Pod, cluster: &Cluster, at: NodeIx) -> i64 {
        let plugins = self.scores.iter();
        plugins.map(|(plugin, weight)| weight * plugin.score_node(pod, cluster, at).unwrap_or(0)).sum()
    }

    /// Adds the cached scores of nodes to their totals.
    pub(crate) fn add_node_scores(
        &self,
        shape_cache: &mut ShapeCache,
        pod: &Pod,
        cluster: &Cluster,
        nodes: &[NodeIx],
        totals: &mut [i64],
    ) {
        for (at, total) in nodes.iter().zip(totals) {
            *total += shape_cache.node_score(self, pod, cluster, *at);
        }
    }

    /// Takes the cached results for pods of a shape; `remember` gives them back.
    pub(crate) fn take_shape_cache(&mut self, pod: &Pod) -> ShapeCache {
        let shape_cache = self.shape_cache.remove(&pod.shape.outline).unwrap_or_default();
        self.remembered -= shape_cache.len();
        shape_cache
    }

    pub(crate) fn put_shape_cache(&mut self, pod: &Pod, shape_cache: ShapeCache) {
        if self.remembered > REMEMBERED {
            self.shape_cache.clear();
            self.remembered = 0;
        }
        self.remembered += shape_cache.len();
        self.shape_cache.insert(pod.shape.outline, shape_cache);
    }
}
