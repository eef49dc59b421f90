//! `corten kubelet`: the kubelet in a process of its own, against any Kubernetes API server.

mod flags;
mod identity;
mod serving;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use corten_base::Clock;
use corten_container::native::network::{LoopbackOnly, Network};
use corten_kubelet::configuration::Configuration;
use corten_kubelet::{ManifestUrl, Manifests, NodeOptions, Options, Parts, server};
use corten_pki::Sans;

use crate::agent::renew_serving_certificate;
use crate::hardening;
use crate::node::runtime::{self, Containers};
use crate::node::{host_name, manager_of};
use crate::pod_network::{BuiltIn, Plugins, PodNetworkKind};
use crate::server::{log_to_stderr, outward_address};
use crate::stop_signals::StopSignals;

pub(crate) use flags::Args;
use identity::Identity;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    hardening::require_root("`corten kubelet` as root")?;
    log_to_stderr();
    args.warn();
    let configuration = configuration(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let stop = StopSignals::install()?;
        let kubelet = Kubelet::new(args, configuration)?;
        tokio::select! {
            () = stop.wait() => {
                tracing::info!("stopping");
                Ok(())
            }
            result = kubelet.work() => result,
        }
    })
}

/// The configuration of the file, its drop-ins and the flags.
fn configuration(args: &Args) -> anyhow::Result<Configuration> {
    let mut whole = match &args.config {
        Some(path) => read(path)?,
        None => Configuration::default(),
    };
    if let Some(directory) = &args.config_dir {
        for path in drop_ins(directory)? {
            whole.overlay(&read(&path)?);
        }
    }
    args.apply(&mut whole)?;
    whole.complete();
    validate(&whole)?;
    Ok(whole)
}

/// Rejects an invalid or unsupported configuration, and warns of fields without effect.
pub(crate) fn validate(configuration: &Configuration) -> anyhow::Result<()> {
    configuration.validate().context("invalid kubelet configuration")?;
    let fields = configuration.without_effect();
    if !fields.is_empty() {
        tracing::warn!(fields = fields.join(", "), "kubelet configuration fields have no effect");
    }
    Ok(())
}

/// Reads a configuration file. Unknown fields are ignored and logged.
pub(crate) fn read(path: &Path) -> anyhow::Result<Configuration> {
    let text = std::fs::read(path)
        .with_context(|| format!("failed to load kubelet config file, path: {}", path.display()))?;
    let (configuration, unknown) = Configuration::read(&text)
        .with_context(|| format!("failed to load kubelet config file, path: {}", path.display()))?;
    if !unknown.is_empty() {
        let strict = unknown.join(", ");
        tracing::warn!(path = %path.display(), err = strict, "Using lenient decoding as strict decoding failed");
    }
    Ok(configuration)
}

/// The drop-in files of a directory, in order.
fn drop_ins(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "conf") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A kubelet that is ready to start.
struct Kubelet<'a> {
    args: &'a Args,
    configuration: Configuration,
    name: String,
    addresses: Vec<IpAddr>,
}

