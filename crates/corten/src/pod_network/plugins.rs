//! CNI plugins as the pod network of the native runtime, and their arguments for a pod.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use corten_api::quantity::Quantity;
use corten_container::native::network::{Network, PodNetwork};
use corten_container::{Error, PodSandboxConfig, Protocol, Result};
use corten_net::Cidr;
use corten_net::cni::{Cni, Options, Pod};
use corten_net::namespace::Namespace;
use corten_policy::Policies;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{BuiltIn, PodNetworkFlags, labels};

/// The plugins of this process' node.
pub(crate) struct Plugins {
    cni: Arc<Cni>,
    /// The enforcer of network policies, if they are enforced.
    policies: Option<Arc<Policies>>,
    /// For plugins that allocate addresses of the node's pod CIDR.
    pod_cidrs: Mutex<Vec<Cidr>>,
}

impl Plugins {
    /// Opens the plugins with the pods of earlier runs.
    pub(crate) fn open(
        data_dir: &Path,
        flags: &PodNetworkFlags,
        policies: Option<Arc<Policies>>,
    ) -> anyhow::Result<Plugins> {
        let options = Options {
            folder: data_dir.join("cni"),
            conf_dir: flags.cni_conf_dir.clone(),
            bin_dirs: flags.cni_bin_dir.clone(),
        };
        let namespace = Namespace::current().context("cannot open the network namespace")?;
        let cni = Cni::open(options, namespace).context("cannot open the CNI network")?;
        Ok(Plugins { cni: Arc::new(cni), policies, pod_cidrs: Mutex::default() })
    }

    /// Has plugins release the resources of deleted pods, before new pods start.
    pub(crate) async fn collect_garbage(self) -> Plugins {
        let doing = "cannot collect garbage of the CNI network";
        if let Err(error) = self.blocking(doing, Cni::collect_garbage).await {
            tracing::debug!(err = %error, "CNI garbage collection failed");
        }
        self
    }

    /// The built-in network, with plugins only for pods that an earlier run connected by them.
    pub(crate) fn before(self, network: BuiltIn) -> Formerly {
        Formerly { plugins: self, network }
    }

    /// Runs blocking work on a thread for it.
    async fn blocking<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Cni) -> corten_net::cni::Result<T> + Send + 'static,
    ) -> Result<T> {
        let cni = self.cni.clone();
        let done = tokio::task::spawn_blocking(move || work(&cni)).await;
        let done = done.map_err(|error| Error::internal(doing, error))?;
        done.map_err(|error| Error::internal(doing, error))
    }
}

#[async_trait]
impl Network for Plugins {
    async fn attach(&self, pod: PodNetwork<'_>) -> Result<Vec<String>> {
        let metadata = &pod.config.metadata;
        let told = Pod {
            sandbox: pod.sandbox_id.to_owned(),
            network: pod.namespace.into(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            capabilities: capabilities(pod.config, &self.pod_cidrs.lock()),
        };
        let attach = move |cni: &Cni| cni.attach(&told);
        let addresses = self.blocking("cannot set up the pod network", attach).await?;
        if addresses.is_empty() {
            return Err(Error::Internal("the network's plugins gave the pod no address".to_owned()));
        }
        if let Some(policies) = &self.policies {
            let labels = labels(&pod.config.labels);
            let enforced = policies.attached(&metadata.namespace, &metadata.name, labels, &addresses).await;
            enforced
                .map_err(|error| Error::internal("cannot enforce the network policies of the pod", error))?;
        }
        Ok(addresses.iter().map(IpAddr::to_string).collect())
    }

    async fn detach(&self, pod: PodNetwork<'_>) -> Result<()> {
        if let Some(policies) = &self.policies {
            policies.detached(&pod.config.metadata.namespace, &pod.config.metadata.name);
        }
        let (sandbox, network) = (pod.sandbox_id.to_owned(), PathBuf::from(pod.namespace));
        let detach = move |cni: &Cni| cni.detach(&sandbox, &network);
        self.blocking("cannot tear down the pod network", detach).await
    }

    async fn check(&self, pod: PodNetwork<'_>) -> Result<()> {
        let (sandbox, network) = (pod.sandbox_id.to_owned(), PathBuf::from(pod.namespace));
        let check = move |cni: &Cni| cni.check(&sandbox, &network);
        self.blocking("cannot check the pod network", check).await
    }

    async fn not_ready(&self) -> Option<String> {
        match self.blocking("cannot query the status of the CNI plugins", |cni| Ok(cni.not_ready())).await {
            Ok(problem) => problem,
            Err(error) => Some(error.to_string()),
        }
    }

    fn set_pod_cidr(&self, pod_cidr: &str) {
        *self.pod_cidrs.lock() = pod_cidr.split(',').filter_map(|cidr| cidr.trim().parse().ok()).collect();
    }
}

/// The built-in network on a node that may have had plugins before.
pub(crate) struct Formerly {
    plugins: Plugins,
    network: BuiltIn,
}

#[async_trait]
impl Network for Formerly {
    async fn attach(&self, pod: PodNetwork<'_>) -> Result<Vec<String>> {
        self.network.attach(pod).await
    }

