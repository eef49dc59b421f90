//! The health-check node ports of Services: load balancers ask there whether this node has endpoints.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corten_api::value;
use corten_client::Key;
use corten_reconcile::{Event, Recorder};
use tokio::task::JoinSet;

use super::{Answer, Answers, Health, bind, serve};

/// Whom each family of a Service is served by.
pub(crate) struct ServiceHealth {
    health: Arc<Health>,
    recorder: Recorder,
    node: String,
    open: HashMap<(bool, Key), Open>,
}

struct Open {
    port: u16,
    /// How many endpoints are ready on this node.
    endpoints: Arc<AtomicUsize>,
    /// Ends with it.
    _listening: JoinSet<()>,
}

/// What is to be told of some Services: at which port, and how many endpoints there are.
pub(crate) type Checks = Vec<(Key, Option<(u16, usize)>)>;

impl ServiceHealth {
    pub(crate) fn new(health: Arc<Health>, recorder: Recorder, node: &str) -> ServiceHealth {
        ServiceHealth { health, recorder, node: node.to_owned(), open: HashMap::new() }
    }

    /// Opens and closes ports, and takes note of numbers. `None` is every address of the node.
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
        let answers = self.answers(&service, endpoints.clone());
        let mut listening = JoinSet::new();
        for address in addresses.unwrap_or(&[any]) {
            match bind(SocketAddr::new(*address, port)) {
                Ok(listener) => drop(listening.spawn(serve(listener, answers.clone()))),
                Err(error) => return self.complain(&service, port, &error),
            }
        }
        self.open.insert((ipv4, service), Open { port, endpoints, _listening: listening });
    }

    fn answers(&self, service: &Key, endpoints: Arc<AtomicUsize>) -> Answers {
        let (service, health) = (service.clone(), self.health.clone());
        Arc::new(move |_| answer(&service, endpoints.load(Ordering::Relaxed), health.is_healthy()))
    }

    fn complain(&self, service: &Key, port: u16, error: &std::io::Error) {
        tracing::warn!(%service, port, %error, "a health check port cannot be opened");
        let about = value!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": (service.namespace.clone()), "name": (service.name.clone())},
        });
        let node = &self.node;
        let message =
            format!("node {node} failed to start healthcheck \"{service}\" on port {port}: {error}");
        let reason = "FailedToStartServiceHealthcheck";
        self.recorder.record(Event::warning("kube-proxy", &about, reason, message));
    }
}

fn answer(service: &Key, endpoints: usize, is_healthy: bool) -> Answer {
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": \"{}\",\n\t\t\"name\": \"{}\"\n\t}},\n\t\"localEndpoints\": {endpoints},\n\t\"serviceProxyHealthy\": {is_healthy}\n}}",
        service.namespace, service.name
    );
    let mut answer = Answer::json(endpoints > 0 && is_healthy, body);
    answer.headers.push(("x-load-balancing-endpoint-weight", endpoints.to_string()));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_healthy_node_with_endpoints_is_well() {
        let code = |endpoints, is_healthy| answer(&Key::new("n", "s"), endpoints, is_healthy).code;
        assert_eq!([code(0, true), code(2, false), code(2, true)], [503, 503, 200]);
        let answer = answer(&Key::new("n", "s"), 2, true);
        let expected = concat!(
            "{\n\t\"service\": {\n\t\t\"namespace\": \"n\",\n\t\t\"name\": \"s\"\n\t},\n",
            "\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}"
        );
        assert_eq!(answer.body, expected);
        assert!(answer.headers.contains(&("x-load-balancing-endpoint-weight", "2".to_owned())));
    }
}
