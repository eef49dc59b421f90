//! The service proxy: of this process' node, and `corten proxy` alone, against any Kubernetes API server.

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

use crate::agent::host_name;
use crate::component::connect;
use crate::pod_network::{BRIDGE, Means};
use crate::server::log_to_stderr;
use crate::stop_signals::StopSignals;

const AGENT: &str = "kube-proxy/v1.37.0";

/// Starts the proxy of a node whose pods are connected by these means; it ends with the manager, and its rules stay.
pub(crate) fn start(manager: &Manager, node_name: &str, means: Means, mode: Mode) -> anyhow::Result<()> {
    let detect_local = match means {
        Means::BuiltIn => DetectLocal::BridgeInterface(BRIDGE.to_owned()),
        // Where plugins connect pods is theirs to know; their addresses are usually the node's.
        Means::Plugins => DetectLocal::NodeCidr,
        Means::Nothing => return Ok(()),
    };
    let config = Config { detect_local, ..Config::default() }.in_mode(mode);
    corten_proxy::start(manager, config, node_name).context("starting the service proxy")?;
    Ok(())
}

// As upstream's, a flag that is given twice counts the second time.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// A KubeProxyConfiguration; flags count before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The server to follow, and who to be.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Remove all rules that a proxy made, in any mode, and end.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    cleanup: bool,
    /// How rules are made: nftables, or iptables, whose tools have to be installed for it.
    #[arg(long, value_parser = Mode::of)]
    proxy_mode: Option<Mode>,
    /// What this node is called [default: the machine's own name].
    #[arg(long)]
    hostname_override: Option<String>,
    /// Where the addresses of pods come from: what comes to Services from elsewhere is masqueraded.
    #[arg(long)]
    cluster_cidr: Option<String>,
    /// Masquerade everything that is sent to the addresses of Services.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    masquerade_all: Option<bool>,
    /// Networks at whose addresses node ports are open, or primary for the Node's own [default: all].
    #[arg(long, value_delimiter = ',')]
    nodeport_addresses: Vec<String>,
    /// Where health is served; port 0 for nowhere [default: 0.0.0.0:10256].
    #[arg(long)]
    healthz_bind_address: Option<String>,
    /// Where metrics are served; port 0 for nowhere [default: 127.0.0.1:10249].
    #[arg(long)]
    metrics_bind_address: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    log_to_stderr();
    if args.cleanup {
        return corten_proxy::clean_up().context("removing rules");
    }
    let config = args.configuration()?;
    let kubeconfig = args.kubeconfig.clone().unwrap_or_else(|| PathBuf::from(&config.kubeconfig));
    let name = Some(config.hostname_override.clone()).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(host_name);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let stop = StopSignals::install()?;
        let given = Some(kubeconfig.as_path()).filter(|path| !path.as_os_str().is_empty());
        let ready = connect(given, AGENT)?;
        let same = ready.client.clone();
        let manager = Manager::new(ready.client, Box::new(move |_| same.clone()), ready.clock);
        let _proxy = corten_proxy::start(&manager, config, &name).context("starting the service proxy")?;
        tracing::info!(node = name, "proxying services");
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
    let text = std::fs::read(path).with_context(|| format!("reading {shown}"))?;
    let value = yaml::to_value(&text, &mut Vec::new()).with_context(|| format!("reading {shown}"))?;
    Config::of(&value).with_context(|| format!("reading {shown}"))
}

/// The rules that `corten bench` measures.
pub(crate) fn rules(backend: &str, namespace: Namespace) -> anyhow::Result<Box<dyn Rules>> {
    let config = Config::default().in_mode(Mode::of(backend)?);
    let engine = Engine::open(config, namespace).context("opening the back end")?;
    Ok(Box::new(Measured { inputs: Mutex::default(), engine }))
}

struct Measured {
    inputs: Mutex<Inputs>,
    engine: Engine,
}

impl Rules for Measured {
    fn tell(&mut self, services: &[Value], slices: &[Value]) {
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
        ensure!(!self.engine.sync(&self.inputs).failed(), "rules could not be written");
        Ok(())
    }
}
