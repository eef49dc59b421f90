//! The node's agent: runs the pods that are bound to this node and tells the API server what became of them.
//!
//! Decisions are pure (`actions`, `status`); effects are in one place each. It speaks Kubernetes through
//! `corten_client` and containers through `corten_container`, and knows neither server nor runtime.

mod actions;
mod backoff;
mod cgroups;
mod config;
mod credentials;
mod downward;
mod environment;
mod events;
mod expansion;
mod hooks;
mod http;
mod images;
mod kill;
mod machine;
mod names;
mod node;
mod observe;
mod observed;
mod pod;
mod pods;
mod probes;
mod resources;
pub mod server;
mod start;
mod stats;
mod status;
mod statuses;
mod termination;
mod tokens;
mod volumes;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use corten_base::Clock;
use corten_client::{Caches, Client, kinds};
use corten_container::{DnsConfig, Images, PodSandboxFilter, Runtime};
use corten_reconcile::Recorder;
use parking_lot::Mutex;
use tokio::sync::Notify;

use cgroups::PodCgroups;
use config::{NodeConfig, Resolver};
use machine::Machine;
use pods::Pods;

pub use actions::{Actions, Kill, KillReason, Knowledge, NewSandbox, Probed, actions};
pub use observed::{Found, Observed, Sandbox};
pub use pod::{Container, HostNamespace, Pod, RestartPolicy, Role, Source};
pub use status::{Ended, Known, Readiness, Waiting, status};

/// What a node has to be told.
#[derive(Debug, Clone)]
pub struct Options {
    pub node_name: String,
    /// The node's addresses, the primary one first.
    pub addresses: Vec<String>,
    /// Where pods' volumes and other files of the kubelet are.
    pub root_dir: PathBuf,
    pub log_dir: PathBuf,
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
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
    let version = parts.runtime.version().await?;
    let caches = Caches::new(parts.client.clone(), parts.clock.clone());
    let bound = kinds::PODS.with_fields(format!("spec.nodeName={}", options.node_name));
    let own_node = kinds::NODES.with_fields(format!("metadata.name={}", options.node_name));
    let root = options.root_dir.clone();
    let machine = Arc::new(Machine {
        images: images::ImageManager::new(parts.images, parts.clock.clone()),
        volumes: volumes::Volumes::new(root.clone(), options.cluster_domain.clone()),
        config: NodeConfig {
            node_name: options.node_name,
            log_root: options.log_dir.display().to_string(),
            resolver: Resolver {
                cluster_servers: options.cluster_dns,
                cluster_domain: options.cluster_domain,
                node: node_resolver(),
            },
            memory: node::memory(),
            seccomp_root: root.join("seccomp").display().to_string(),
        },
        runtime: parts.runtime,
        stats: stats::Stats::new(parts.clock.now()),
        client: parts.client,
        caches,
        recorder: parts.recorder,
        clock: parts.clock,
        statuses: statuses::Statuses::default(),
        tokens: tokens::Tokens::default(),
        probes: probes::Probes::default(),
        pods: Pods::default(),
        news: Notify::new(),
        own_node,
        cgroups: PodCgroups::prepare().map_err(|e| corten_container::Error::internal("making cgroups", e))?,
        host_ips: options.addresses,
        api_port: api.as_ref().map_or(0, server::Bound::port),
        runtime_name: version.runtime_name,
    });
    let _serves_with_this = api.map(|api| AbortOnDrop(tokio::spawn(api.serve(machine.clone()))));
    machine.caches.of(&kinds::SERVICES);
    let (network, told) = (machine.clone(), Mutex::new(String::new()));
    machine.caches.of(&machine.own_node).subscribe(move |change| {
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
    let wanted = machine.caches.of(&bound);
    let taking = machine.clone();
    wanted.subscribe(move |change| {
        // Another of the same name may have come in its place.
        if let Some(old) =
            change.old.as_ref().filter(|old| change.new.as_ref().is_none_or(|new| new.uid != old.uid))
        {
            taking.pods.drop_wish(&old.uid);
        }
        if let Some(pod) = &change.new {
            Pods::want(&taking, Pod::new(pod.tree(), Source::Api));
        }
    });
    wanted.synced().await;
    clean_up(&machine).await?;
    let mut events = machine.runtime.events();
    let beating = tokio::spawn(node::beat(machine.clone()));
    let _ends_with_this = AbortOnDrop(beating);
    loop {
        match events.recv().await {
            Ok(event) => machine.pods.told(&event),
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => machine.pods.wake_all(),
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return Ok(()),
        }
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
        if let Err(error) = machine.cgroups.remove(uid).and_then(|()| machine.volumes.remove(uid)) {
            tracing::warn!(uid, %error, "what a pod had could not be removed");
        }
    }
    Ok(())
}

/// How the node itself resolves names.
fn node_resolver() -> DnsConfig {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
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
