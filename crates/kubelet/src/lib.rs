//! The node's agent: runs the pods that are bound to this node and tells the API server what became of them.
//!
//! Decisions are pure (`actions`, `status`); effects are in one place each. It speaks Kubernetes through
//! `corten_client` and containers through `corten_container`, and knows neither server nor runtime.

mod actions;
mod admission;
mod allocation;
mod backoff;
mod cgroups;
mod collection;
mod config;
pub mod configuration;
mod credentials;
mod downward;
mod environment;
mod events;
mod eviction;
mod expansion;
mod followed;
mod hooks;
mod housekeeping;
mod http;
mod images;
mod kernel;
mod kill;
mod machine;
mod manifests;
mod mirrors;
mod names;
mod node;
mod observe;
mod observed;
mod oom;
mod pod;
mod pod_certificates;
mod pods;
mod probes;
mod relist;
mod resize;
mod resources;
mod runtime_class;
pub mod server;
mod shared_file;
mod start;
mod stats;
mod status;
mod statuses;
mod termination;
mod tokens;
mod volumes;
mod watched;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use corten_client::{Caches, Client, kinds};
use corten_container::{DnsConfig, Images, PodSandboxFilter, Runtime, Version};
use corten_reconcile::Recorder;
use parking_lot::Mutex;
use tokio::sync::Notify;

use cgroups::PodCgroups;
use config::{NodeConfig, Resolver};
use machine::Machine;
use pods::Pods;

pub use actions::{Actions, Kill, KillReason, Knowledge, NewSandbox, Probed, actions};
pub use manifests::{ManifestUrl, Manifests};
pub use node::NodeOptions;
pub use observed::{Found, Observed, Sandbox};
pub use pod::{Container, HostNamespace, Pod, RestartPolicy, Role, Source};
pub use status::{Ended, Known, Readiness, Waiting, status};

/// How long to wait for a runtime that does not answer before it is asked again.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// What a node has to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub node_name: String,
    /// The node's addresses, the primary one first.
    pub addresses: Vec<String>,
    /// Where pods' volumes and other files of the kubelet are.
    pub root_dir: PathBuf,
    pub log_dir: PathBuf,
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
    /// Where pods come from that are not the API server's.
    pub manifests: Manifests,
    pub node: NodeOptions,
    /// How the node itself resolves names: a file, or nothing if it is empty; the machine's own if not said.
    pub resolver: Option<PathBuf>,
    /// How the kubelet was configured, as it is served; `None` if it was not.
    pub configuration: Option<corten_api::Value>,
}

/// What a node works with.
pub struct Parts {
    pub runtime: Arc<dyn Runtime>,
    pub images: Arc<dyn Images>,
    /// In the node's own identity.
    pub client: Client,
    pub recorder: Recorder,
    pub clock: Clock,
}

/// Runs the pods that are bound to this node, for as long as it is not dropped.
pub async fn run(parts: Parts, options: Options) -> Result<(), corten_container::Error> {
    run_and_serve(parts, options, None).await
}

