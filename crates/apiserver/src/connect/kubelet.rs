//! The address of a node's kubelet, and the TLS configuration of connections to kubelets.

use std::sync::Arc;

use corten_api::{Status, Value};
use corten_pki::{AcceptAnyCertificate, LiveCertificate, ServerPki};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;

use super::backend::ProxyBackend;
use crate::call::Call;

const DEFAULT_PORT: i64 = 10250;
/// The order of address types: addresses are more likely to be reachable than names.
const PREFERRED: [&str; 5] = ["InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS"];

/// A failure to configure TLS for kubelet connections.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot use kubelet client certificate")]
    Certificate(#[source] rustls::Error),
}

/// The TLS configuration of connections to kubelets and proxied servers.
pub(crate) struct Kubelets {
    checked: Arc<ClientConfig>,
    /// For requests with `insecureSkipTLSVerifyBackend`.
    unchecked: Arc<ClientConfig>,
    /// For servers in pods and behind services, whose CA is unknown.
    any_certificate: Arc<ClientConfig>,
}

impl Kubelets {
    pub(crate) fn new(pki: &ServerPki) -> Result<Kubelets, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let any = Arc::new(AcceptAnyCertificate::new(&provider));
        let own = Some(&pki.live.kubelet_client);
        let authorities = Arc::new(pki.live.authorities.clone());
        Ok(Kubelets {
            checked: Arc::new(config(&provider, authorities, own)?),
            unchecked: Arc::new(config(&provider, any.clone(), own)?),
            any_certificate: Arc::new(config(&provider, any, None)?),
        })
    }

    pub(super) fn any_certificate(&self) -> Arc<ClientConfig> {
        self.any_certificate.clone()
    }

    /// The kubelet at the address in a node's status, if it has one.
    pub(crate) fn of_node(&self, node: &Value) -> Option<ProxyBackend> {
        node.int_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).filter(|port| *port > 0)?;
        let (host, port) = address(node).ok()?;
        Some(ProxyBackend { host, port, resolved: Vec::new(), tls: Some(self.checked.clone()) })
    }

    /// The kubelet of a node.
    pub(super) fn find(&self, call: &Call, node: &str, check: bool) -> Result<ProxyBackend, Status> {
        let missing = || Status::not_found("", "nodes", node);
        let nodes = call.backend.catalog.cache("", "nodes").ok_or_else(missing)?;
        let tree = nodes.get("", node).ok_or_else(missing)?.tree();
        let (host, port) = address(&tree).map_err(Status::unexplained)?;
        let tls = if check { &self.checked } else { &self.unchecked };
        Ok(ProxyBackend { host, port, resolved: Vec::new(), tls: Some(tls.clone()) })
    }
}

fn config(
    provider: &Arc<CryptoProvider>,
    verifier: Arc<dyn rustls::client::danger::ServerCertVerifier>,
    certificate: Option<&LiveCertificate>,
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Certificate)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match certificate {
        Some(certificate) => builder.with_client_cert_resolver(Arc::new(certificate.clone())),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The address and port of the kubelet in a node's status.
fn address(node: &Value) -> Result<(String, u16), String> {
    let addresses = node.items_at(&["status", "addresses"]);
    let of = |kind: &str| {
        let mut found = addresses.iter().filter(|address| address.str_at(&["type"]) == Some(kind));
        found.find_map(|address| address.str_at(&["address"]).filter(|text| !text.is_empty()))
    };
    let host = PREFERRED.into_iter().find_map(of);
    let host =
        host.ok_or_else(|| format!("no preferred addresses found; known addresses: {:?}", kinds(node)))?;
    let port = node.int_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
    let port = port.filter(|port| *port > 0).unwrap_or(DEFAULT_PORT);
    Ok((host.to_owned(), u16::try_from(port).map_err(|_| format!("invalid port {port}"))?))
}

fn kinds(node: &Value) -> Vec<&str> {
    node.items_at(&["status", "addresses"]).iter().filter_map(|address| address.str_at(&["type"])).collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn addresses_and_ports() {
        let node = value!({"status": {
            "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 4711}},
        }});
        assert_eq!(address(&node), Ok(("10.0.0.1".to_owned(), 4711)));
        let named = value!({"status": {"addresses": [{"type": "Hostname", "address": "n"}]}});
        assert_eq!(address(&named), Ok(("n".to_owned(), 10250)));
        assert!(address(&value!({})).is_err());
    }
}