    async fn detach(&self, pod: PodNetwork<'_>) -> Result<()> {
        self.plugins.detach(pod).await?;
        self.network.detach(pod).await
    }

    async fn check(&self, pod: PodNetwork<'_>) -> Result<()> {
        self.plugins.check(pod).await
    }

    async fn not_ready(&self) -> Option<String> {
        self.network.not_ready().await
    }

    fn set_pod_cidr(&self, pod_cidr: &str) {
        self.network.set_pod_cidr(pod_cidr);
    }
}

/// The plugins' arguments for a pod, as upstream's runtimes pass them.
fn capabilities(config: &PodSandboxConfig, pod_cidrs: &[Cidr]) -> Map<String, Value> {
    let mut told = Map::new();
    let mut tell = |name: &str, value: Value| told.insert(name.to_owned(), value);
    let ports = port_mappings(config);
    if !ports.is_empty() {
        tell("portMappings", ports.into());
    }
    if let Some(bandwidth) = bandwidth(config) {
        tell("bandwidth", bandwidth);
    }
    if let Some(dns) = &config.dns_config {
        tell("dns", json!({"servers": dns.servers, "searches": dns.searches, "options": dns.options}));
    }
    let ranges: Vec<Value> = pod_cidrs.iter().map(|cidr| json!([{"subnet": cidr.to_string()}])).collect();
    if !ranges.is_empty() {
        tell("ipRanges", ranges.into());
    }
    tell("io.kubernetes.cri.pod-annotations", json!(config.annotations));
    told
}

fn port_mappings(config: &PodSandboxConfig) -> Vec<Value> {
    let named = config.port_mappings.iter().filter(|mapping| mapping.host_port != 0);
    let told = named.map(|mapping| {
        let protocol = match mapping.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        };
        json!({
            "hostPort": mapping.host_port, "containerPort": mapping.container_port, "protocol": protocol,
            "hostIP": mapping.host_ip,
        })
    });
    told.collect()
}

/// The pod's bandwidth limits from its annotations; bursts are not limited.
fn bandwidth(config: &PodSandboxConfig) -> Option<Value> {
    let mut limits = Map::new();
    for way in ["ingress", "egress"] {
        let said = config.annotations.get(&format!("kubernetes.io/{way}-bandwidth"));
        if let Some(rate) = said.and_then(|said| Quantity::parse(said).ok()) {
            limits.insert(format!("{way}Rate"), rate.value().into());
            limits.insert(format!("{way}Burst"), u32::MAX.into());
        }
    }
    (!limits.is_empty()).then_some(Value::Object(limits))
}

#[cfg(test)]
mod tests {
    use corten_container::PortMapping;

    use super::*;

    #[test]
    fn plugins_get_the_ports_and_bandwidth_of_a_pod() {
        let port = |host_port| PortMapping {
            protocol: Protocol::Tcp,
            container_port: 80,
            host_port,
            host_ip: String::new(),
        };
        let mut config = PodSandboxConfig { port_mappings: vec![port(0), port(8080)], ..Default::default() };
        config.annotations.insert("kubernetes.io/ingress-bandwidth".to_owned(), "10M".to_owned());
        let cidrs = ["10.244.1.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()];
        let expected = json!({
            "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}],
            "bandwidth": {"ingressRate": 10_000_000, "ingressBurst": u32::MAX},
            "ipRanges": [[{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00::/64"}]],
            "io.kubernetes.cri.pod-annotations": {"kubernetes.io/ingress-bandwidth": "10M"},
        });
        assert_eq!(Value::Object(capabilities(&config, &cidrs)), expected);
        assert_eq!(capabilities(&PodSandboxConfig::default(), &[]).len(), 1);
    }
}
