//! Static pods: those that this node runs because a file or a URL says so, whether there is an API server or not.
//!
//! What a source says is everything it wants: a pod that it no longer names is ended. The API server is shown them by
//! their mirrors; see `mirrors`.

mod decode;
mod directory;
mod references;
mod url;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::machine::Machine;
use crate::pod::Pod;
use crate::pods::Pods;

pub use url::ManifestUrl;

/// Where static pods come from.
#[derive(Debug, Clone)]
pub struct Manifests {
    /// A directory of manifests, or one of them.
    pub path: Option<PathBuf>,
    /// How often it is looked at although nothing was heard of it.
    pub file_check: Duration,
    pub url: Option<ManifestUrl>,
    /// How often the URL is asked.
    pub http_check: Duration,
}

impl Default for Manifests {
    /// None, looked for as often as upstream does.
    fn default() -> Manifests {
        let check = Duration::from_secs(20);
        Manifests { path: None, file_check: check, url: None, http_check: check }
    }
}

/// The sources at work; they end with this.
pub(crate) struct Following {
    _tasks: JoinSet<()>,
    heard: Vec<watch::Receiver<bool>>,
}

impl Following {
    pub(crate) fn start(machine: &Arc<Machine>, manifests: &Manifests) -> Following {
        let mut following = Following { _tasks: JoinSet::new(), heard: Vec::new() };
        if let Some(path) = manifests.path.clone() {
            let source = following.source(machine);
            following._tasks.spawn(directory::follow(path, manifests.file_check, source));
        }
        if let Some(url) = manifests.url.clone() {
            let source = following.source(machine);
            following._tasks.spawn(url::follow(url, manifests.http_check, source));
        }
        following
    }

    fn source(&mut self, machine: &Arc<Machine>) -> Wanted {
        let (heard, receiver) = watch::channel(false);
        self.heard.push(receiver);
        Wanted { machine: machine.clone(), pods: HashMap::new(), heard }
    }

    /// Waits until every source has said what it wants.
    pub(crate) async fn heard(&self) {
        for source in &self.heard {
            // A source that has ended wants nothing any more.
            let _ = source.clone().wait_for(|heard| *heard).await;
        }
    }
}

/// What one source wants.
struct Wanted {
    machine: Arc<Machine>,
    /// By uid.
    pods: HashMap<String, Pod>,
    heard: watch::Sender<bool>,
}

impl Wanted {
    fn node(&self) -> &str {
        &self.machine.config.node_name
    }

    /// Takes in all that the source wants now.
    fn take(&mut self, pods: Vec<Pod>) {
        let now: HashMap<String, Pod> = pods.into_iter().map(|pod| (pod.uid().to_owned(), pod)).collect();
        for (uid, pod) in self.pods.iter().filter(|(uid, _)| !now.contains_key(*uid)) {
            tracing::info!(pod = %pod.key(), uid, source = pod.source().name(), "a static pod is to end");
            self.machine.pods.drop_wish(uid);
        }
        for (uid, pod) in &now {
            if self.pods.get(uid).is_some_and(|known| known.tree() == pod.tree()) {
                continue;
            }
            tracing::info!(pod = %pod.key(), uid, source = pod.source().name(), "a static pod is to run");
            Pods::want(&self.machine, pod.clone());
        }
        self.pods = now;
        self.heard.send_replace(true);
    }
}
