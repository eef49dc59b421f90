//! The cluster's settings for nodes: read at every start and kept on disk, so that a node starts while the server is
//! unreachable.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use corten_api::{Value, json};
use corten_base::{Backoff, Clock};
use corten_client::{Client, Error, Key, kinds};
use corten_net::peers::Between;

use crate::server::NODE_SETTINGS;

const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(10) };
const FILE: &str = "settings.json";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) cluster_dns: Vec<IpAddr>,
    pub(super) cluster_domain: String,
    /// True if nodes run DNS servers.
    pub(super) nodes_run_dns: bool,
    pub(super) between: Between,
}

impl Settings {
    pub(super) async fn fetch(client: &Client, folder: &Path, clock: &Clock) -> anyhow::Result<Settings> {
        let file = folder.join(FILE);
        let stored = std::fs::read(&file).ok().and_then(|text| json::parse(&text).ok());
        let mut failures = 0;
        loop {
            let fetched = client.get(&kinds::CONFIG_MAPS, &Key::new("kube-system", NODE_SETTINGS)).await;
            match (fetched, &stored) {
                (Ok(map), _) => {
                    corten_base::files::write_private(&file, json::write_to_string(&map))
                        .with_context(|| format!("cannot write {}", file.display()))?;
                    return Settings::of(&map);
                }
                (Err(Error::Transport(_)), Some(stored)) => return Settings::of(stored),
                (Err(error), _) => {
                    failures += 1;
                    tracing::warn!(err = %error, "cannot read the cluster's settings for nodes; retrying");
                    clock.sleep(RETRY.delay(failures)).await;
                }
            }
        }
    }

    fn of(map: &Value) -> anyhow::Result<Settings> {
        let text = |key: &str| map.str_at(&["data", key]).unwrap_or_default();
        let addresses = text("cluster-dns").split(',').filter(|address| !address.is_empty());
        let addresses: Result<Vec<IpAddr>, _> = addresses.map(str::parse).collect();
        Ok(Settings {
            cluster_dns: addresses.context("invalid cluster-dns in the cluster's settings for nodes")?,
            cluster_domain: text("cluster-domain").to_owned(),
            nodes_run_dns: text("dns") != "elsewhere",
            between: between(text("pod-network-backend")),
        })
    }
}

/// Parses `--pod-network-backend`.
pub(crate) fn between(backend: &str) -> Between {
    match backend {
        "direct" => Between::Direct,
        _ => Between::Vxlan,
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn settings_are_parsed() {
        let map = value!({"data": {
            "cluster-dns": "10.96.0.10,fd00::a", "cluster-domain": "cluster.local", "pod-network-backend": "direct"
        }});
        let settings = Settings::of(&map).unwrap();
        assert_eq!((settings.cluster_dns.len(), settings.cluster_domain.as_str()), (2, "cluster.local"));
        assert_eq!((settings.between, settings.nodes_run_dns), (Between::Direct, true));
        let other = value!({"data": {"cluster-dns": "10.96.0.10", "dns": "elsewhere"}});
        let other = Settings::of(&other).unwrap();
        assert_eq!((other.between, other.nodes_run_dns), (Between::Vxlan, false));
        assert!(Settings::of(&value!({"data": {"cluster-dns": "here"}})).is_err());
    }
}
