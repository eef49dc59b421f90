//! The kubelet: its parts, how they are put together, and its main loop.
//!
//! A function takes the parts it needs. The whole is for those that bring parts together: the pod workers and the
//! kubelet's server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_base::Clock;
use corten_client::{Caches, kinds};
use corten_container::{Runtime, Version};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;

use crate::admission::AdmissionHandler;
use crate::api_server::ApiServer;
use crate::containers::images::ImageManager;
use crate::containers::pulled_images::PulledImages;
use crate::containers::runtime_config::{NodeConfig, Resolver};
use crate::containers::{Containers, pleg};
use crate::eviction::EvictionManager;
use crate::garbage_collection::GarbageCollector;
use crate::housekeeping::{self, Housekeeping, go_duration};
use crate::node::{self, Node, Reserved, kernel, oom_watcher};
use crate::objects::PodObjects;
use crate::objects::named_objects::ObjectKind;
use crate::pod::Pod;
use crate::pod_sources::{self, PodSources};
use crate::pod_workers::{PodWorkers, cleanup};
use crate::probes::ProbeManager;
use crate::resources::Resources;
use crate::resources::allocation::AllocationManager;
use crate::resources::cgroups::PodCgroups;
use crate::server;
use crate::stats::Stats;
use crate::status::manager::StatusManager;
use crate::volumes::Volumes;
use crate::{Options, Parts};

/// The time between attempts to reach a runtime that does not respond.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// The parts of a kubelet.
pub(crate) struct Kubelet {
    pub(crate) clock: Clock,
    pub(crate) api: ApiServer,
    pub(crate) containers: Containers,
    pub(crate) pod_workers: PodWorkers,
    pub(crate) objects: PodObjects,
    pub(crate) volumes: Volumes,
    pub(crate) status: StatusManager,
    pub(crate) probes: ProbeManager,
    pub(crate) node: Node,
    pub(crate) resources: Resources,
    pub(crate) eviction: EvictionManager,
    pub(crate) garbage_collection: GarbageCollector,
    pub(crate) stats: Stats,
    /// The `KubeletConfiguration` that `/configz` serves, if there is one.
    pub(crate) configuration: Option<Value>,
}

