//! The health check node ports of Services: load balancers check there whether this node has endpoints.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corten_api::value;
use corten_client::Key;
use corten_reconcile::{Event, Recorder};
use http::Response;
use tokio::task::JoinSet;

use super::{Handler, Health, bind, json, serve};

/// The open health check ports.
pub(crate) struct ServiceHealth {
    health: Arc<Health>,
    recorder: Recorder,
    node: String,
    open: HashMap<(bool, Key), Open>,
}

struct Open {
    port: u16,
    /// The number of ready endpoints on this node.
    endpoints: Arc<AtomicUsize>,
    /// Aborted when the port is closed.
    _listening: JoinSet<()>,
}

/// The health check ports of some Services, with their ready endpoints; `None` closes a Service's port.
pub(crate) type Checks = Vec<(Key, Option<(u16, usize)>)>;

impl ServiceHealth {
    pub(crate) fn new(health: Arc<Health>, recorder: Recorder, node: &str) -> ServiceHealth {
        ServiceHealth { health, recorder, node: node.to_owned(), open: HashMap::new() }
    }

    /// Opens and closes ports, and updates numbers of endpoints. `addresses` of `None` is every address of the node.
    pub(crate) fn change(&mut self, ipv4: bool, addresses: Option<&[IpAddr]>, checks: Checks) {
        for (service, check) in checks {
            let key = (ipv4, service.clone());
            let Some((port, endpoints)) = check else {
                self.open.remove(&key);
                continue;
            };
            if self.open.get(&key).is_some_and(|open| open.port != port) {
                self.open.remove(&key);
            }
            match self.open.get(&key) {
                Some(open) => open.endpoints.store(endpoints, Ordering::Relaxed),
                None => self.open(ipv4, addresses, service, (port, endpoints)),
            }
        }
    }

    fn open(&mut self, ipv4: bool, addresses: Option<&[IpAddr]>, service: Key, (port, count): (u16, usize)) {
        let any: IpAddr = if ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let endpoints = Arc::new(AtomicUsize::new(count));
        let handler = self.handler(&service, endpoints.clone());
        let mut listening = JoinSet::new();
        for address in addresses.unwrap_or(&[any]) {
            match bind(SocketAddr::new(*address, port)) {
                Ok(listener) => drop(listening.spawn(serve(listener, handler.clone()))),
                Err(err) => return self.report_bind_failure(&service, port, &err),
            }
        }
        self.open.insert((ipv4, service), Open { port, endpoints, _listening: listening });
    }

    fn handler(&self, service: &Key, endpoints: Arc<AtomicUsize>) -> Handler {
        let (service, health) = (service.clone(), self.health.clone());
        Arc::new(move |_| response(&service, endpoints.load(Ordering::Relaxed), health.is_healthy()))
    }

    fn report_bind_failure(&self, service: &Key, port: u16, err: &std::io::Error) {
        tracing::warn!(%service, port, %err, "cannot bind health check node port");
        let about = value!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": (service.namespace.clone()), "name": (service.name.clone())},
        });
        let node = &self.node;
        let message = format!("node {node} failed to start healthcheck \"{service}\" on port {port}: {err}");
        let reason = "FailedToStartServiceHealthcheck";
        self.recorder.record(Event::warning("kube-proxy", &about, reason, message));
    }
}

fn response(service: &Key, endpoints: usize, is_healthy: bool) -> Response<String> {
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{}\",\n\t\t\"name\": \"{}\"\n\t}},\n\t\"localEndpoints\": {endpoints},\n\t\"serviceProxyHealthy\": {is_healthy}\n}}",
        service.namespace, service.name
    );
    let mut response = json(endpoints > 0 && is_healthy, body);
    response.headers_mut().insert("x-load-balancing-endpoint-weight", endpoints.into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_healthy_node_with_endpoints_passes() {
        let code =
            |endpoints, is_healthy| response(&Key::new("n", "s"), endpoints, is_healthy).status().as_u16();
        assert_eq!([code(0, true), code(2, false), code(2, true)], [503, 503, 200]);
        let response = response(&Key::new("n", "s"), 2, true);
        let expected = concat!(
            "{\n\t\"service\": {\n\t\t\"namespace\": \"n\",\n\t\t\"name\": \"s\"\n\t},\n",
            "\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}"
        );
        assert_eq!(response.body(), expected);
        assert_eq!(response.headers()["x-load-balancing-endpoint-weight"], "2");
    }
}