impl Kubelet<'_> {
    fn new(args: &Args, configuration: Configuration) -> anyhow::Result<Kubelet<'_>> {
        let name = match args.hostname_override.as_deref().unwrap_or_default().trim() {
            "" => host_name(),
            name => name.to_lowercase(),
        };
        let addresses = match args.node_ip.as_slice() {
            [] => vec![
                outward_address(false)
                    .or_else(|| outward_address(true))
                    .context("this machine has no default route; give its address with --node-ip")?,
            ],
            given => given.to_vec(),
        };
        Ok(Kubelet { args, configuration, name, addresses })
    }

    /// Runs the kubelet. Returns only with an error.
    async fn work(self) -> anyhow::Result<()> {
        let clock = Clock::real();
        let identity = Identity::find(self.args, &self.configuration, &self.name, &clock).await?;
        let client = identity.client.clone();
        let containers = self.containers(&clock).await?;
        let api = serving::options(self.args, &self.configuration, &self.name, &self.addresses)?;
        let api = match self.configuration.bool("enableServer") {
            true => Some(
                server::bind(&api).await.context("cannot serve the kubelet's API (choose another --port)")?,
            ),
            false => None,
        };
        let manager = manager_of(&client, &clock);
        identity.renew(&manager);
        if let Some(api) = api.as_ref().filter(|_| self.configuration.bool("serverTLSBootstrap")) {
            let (name, sans) = (self.name.clone(), self.sans()?);
            let serving = api.serving_certificate();
            let certificate =
                renew_serving_certificate(client.clone(), name, sans, None, serving, clock.clone());
            manager.spawn(certificate);
        }
        let parts = Parts {
            runtime: containers.runtime,
            images: containers.images,
            client,
            recorder: manager.recorder().clone(),
            clock,
        };
        let options = self.options()?;
        tracing::info!(node = options.node_name, "starting kubelet");
        corten_kubelet::run_and_serve(parts, options, api).await.context("cannot run the kubelet")
    }

    async fn containers(&self, clock: &Clock) -> anyhow::Result<Containers> {
        match self.configuration.text("containerRuntimeEndpoint") {
            "" => {
                let (folder, flags) = (&self.args.data_dir, &self.args.pod_network);
                hardening::prepare_data_directory(folder)?;
                let network: Arc<dyn Network> = match flags.kind() {
                    PodNetworkKind::Nothing => Arc::new(LoopbackOnly),
                    PodNetworkKind::Plugins => {
                        Arc::new(Plugins::open(folder, flags, None)?.collect_garbage().await)
                    }
                    PodNetworkKind::BuiltIn => {
                        let network = BuiltIn::open(folder.join("network"), None, None)?;
                        Arc::new(Plugins::open(folder, flags, None)?.before(network))
                    }
                };
                let limits = self.args.images.limits();
                runtime::native(folder, network, self.args.handlers(), limits, clock.clone()).await
            }
            endpoint => {
                let images = self.configuration.text("imageServiceEndpoint");
                runtime::remote(endpoint, Some(images).filter(|images| !images.is_empty()))
            }
        }
    }

    /// The names and addresses in the serving certificate.
    fn sans(&self) -> anyhow::Result<Sans> {
        let sans = Sans::default().with_host(&self.name).context("invalid node name")?;
        Ok(self.addresses.iter().fold(sans, |sans, address| sans.with_address(*address)))
    }

    fn options(&self) -> anyhow::Result<Options> {
        let configuration = &self.configuration;
        let text = |path: &str| configuration.text(path).to_owned();
        let period = |path: &str| configuration.duration(path).unwrap_or_default();
        let url = match configuration.text("staticPodURL") {
            "" => None,
            url => Some(
                ManifestUrl::parse(url, configuration.manifest_headers())
                    .map_err(anyhow::Error::msg)
                    .context("staticPodURL (--manifest-url)")?,
            ),
        };
        let path = configuration.text("staticPodPath");
        Ok(Options {
            node_name: self.name.clone(),
            addresses: self.addresses.iter().map(ToString::to_string).collect(),
            root_dir: self.args.root_dir.clone(),
            log_dir: PathBuf::from(configuration.text("podLogsDir")),
            cluster_dns: configuration.texts("clusterDNS"),
            cluster_domain: text("clusterDomain"),
            manifests: Manifests {
                path: (!path.is_empty()).then(|| PathBuf::from(path)),
                file_check: period("fileCheckFrequency"),
                url,
                http_check: period("httpCheckFrequency"),
            },
            node: NodeOptions {
                labels: self.args.labels()?,
                taints: self.args.taints(configuration),
                ..NodeOptions::of(configuration)
            },
            resolver: Some(PathBuf::from(configuration.text("resolvConf"))),
            configuration: Some(configuration.tree()),
        })
    }
}
