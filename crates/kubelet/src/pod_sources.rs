//! Pod sources: the API server (`api`), and files and URLs with static pods, which run with or without an API server.
//!
//! A source of static pods names all of them: a pod that it no longer names terminates. The API server shows static
//! pods as mirror pods (`mirror_pods`).

pub(crate) mod api;
mod decode;
mod file;
mod http;
pub(crate) mod mirror_pods;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::kubelet::Kubelet;
use crate::pod::Pod;
use crate::pod_workers::PodWorkers;

pub use http::{ManifestUrl, ManifestUrlError};

/// The sources of static pods.
#[derive(Debug, Clone)]
pub struct Manifests {
    /// A directory of manifests, or one manifest (`staticPodPath`).
    pub path: Option<PathBuf>,
    /// The time between checks of the path without a change (`fileCheckFrequency`).
    pub file_check: Duration,
    /// The URL of manifests (`staticPodURL`).
    pub url: Option<ManifestUrl>,
    /// The time between requests to the URL (`httpCheckFrequency`).
    pub http_check: Duration,
}

impl Default for Manifests {
    /// No sources, with upstream's default frequencies.
    fn default() -> Manifests {
        let check = Duration::from_secs(20);
        Manifests { path: None, file_check: check, url: None, http_check: check }
    }
}

/// The running sources of static pods. They stop when this is dropped.
pub(crate) struct PodSources {
    tasks: JoinSet<()>,
    /// For each source, true once it has reported its pods.
    synced: Vec<watch::Receiver<bool>>,
}

impl PodSources {
    pub(crate) fn start(kubelet: &Arc<Kubelet>, manifests: &Manifests) -> PodSources {
        let mut sources = PodSources { tasks: JoinSet::new(), synced: Vec::new() };
        if let Some(path) = manifests.path.clone() {
            let source = sources.add(kubelet);
            sources.tasks.spawn(file::watch(path, manifests.file_check, source));
        }
        if let Some(url) = manifests.url.clone() {
            let source = sources.add(kubelet);
            sources.tasks.spawn(http::poll(url, manifests.http_check, source));
        }
        sources
    }

    fn add(&mut self, kubelet: &Arc<Kubelet>) -> StaticPods {
        let (synced, receiver) = watch::channel(false);
        self.synced.push(receiver);
        StaticPods { kubelet: kubelet.clone(), pods: HashMap::new(), synced }
    }

    /// Waits until every source has reported its pods.
    pub(crate) async fn synced(&self) {
        for source in &self.synced {
            // A source whose task has ended names no pods.
            let _ = source.clone().wait_for(|synced| *synced).await;
        }
    }
}

/// The static pods of one source.
struct StaticPods {
    kubelet: Arc<Kubelet>,
    /// By uid.
    pods: HashMap<String, Pod>,
    synced: watch::Sender<bool>,
}

impl StaticPods {
    fn node_name(&self) -> &str {
        &self.kubelet.api.node_name
    }

    /// Takes over all pods that the source names now. Those it no longer names terminate.
    fn set(&mut self, pods: Vec<Pod>) {
        let now: HashMap<String, Pod> = pods.into_iter().map(|pod| (pod.uid().to_owned(), pod)).collect();
        for (uid, pod) in self.pods.iter().filter(|(uid, _)| !now.contains_key(*uid)) {
            tracing::info!(pod = %pod.key(), uid, source = pod.source().name(), "static pod removed");
            self.kubelet.pod_workers.remove_pod(uid);
        }
        for (uid, pod) in &now {
            if self.pods.get(uid).is_some_and(|known| known.tree() == pod.tree()) {
                continue;
            }
            tracing::info!(pod = %pod.key(), uid, source = pod.source().name(), "static pod added");
            PodWorkers::update_pod(&self.kubelet, pod.clone());
        }
        self.pods = now;
        self.synced.send_replace(true);
    }
}
