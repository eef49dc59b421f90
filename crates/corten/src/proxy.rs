//! The service proxy: of this process' node, and `corten proxy` in a process of its own, against any Kubernetes API server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use corten_api::{Value, yaml};
use corten_bench::Rules;
use corten_client::{Change, Object};
use corten_net::namespace::Namespace;
use corten_proxy::config::{DetectLocal, cidrs, parse_address};
use corten_proxy::inputs::Inputs;
use corten_proxy::{Config, Engine, Mode};
use corten_reconcile::Manager;
use parking_lot::Mutex;

use crate::component::connect;
use crate::node::{host_name, manager_of};
use crate::pod_network::{BRIDGE, PodNetworkKind};
use crate::server::log_to_stderr;
use crate::stop_signals::StopSignals;

/// The user that upstream's role `system:node-proxier` is bound to.
pub(crate) const USER: &str = "system:kube-proxy";
/// The proxy's user agent, and so the field manager of its writes.
pub(crate) const AGENT: &str = "kube-proxy/v1.37.0";

/// Starts the proxy of a node with this kind of pod network. It stops when the manager is dropped; its rules stay.
pub(crate) fn start(
    manager: &Manager,
    node_name: &str,
    kind: PodNetworkKind,
    mode: Mode,
) -> anyhow::Result<()> {
    let detect_local = match kind {
        PodNetworkKind::BuiltIn => DetectLocal::BridgeInterface(BRIDGE.to_owned()),
        // The interfaces of CNI plugins are unknown; pod addresses are usually of the node's pod CIDR.
        PodNetworkKind::Plugins => DetectLocal::NodeCidr,
        PodNetworkKind::Nothing => return Ok(()),
    };
    let config = Config { detect_local, ..Config::default() }.in_mode(mode);
    corten_proxy::start(manager, config, node_name).context("cannot start the service proxy")?;
    Ok(())
}

// As with upstream's components, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// File with a KubeProxyConfiguration. Flags take precedence over it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Kubeconfig of the API server.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Remove all rules of the proxy, in any mode, and exit.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    cleanup: bool,
    /// Proxy mode: nftables, or iptables, which needs the iptables tools [default: nftables].
    #[arg(long, value_parser = Mode::of)]
    proxy_mode: Option<Mode>,
    /// Name of the node [default: the host name].
    #[arg(long)]
    hostname_override: Option<String>,
    /// CIDR of pod IPs, or a dual-stack pair. Traffic to Services from other addresses is masqueraded.
    #[arg(long)]
    cluster_cidr: Option<String>,
    /// Masquerade all traffic to cluster IPs.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    masquerade_all: Option<bool>,
    /// CIDRs of the addresses that serve node ports, or primary for the Node's own [default: all].
    #[arg(long, value_delimiter = ',')]
    nodeport_addresses: Vec<String>,
    /// Address of the health endpoint; port 0 disables it [default: 0.0.0.0:10256].
    #[arg(long)]
    healthz_bind_address: Option<String>,
    /// Address of the metrics endpoint; port 0 disables it [default: 127.0.0.1:10249].
    #[arg(long)]
    metrics_bind_address: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    log_to_stderr();
    if args.cleanup {
        return corten_proxy::clean_up().context("cannot remove the rules (run it as root)");
    }
    let config = args.configuration()?;
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| PathBuf::from(&config.kubeconfig));
    let name = Some(config.hostname_override.clone()).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(host_name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let stop = StopSignals::install()?;
        let given = Some(kubeconfig.as_path()).filter(|path| !path.as_os_str().is_empty());
        let ready = connect(given, AGENT)?;
        let manager = manager_of(&ready.client, &ready.clock);
        let _proxy = corten_proxy::start(&manager, config, &name)
            .context("cannot start the service proxy (run it as root)")?;
        tracing::info!(node = name, "service proxy started");
        stop.wait().await;
        tracing::info!("stopping; rules stay");
        Ok(())
    })
}

impl Args {
    fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(path) => read(path)?,
            None => Config::default(),
        };
        if let Some(mode) = self.proxy_mode {
            config = config.in_mode(mode);
        }
        if let Some(name) = &self.hostname_override {
            config.hostname_override = name.trim().to_lowercase();
        }
        if let Some(clusters) = &self.cluster_cidr {
            config.detect_local = DetectLocal::ClusterCidr(cidrs("clusterCIDR", clusters.split(','))?);
        }
        config.masquerade_all = self.masquerade_all.unwrap_or(config.masquerade_all);
        match self.nodeport_addresses.as_slice() {
            [] => {}
            [primary] if primary == "primary" => config.node_port_primary = true,
            ranges => {
                config.node_port_addresses = cidrs("nodePortAddresses", ranges.iter().map(String::as_str))?;
            }
        }
        for (flag, asked, address) in [
            ("--healthz-bind-address", &self.healthz_bind_address, &mut config.healthz),
            ("--metrics-bind-address", &self.metrics_bind_address, &mut config.metrics),
        ] {
            if let Some(asked) = asked {
                let port = address.map_or(0, |address| address.port());
                let parsed = parse_address(asked, port);
                let parsed = parsed.with_context(|| format!("{flag}: {asked:?} is not IP:port"))?;
                *address = Some(parsed).filter(|address| address.port() != 0);
            }
        }
        Ok(config)
    }
}

fn read(path: &Path) -> anyhow::Result<Config> {
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let value = yaml::to_value(&text, &mut Vec::new()).with_context(|| format!("cannot read {shown}"))?;
    Config::of(&value).with_context(|| format!("cannot read {shown}"))
}

/// The proxy's rules, for `corten bench`.
pub(crate) fn rules(backend: &str, namespace: Namespace) -> anyhow::Result<Box<dyn Rules>> {
    let config = Config::default().in_mode(Mode::of(backend)?);
    let engine = Engine::open(config, namespace).context("cannot open the proxy backend")?;
    Ok(Box::new(Measured { inputs: Mutex::default(), engine }))
}

struct Measured {
    inputs: Mutex<Inputs>,
    engine: Engine,
}

impl Rules for Measured {
    fn update(&mut self, services: &[Value], slices: &[Value]) {
        let changed = |object: &Value| Change { old: None, new: Some(Arc::new(Object::of(object))) };
        let mut inputs = self.inputs.lock();
        for service in services {
            inputs.service(&changed(service));
        }
        for slice in slices {
            inputs.slice(&changed(slice));
        }
    }

    fn write(&mut self) -> anyhow::Result<()> {
        ensure!(!self.engine.sync(&self.inputs).failed(), "cannot write the rules");
        Ok(())
    }
}
