//! The DNS configuration of a pod.

use std::path::Path;

use corten_api::Value;
use corten_container::DnsConfig;

use crate::pod::{HostNamespace, Pod};

/// The limits of Linux resolvers.
const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;

/// The resolver configurations of the cluster and the node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resolver {
    /// The addresses of the cluster's DNS servers, if it has any.
    pub(crate) cluster_servers: Vec<String>,
    pub(crate) cluster_domain: String,
    /// The node's own resolver configuration.
    pub(crate) node: DnsConfig,
}

impl Resolver {
    /// Reads the resolver configuration of the node; an empty one if it cannot be read.
    pub(crate) fn read_node(file: &Path) -> DnsConfig {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let mut config = DnsConfig::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let rest = |words: std::str::SplitWhitespace<'_>| words.map(str::to_owned).collect::<Vec<_>>();
            match words.next() {
                Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
                Some("search") => config.searches = rest(words),
                Some("options") => config.options = rest(words),
                _ => {}
            }
        }
        config
    }

    /// The resolver configuration of a pod, by its `dnsPolicy` and `dnsConfig`.
    pub(crate) fn of_pod(&self, pod: &Pod) -> DnsConfig {
        let policy = pod.tree().str_at(&["spec", "dnsPolicy"]).unwrap_or("ClusterFirst");
        let on_host = pod.uses_host(HostNamespace::Network);
        let cluster = match policy {
            "ClusterFirst" => !on_host,
            "ClusterFirstWithHostNet" => true,
            _ => false,
        };
        let mut config = match policy {
            "None" => DnsConfig::default(),
            _ if cluster && !self.cluster_servers.is_empty() => self.of_cluster(pod.namespace()),
            _ => self.node.clone(),
        };
        if let Some(own) = pod.tree().at(&["spec", "dnsConfig"]) {
            add(&mut config, own);
        }
        limit(&mut config);
        config
    }

    fn of_cluster(&self, namespace: &str) -> DnsConfig {
        let domain = &self.cluster_domain;
        let mut searches = match domain.is_empty() {
            true => Vec::new(),
            false => vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()],
        };
        searches.extend(self.node.searches.iter().cloned());
        without_doubles(&mut searches);
        DnsConfig { servers: self.cluster_servers.clone(), searches, options: vec!["ndots:5".to_owned()] }
    }
}

/// Adds a pod's `dnsConfig`. Options of the same name are replaced.
fn add(config: &mut DnsConfig, own: &Value) {
    let texts = |key: &str| -> Vec<String> {
        own.items_at(&[key]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    config.servers.extend(texts("nameservers"));
    config.searches.extend(texts("searches"));
    without_doubles(&mut config.servers);
    without_doubles(&mut config.searches);
    for option in own.items_at(&["options"]) {
        let name = option.str_at(&["name"]).unwrap_or_default();
        config.options.retain(|known| known.split(':').next() != Some(name));
        match option.str_at(&["value"]) {
            Some(value) => config.options.push(format!("{name}:{value}")),
            None => config.options.push(name.to_owned()),
        }
    }
}

fn without_doubles(texts: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::new();
    texts.retain(|text| seen.insert(text.clone()));
}

fn limit(config: &mut DnsConfig) {
    config.servers.truncate(MAX_SERVERS);
    config.searches.truncate(MAX_SEARCHES);
    while config.searches.join(" ").len() > MAX_SEARCH_CHARACTERS {
        config.searches.pop();
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    fn of(spec: Value) -> DnsConfig {
        let resolver = Resolver {
            cluster_servers: vec!["10.96.0.10".into()],
            cluster_domain: "cluster.local".into(),
            node: DnsConfig {
                servers: vec!["1.1.1.1".into()],
                searches: vec!["lan".into()],
                options: vec!["rotate".into()],
            },
        };
        let tree = value!({"metadata": {"name": "p", "namespace": "shop"}, "spec": (spec)});
        resolver.of_pod(&Pod::new(tree, Source::Api))
    }

    #[test]
    fn dns_policies_choose_the_servers() {
        let cluster = of(value!({"dnsPolicy": "ClusterFirst"}));
        assert_eq!(cluster.servers, ["10.96.0.10"]);
        assert_eq!(cluster.searches, ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"]);
        assert_eq!(cluster.options, ["ndots:5"]);
        assert_eq!(of(value!({"dnsPolicy": "ClusterFirst", "hostNetwork": true})).servers, ["1.1.1.1"]);
        let with_host = value!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true});
        assert_eq!(of(with_host).servers, ["10.96.0.10"]);
        assert_eq!(of(value!({"dnsPolicy": "Default"})).options, ["rotate"]);
        let own = value!({"nameservers": ["9.9.9.9"], "searches": ["x"], "options": [{"name": "ndots", "value": "2"}]});
        assert_eq!(
            of(value!({"dnsPolicy": "None", "dnsConfig": (own.clone())})),
            DnsConfig {
                servers: vec!["9.9.9.9".into()],
                searches: vec!["x".into()],
                options: vec!["ndots:2".into()]
            }
        );
        let both = of(value!({"dnsPolicy": "ClusterFirst", "dnsConfig": (own)}));
        assert_eq!(both.servers, ["10.96.0.10", "9.9.9.9"]);
        assert_eq!(both.options, ["ndots:2"]);
    }
}