/// Runs the pods that are bound to this node and answers on the kubelet's API, for as long as it is not dropped.
pub async fn run_and_serve(
    parts: Parts,
    options: Options,
    api: Option<server::Bound>,
) -> Result<(), corten_container::Error> {
    let version = answered(parts.runtime.as_ref(), &parts.clock).await;
    let nothing = corten_api::Value::Null;
    let configured = options.configuration.as_ref().unwrap_or(&nothing);
    let wrong = corten_container::Error::Internal;
    let housekeeping = housekeeping::Housekeeping::read(configured).map_err(wrong)?;
    let admissions = admission::Admissions::read(configured).map_err(wrong)?;
    let reserved = node::Reserved::read(configured).map_err(wrong)?;
    kernel::check(configured).map_err(wrong)?;
    let cgroups = PodCgroups::prepare(configured)
        .map_err(|error| corten_container::Error::internal("making cgroups", error))?;
    let caches = Caches::new(parts.client.clone(), parts.clock.clone());
    let bound = kinds::PODS.with_fields(format!("spec.nodeName={}", options.node_name));
    let certificates = pod_certificates::PodCertificates::new(&options.node_name);
    let own_node = kinds::NODES.with_fields(format!("metadata.name={}", options.node_name));
    let (root, manifests) = (options.root_dir.clone(), options.manifests);
    for private in [root.clone(), root.join("pods")] {
        let made = corten_base::files::private_directory(&private);
        made.map_err(|error| corten_container::Error::internal("making the kubelet's directory", error))?;
    }
    let machine = Arc::new(Machine {
        images: images::ImageManager::new(parts.images, parts.clock.clone()),
        volumes: volumes::Volumes::new(root.clone(), options.cluster_domain.clone()),
        config: NodeConfig {
            node_name: options.node_name,
            log_root: options.log_dir.display().to_string(),
            resolver: Resolver {
                cluster_servers: options.cluster_dns,
                cluster_domain: options.cluster_domain,
                node: node_resolver(options.resolver.as_deref().unwrap_or(Path::new("/etc/resolv.conf"))),
            },
            memory: node::memory(),
            seccomp_root: root.join("seccomp").display().to_string(),
            seccomp_default: configured.bool_at(&["seccompDefault"]).unwrap_or(false),
        },
        runtime: parts.runtime,
        housekeeping,
        evictions: eviction::Evictions::default(),
        collection: collection::Collection::default(),
        stats: stats::Stats::new(parts.clock.now()),
        client: parts.client,
        caches,
        recorder: parts.recorder,
        clock: parts.clock,
        statuses: statuses::Statuses::default(),
        tokens: tokens::Tokens::default(),
        watched: watched::Watched::default(),
        trust: followed::Followed::new(kinds::CLUSTER_TRUST_BUNDLES.clone(), "clusterTrustBundle", |_| None),
        certificates,
        probes: probes::Probes::default(),
        admissions,
        reserved,
        allocations: allocation::Allocations::default(),
        pods: Pods::default(),
        news: Notify::new(),
        bound_pods: bound,
        own_node,
        cgroups,
        node: options.node,
        configuration: options.configuration,
        host_ips: options.addresses,
        api_port: api.as_ref().map_or(0, server::Bound::port),
        runtime_name: version.runtime_name,
    });
    let _serves_with_this = api.map(|api| AbortOnDrop(tokio::spawn(api.serve(machine.clone()))));
    machine.caches.of(&kinds::SERVICES);
    let (network, told) = (machine.clone(), Mutex::new(String::new()));
    machine.caches.of(&machine.own_node).subscribe(move |change| {
        if change.old.is_none() {
            // Pods that are shown as this node's can be shown now.
            network.pods.wake_all();
        }
        let cidrs = change.new.as_ref().map(|node| pod_cidrs(&node.tree())).unwrap_or_default();
        if cidrs.is_empty() || std::mem::replace(&mut *told.lock(), cidrs.clone()) == cidrs {
            return;
        }
        let machine = network.clone();
        tokio::spawn(async move {
            if let Err(error) = machine.runtime.update_pod_cidr(&cidrs).await {
                tracing::warn!(cidrs, %error, "the runtime did not take the pods' addresses");
            }
            machine.news.notify_one();
            machine.pods.wake_all();
        });
    });
    node::follow(&machine);
    let following = manifests::Following::start(&machine, &manifests);
    follow_bound(&machine);
    let mut events = machine.runtime.events();
    let mut working = vec![
        AbortOnDrop(tokio::spawn(node::beat(machine.clone()))),
        AbortOnDrop(tokio::spawn(node::enforce(machine.clone()))),
        AbortOnDrop(tokio::spawn(settle(machine.clone(), following))),
        AbortOnDrop(tokio::spawn(housekeeping::run(machine.clone()))),
        AbortOnDrop(tokio::spawn(oom::watch(machine.clone()))),
    ];
    if !machine.runtime.tells_events() {
        working.push(AbortOnDrop(tokio::spawn(relist::run(machine.clone()))));
    }
    loop {
        match events.recv().await {
            Ok(event) => machine.pods.told(&event),
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => machine.pods.wake_all(),
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return Ok(()),
        }
    }
}

