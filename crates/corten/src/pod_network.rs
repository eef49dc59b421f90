//! The pod network of the native runtime: built-in, or CNI [`plugins`].

mod flags;
mod plugins;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use async_trait::async_trait;
use corten_api::Map;
use corten_container::native::network::{Network, PodNetwork};
use corten_container::{Error, PortMapping, Protocol, Result};
use corten_net::namespace::Namespace;
use corten_net::{Across, Cidr, HostPort, Options};
use corten_policy::Policies;

pub(crate) use flags::{PodNetworkFlags, PodNetworkKind};
pub(crate) use plugins::Plugins;

/// The bridge that pods are attached to.
pub(crate) const BRIDGE: &str = "corten0";

/// The built-in pod network, in this process' network namespace.
pub(crate) struct BuiltIn {
    network: Arc<corten_net::PodNetwork>,
    /// The enforcer of network policies, if they are enforced.
    policies: Option<Arc<Policies>>,
}

impl BuiltIn {
    /// Opens the network with the pods of earlier runs. `folder` keeps the allocated addresses.
    pub(crate) fn open(
        folder: PathBuf,
        across: Option<Across>,
        policies: Option<Arc<Policies>>,
    ) -> anyhow::Result<BuiltIn> {
        let namespace = Namespace::current().context("cannot open the network namespace")?;
        let options = Options { folder, bridge: BRIDGE.to_owned(), mtu: None, across };
        let network =
            corten_net::PodNetwork::open(options, namespace).context("cannot open the pod network")?;
        Ok(BuiltIn { network: Arc::new(network), policies })
    }

    /// The network itself, for routes to other nodes.
    pub(crate) fn network(&self) -> Arc<corten_net::PodNetwork> {
        self.network.clone()
    }

    /// Runs blocking work on a thread for it.
    async fn blocking<T: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&corten_net::PodNetwork) -> corten_net::Result<T> + Send + 'static,
    ) -> Result<T> {
        let network = self.network.clone();
        let done = tokio::task::spawn_blocking(move || work(&network)).await;
        let done = done.map_err(|error| Error::internal(doing, error))?;
        done.map_err(|error| Error::internal(doing, error))
    }
}

#[async_trait]
impl Network for BuiltIn {
    async fn attach(&self, pod: PodNetwork<'_>) -> Result<Vec<String>> {
        let sandbox = pod.sandbox_id.to_owned();
        let namespace = pod.namespace.to_owned();
        let ports = host_ports(&pod.config.port_mappings)?;
        let attach =
            move |network: &corten_net::PodNetwork| network.attach(&sandbox, Path::new(&namespace), &ports);
        let addresses = self.blocking("cannot set up the pod network", attach).await?;
        if let Some(policies) = &self.policies {
            let (metadata, labels) = (&pod.config.metadata, labels(&pod.config.labels));
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
        let sandbox = pod.sandbox_id.to_owned();
        self.blocking("cannot tear down the pod network", move |network| network.detach(&sandbox)).await
    }

    async fn not_ready(&self) -> Option<String> {
        self.network.not_ready()
    }

    fn set_pod_cidr(&self, pod_cidr: &str) {
        let cidrs = pod_cidr.split(',').map(str::trim).filter(|text| !text.is_empty());
        let cidrs: corten_net::Result<Vec<Cidr>> = cidrs.map(str::parse).collect();
        if let Err(error) = cidrs.and_then(|cidrs| self.network.set_pod_cidrs(&cidrs)) {
            let reason = Error::internal("cannot configure the pod CIDRs", error);
            tracing::warn!(pod_cidr, err = %reason, "cannot set up the pod network");
        }
    }
}

/// The labels of the pod object, without those that the kubelet adds.
fn labels(labels: &BTreeMap<String, String>) -> Map {
    let own = labels.iter().filter(|(key, _)| !key.starts_with("io.kubernetes."));
    own.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

/// The port mappings with a host port.
fn host_ports(mappings: &[PortMapping]) -> Result<Vec<HostPort>> {
    mappings.iter().filter(|mapping| mapping.host_port != 0).map(host_port).collect()
}

fn host_port(mapping: &PortMapping) -> Result<HostPort> {
    let host_ip = Some(mapping.host_ip.as_str()).filter(|ip| !ip.is_empty()).map(str::parse).transpose();
    let refused = |_| Error::InvalidArgument(format!("host IP {:?} is not an address", mapping.host_ip));
    Ok(HostPort {
        protocol: match mapping.protocol {
            Protocol::Tcp => corten_net::Protocol::Tcp,
            Protocol::Udp => corten_net::Protocol::Udp,
            Protocol::Sctp => corten_net::Protocol::Sctp,
        },
        host_ip: host_ip.map_err(refused)?,
        host_port: mapping.host_port,
        pod_port: mapping.container_port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(host_port: u16, host_ip: &str) -> PortMapping {
        PortMapping { protocol: Protocol::Udp, container_port: 53, host_port, host_ip: host_ip.to_owned() }
    }

    #[test]
    fn only_ports_of_the_node_are_mapped() {
        let ports = host_ports(&[mapping(0, ""), mapping(5353, ""), mapping(5354, "192.0.2.1")]).unwrap();
        let seen: Vec<_> = ports.iter().map(|port| (port.host_port, port.host_ip)).collect();
        assert_eq!(seen, [(5353, None), (5354, Some([192, 0, 2, 1].into()))]);
        assert_eq!((ports[0].protocol, ports[0].pod_port), (corten_net::Protocol::Udp, 53));
        assert!(matches!(host_ports(&[mapping(1, "here")]), Err(Error::InvalidArgument(_))));
    }
}
