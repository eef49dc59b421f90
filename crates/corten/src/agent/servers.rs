//! The API servers of the cluster, as the EndpointSlices of the Service `default/kubernetes` list them. The list is kept on disk,
//! so that an agent starts while the servers of its command line are down.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use corten_api::{Value, json};
use corten_client::{Caches, Object, Servers, kinds};
use tokio::sync::Notify;

const FILE: &str = "servers.json";
const NAMESPACE: &str = "default";

/// Uses the list of an earlier run. A damaged one is ignored, because the cluster has it.
pub(super) fn recall(servers: &Servers, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let Ok(text) = std::fs::read(&path) else { return Ok(()) };
    match json::parse(&text) {
        Ok(list) => {
            let addresses = list.as_array().unwrap_or_default().iter();
            let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
            servers.learn(&possible(addresses)).context("cannot connect to the cluster's servers")?;
        }
        Err(err) => {
            tracing::warn!(path = %path.display(), %err, "cannot read the list of API servers; ignoring it")
        }
    }
    Ok(())
}

/// Takes up every change of the list until this is dropped.
pub(super) async fn follow(servers: Servers, caches: Caches, folder: PathBuf) {
    // The proxy and the DNS server have the same cache.
    let slices = caches.of(&kinds::ENDPOINT_SLICES);
    let changed = Arc::new(Notify::new());
    let notify = changed.clone();
    slices.subscribe(move |change| {
        if lists_servers(change.object()) {
            notify.notify_one();
        }
    });
    loop {
        changed.notified().await;
        let own = slices.filter(NAMESPACE, lists_servers);
        let listed = possible(own.iter().flat_map(|slice| slice.with_tree(addresses)));
        match servers.learn(&listed) {
            Ok(true) => {
                tracing::info!(servers = ?listed, "API servers of the cluster");
                if let Err(err) = remember(&listed, &folder) {
                    tracing::warn!(err = format!("{err:#}"), "cannot keep the list of API servers");
                }
            }
            Ok(false) => {}
            Err(err) => tracing::error!(%err, "cannot connect to the cluster's servers"),
        }
    }
}

/// True for the EndpointSlices of the Service `default/kubernetes`: one for each IP family and port.
fn lists_servers(slice: &Object) -> bool {
    let service = slice.labels.get("kubernetes.io/service-name").and_then(Value::as_str);
    slice.key.namespace == NAMESPACE && service == Some("kubernetes")
}

fn remember(learned: &[SocketAddr], folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let list: Vec<Value> = learned.iter().map(|address| Value::from(address.to_string())).collect();
    corten_base::files::write_private(&path, json::write_to_string(&Value::from(list)))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The ready addresses of an EndpointSlice, at its port `https`.
fn addresses(slice: &Value) -> Vec<SocketAddr> {
    let mut ports = slice.items_at(&["ports"]).iter();
    let https = ports.find(|port| port.str_at(&["name"]) == Some("https"));
    let port = https.and_then(|port| port.int_at(&["port"])).and_then(|port| u16::try_from(port).ok());
    let Some(port) = port else { return Vec::new() };
    let endpoints = slice.items_at(&["endpoints"]).iter();
    let ready = endpoints.filter(|endpoint| endpoint.bool_at(&["conditions", "ready"]) != Some(false));
    let texts = ready.flat_map(|endpoint| endpoint.items_at(&["addresses"])).filter_map(Value::as_str);
    let addresses = texts.filter_map(|text| text.parse::<IpAddr>().ok());
    addresses.map(|address| SocketAddr::new(address, port)).collect()
}

/// The addresses that a server of another machine can have, sorted, each once.
fn possible(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let is_possible = |address: &SocketAddr| {
        let ip = address.ip();
        let is_link_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        address.port() != 0
            && !ip.is_loopback()
            && !ip.is_unspecified()
            && !ip.is_multicast()
            && !is_link_local
    };
    let unique: BTreeSet<SocketAddr> = addresses.filter(is_possible).collect();
    unique.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn ready_addresses_are_servers() {
        let endpoint = |address: &str, ready: Value| value!({"addresses": [(address)], "conditions": {"ready": (ready)}});
        let slice = |ports: Value| {
            value!({"ports": (ports), "endpoints": [
                (endpoint("192.0.2.1", true.into())), (endpoint("192.0.2.2", false.into())),
                (endpoint("2001:db8::3", Value::Null)), (endpoint("balancer.example.com", true.into()))
            ]})
        };
        let ports = value!([{"name": "metrics", "port": 1}, {"name": "https", "port": 6443}]);
        let listed: Vec<String> = addresses(&slice(ports)).iter().map(ToString::to_string).collect();
        assert_eq!(listed, ["192.0.2.1:6443", "[2001:db8::3]:6443"]);
        for bad in
            [value!([]), value!([{"name": "https", "port": 70000}]), value!([{"name": "http", "port": 80}])]
        {
            assert_eq!(addresses(&slice(bad)), []);
        }
    }

    #[test]
    fn addresses_that_no_server_can_have_are_ignored() {
        let bad = [
            "127.0.0.1:6443",
            "0.0.0.0:6443",
            "224.0.0.1:6443",
            "169.254.169.254:443",
            "255.255.255.255:1",
            "[::1]:6443",
            "[fe80::1]:6443",
            "[ff02::1]:6443",
            "192.0.2.1:0",
        ];
        let good = ["192.0.2.2:6443", "10.0.0.1:6443", "192.0.2.2:6443", "[2001:db8::1]:6443"];
        let all = bad.iter().chain(&good).map(|text| text.parse().unwrap());
        let possible: Vec<String> = possible(all).iter().map(ToString::to_string).collect();
        assert_eq!(possible, ["10.0.0.1:6443", "192.0.2.2:6443", "[2001:db8::1]:6443"]);
    }

    #[test]
    fn the_list_survives_a_restart_and_a_damaged_one_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let pki = tempfile::tempdir().unwrap();
        let now = std::time::SystemTime::now();
        let authority = corten_pki::Authority::load_or_create(pki.path(), "ca", "test", now).unwrap();
        let servers = || {
            let credentials = corten_pki::Credentials {
                server: String::new(),
                ca_pem: authority.pem().to_owned(),
                cert_pem: String::new(),
                key_pem: String::new(),
                token: None,
            };
            Servers::new(&["https://192.0.2.1:6443".to_owned()], credentials, "n").unwrap()
        };
        recall(&servers(), folder.path()).unwrap();
        let list: Vec<SocketAddr> =
            vec!["192.0.2.1:6443".parse().unwrap(), "192.0.2.2:6443".parse().unwrap()];
        remember(&list, folder.path()).unwrap();
        let restarted = servers();
        recall(&restarted, folder.path()).unwrap();
        assert!(!restarted.learn(&list).unwrap(), "the list is known");
        std::fs::write(folder.path().join(FILE), "[\"192.0").unwrap();
        recall(&servers(), folder.path()).unwrap();
    }
}