impl Kubelet {
    /// Returns true if a pod's phase is final, by the last reported status.
    pub(crate) fn is_terminal(&self, pod: &Pod) -> bool {
        let reported = self.status.last(pod.uid());
        let phase = match &reported {
            Some(status) => status.str_at(&["phase"]),
            None => pod.tree().str_at(&["status", "phase"]),
        };
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// A config map or secret of a pod's namespace; `None` if it does not exist.
    pub(crate) async fn named_object(
        &self,
        kind: ObjectKind,
        pod: &Pod,
        name: &str,
    ) -> Result<Option<Value>, corten_client::Error> {
        self.objects.named.get(&self.api, &self.clock, kind, pod, name).await
    }

    /// The time after which an exec, attach or port-forward session without traffic ends; `None` without a limit.
    pub(crate) fn session_idle_timeout(&self) -> Option<Duration> {
        let text = self.configuration.as_ref()?.str_at(&["streamingConnectionIdleTimeout"])?;
        go_duration(text).ok().filter(|timeout| !timeout.is_zero())
    }

    /// Drops the state of a pod of which nothing is left on the node.
    pub(crate) fn forget_pod(&self, uid: &str) {
        self.containers.images.forget(uid);
        self.status.forget(uid);
        self.objects.forget_pod(&self.api, uid);
        self.probes.forget(uid);
        self.pod_workers.forget(uid);
        self.resources.allocations.forget(self, uid);
    }
}

/// Runs a kubelet until the runtime's event stream closes.
pub(crate) async fn run(
    parts: Parts,
    options: Options,
    api: Option<server::Bound>,
) -> Result<(), corten_container::Error> {
    let version = wait_for_runtime(parts.runtime.as_ref(), &parts.clock).await;
    let sources = options.manifests.clone();
    let port = api.as_ref().map_or(0, server::Bound::port);
    let (kubelet, housekeeping) = assemble(parts, options, version, port)?;
    let _server = api.map(|api| AbortOnDrop(tokio::spawn(api.serve(kubelet.clone()))));
    kubelet.api.caches.of(&kinds::SERVICES);
    watch_pod_cidrs(&kubelet);
    node::watch_own_node(&kubelet.api);
    let sources = PodSources::start(&kubelet, &sources);
    pod_sources::api::watch_bound_pods(&kubelet);
    let mut events = kubelet.containers.runtime.events();
    let mut tasks = vec![
        AbortOnDrop(tokio::spawn(node::run(kubelet.clone()))),
        AbortOnDrop(tokio::spawn(node::enforce_allocatable(kubelet.clone()))),
        AbortOnDrop(tokio::spawn(clean_up_once_synced(kubelet.clone(), sources))),
        AbortOnDrop(tokio::spawn(housekeeping::run(kubelet.clone(), housekeeping))),
        AbortOnDrop(tokio::spawn(oom_watcher::run(kubelet.api.clone()))),
    ];
    if !kubelet.containers.runtime.supports_events() {
        tasks.push(AbortOnDrop(tokio::spawn(pleg::run(kubelet.clone()))));
    }
    loop {
        match events.recv().await {
            Ok(event) => kubelet.pod_workers.handle_runtime_event(&event),
            Err(RecvError::Lagged(_)) => kubelet.pod_workers.sync_all(),
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

/// Puts the parts together. Returns the period of housekeeping beside the kubelet.
fn assemble(
    parts: Parts,
    options: Options,
    version: Version,
    api_port: u16,
) -> Result<(Arc<Kubelet>, Duration), corten_container::Error> {
    let nothing = Value::Null;
    let configured = options.configuration.as_ref().unwrap_or(&nothing);
    fn invalid(err: impl std::fmt::Display) -> corten_container::Error {
        corten_container::Error::Internal(err.to_string())
    }
    let housekeeping = Housekeeping::read(configured).map_err(invalid)?;
    let admission = AdmissionHandler::read(configured).map_err(invalid)?;
    let reserved = Reserved::read(configured).map_err(invalid)?;
    kernel::check(configured).map_err(invalid)?;
    let cgroups = PodCgroups::prepare(configured)
        .map_err(|err| corten_container::Error::internal("cannot create cgroups", err))?;
    let root = options.root_dir;
    for private in [root.clone(), root.join("pods")] {
        corten_base::files::private_directory(&private).map_err(|err| {
            corten_container::Error::internal("cannot create the kubelet's root directory", err)
        })?;
    }
    let pulled = PulledImages::open(&root, configured)
        .map_err(|err| corten_container::Error::internal("cannot read the records of pulled images", err))?;
    let caches = Caches::new(parts.client.clone(), parts.clock.clone());
    let resolver_file = options.resolver.as_deref().unwrap_or(Path::new("/etc/resolv.conf"));
    let kubelet = Kubelet {
        api: ApiServer::new(parts.client, caches, parts.recorder, &options.node_name),
        containers: Containers {
            runtime: parts.runtime,
            images: ImageManager::new(parts.images, pulled, parts.clock.clone()),
            config: NodeConfig {
                log_root: options.log_dir.display().to_string(),
                resolver: Resolver {
                    cluster_servers: options.cluster_dns,
                    cluster_domain: options.cluster_domain.clone(),
                    node: Resolver::read_node(resolver_file),
                },
                memory: node::memory(),
                seccomp_root: root.join("seccomp").display().to_string(),
                seccomp_default: configured.bool_at(&["seccompDefault"]).unwrap_or(false),
            },
            runtime_name: version.runtime_name,
        },
        volumes: Volumes::new(root, options.cluster_domain),
        objects: PodObjects::new(&options.node_name),
        pod_workers: PodWorkers::default(),
        status: StatusManager::default(),
        probes: ProbeManager::default(),
        node: Node::new(options.node, reserved, options.addresses, api_port),
        resources: Resources { cgroups, admission, allocations: AllocationManager::default() },
        eviction: EvictionManager::new(housekeeping.eviction),
        garbage_collection: GarbageCollector::new(housekeeping.collection),
        stats: Stats::new(parts.clock.now()),
        clock: parts.clock,
        configuration: options.configuration,
    };
    Ok((Arc::new(kubelet), housekeeping.period))
}

/// Passes the node's pod CIDRs to the runtime, and syncs all pods when the node's object appears or they change.
fn watch_pod_cidrs(kubelet: &Arc<Kubelet>) {
    let (watching, passed) = (kubelet.clone(), Mutex::new(String::new()));
    kubelet.api.own_nodes().subscribe(move |change| {
        if change.old.is_none() {
            // Mirror pods need the node's object, and can be created now.
            watching.pod_workers.sync_all();
        }
        let cidrs = change.new.as_ref().map(|node| pod_cidrs(&node.tree())).unwrap_or_default();
        if cidrs.is_empty() || std::mem::replace(&mut *passed.lock(), cidrs.clone()) == cidrs {
            return;
        }
        let kubelet = watching.clone();
        tokio::spawn(async move {
            if let Err(err) = kubelet.containers.runtime.update_pod_cidr(&cidrs).await {
                tracing::warn!(cidrs, %err, "cannot update the runtime's pod CIDR");
            }
            kubelet.node.changed.notify_one();
            kubelet.pod_workers.sync_all();
        });
    });
}

/// Removes orphaned pods once every pod source has reported its pods.
async fn clean_up_once_synced(kubelet: Arc<Kubelet>, sources: PodSources) {
    kubelet.api.bound_pods().synced().await;
    sources.synced().await;
    while let Err(err) = cleanup::remove_orphaned_pods(&kubelet).await {
        tracing::warn!(%err, "cannot remove orphaned pods; retrying");
        kubelet.clock.sleep(RUNTIME_RETRY).await;
    }
    pod_sources::mirror_pods::remove_orphans(&kubelet.api, &kubelet.pod_workers.pods()).await;
    // The sources stop when they are dropped.
    std::future::pending::<()>().await;
    drop(sources);
}

/// Waits until the runtime responds, and returns its version.
async fn wait_for_runtime(runtime: &dyn Runtime, clock: &Clock) -> Version {
    loop {
        match runtime.version().await {
            Ok(version) => return version,
            Err(err) => tracing::warn!(%err, "container runtime does not respond; retrying"),
        }
        clock.sleep(RUNTIME_RETRY).await;
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The node's pod CIDRs, separated by commas.
fn pod_cidrs(node: &Value) -> String {
    let cidrs = node.items_at(&["spec", "podCIDRs"]).iter().filter_map(Value::as_str);
    cidrs.collect::<Vec<_>>().join(",")
}