/// Takes in the pods that the API server binds to this node, and what becomes of mirrors.
fn follow_bound(machine: &Arc<Machine>) {
    let taking = machine.clone();
    machine.caches.of(&machine.bound_pods).subscribe(move |change| {
        // Another of the same name may have come in its place.
        let old = change.old.as_ref().filter(|old| change.new.as_ref().is_none_or(|new| new.uid != old.uid));
        if let Some(old) = old {
            taking.pods.drop_wish(&old.uid);
            taking.pods.wake_static(&old.key);
        }
        let Some(new) = &change.new else { return };
        let tree = new.tree();
        if mirrors::is_mirror(&tree) {
            taking.pods.wake_static(&new.key);
        } else {
            Pods::want(&taking, Pod::new(tree, Source::Api));
        }
    });
}

/// Once it is known what everybody wants, what nobody wants goes.
async fn settle(machine: Arc<Machine>, following: manifests::Following) {
    machine.caches.of(&machine.bound_pods).synced().await;
    following.heard().await;
    while let Err(error) = clean_up(&machine).await {
        tracing::warn!(%error, "what nobody wants any more could not be removed");
        machine.clock.sleep(RUNTIME_RETRY).await;
    }
    mirrors::remove_orphans(&machine).await;
    // The sources end with this.
    std::future::pending::<()>().await;
    drop(following);
}

/// What the runtime says of itself, as soon as it says anything.
async fn answered(runtime: &dyn Runtime, clock: &Clock) -> Version {
    loop {
        match runtime.version().await {
            Ok(version) => return version,
            Err(error) => tracing::warn!(%error, "the container runtime does not answer"),
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

/// Where the addresses of this node's pods come from.
fn pod_cidrs(node: &corten_api::Value) -> String {
    let cidrs = node.items_at(&["spec", "podCIDRs"]).iter().filter_map(corten_api::Value::as_str);
    cidrs.collect::<Vec<_>>().join(",")
}

/// Removes what runs here for pods that nobody wants any more.
async fn clean_up(machine: &Machine) -> Result<(), corten_container::Error> {
    let known = machine.pods.uids();
    for sandbox in machine.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await? {
        let uid = &sandbox.metadata.uid;
        if known.contains(uid) {
            continue;
        }
        tracing::info!(pod = sandbox.metadata.name, uid, "nobody wants this pod any more");
        machine.runtime.stop_pod_sandbox(&sandbox.id).await?;
        machine.runtime.remove_pod_sandbox(&sandbox.id).await?;
        remove_files(machine, uid);
    }
    for uid in machine.volumes.pods().iter().filter(|uid| !known.contains(uid)) {
        tracing::info!(uid, "these volumes are nobody's any more");
        remove_files(machine, uid);
    }
    Ok(())
}

/// Removes a pod's cgroup and volumes. What cannot be removed now is tried again when the node starts next.
fn remove_files(machine: &Machine, uid: &str) {
    if let Err(error) = machine.cgroups.remove(uid).and_then(|()| machine.volumes.remove(uid)) {
        tracing::warn!(uid, %error, "what a pod had could not be removed");
    }
}

/// How the node itself resolves names.
fn node_resolver(file: &Path) -> DnsConfig {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut config = DnsConfig::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let rest = |words: std::str::SplitWhitespace<'_>| words.map(str::to_owned).collect::<Vec<_>>();
        match words.next() {
            Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
            Some("search") => config.searches = rest(words),
            Some("options") => config.options = rest(words),
            _ => {}
        }
    }
    config
}
