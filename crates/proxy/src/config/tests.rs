use corten_api::yaml;

use super::*;

fn read(text: &str) -> Result<Config, ConfigError> {
    let whole = format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{text}");
    Config::of(&yaml::to_value(whole.as_bytes(), &mut Vec::new()).unwrap())
}

#[test]
fn an_empty_configuration_has_the_defaults() {
    assert_eq!(read("").unwrap(), Config::default());
    // As upstream's own tool writes its defaults.
    let zeros = "bindAddress: 0.0.0.0\nclusterCIDR: \"\"\nmode: \"\"\nnodePortAddresses: null\nnftables:\n  syncPeriod: 0s\n";
    assert_eq!(read(zeros).unwrap(), Config::default());
}

#[test]
fn every_field_is_read() {
    let config = read(concat!(
        "mode: iptables\nhostnameOverride: n1\nclusterCIDR: 10.244.0.0/16,fd00::/48\n",
        "clientConnection: {kubeconfig: /k}\nhealthzBindAddress: 127.0.0.1\nmetricsBindAddress: \"[::1]:9000\"\n",
        "iptables: {masqueradeAll: true, masqueradeBit: 4, minSyncPeriod: 2s, syncPeriod: 1m, localhostNodePorts: false}\n",
        "nodePortAddresses: [192.0.2.0/24]\nconntrack: {maxPerCore: 0, tcpEstablishedTimeout: 2h}\n",
    ))
    .unwrap();
    assert_eq!((config.mode, config.hostname_override.as_str()), (Mode::Iptables, "n1"));
    let cluster = vec!["10.244.0.0/16".parse().unwrap(), "fd00::/48".parse().unwrap()];
    assert_eq!(config.detect_local, DetectLocal::ClusterCidr(cluster));
    assert_eq!(config.healthz, Some("127.0.0.1:10256".parse().unwrap()));
    assert_eq!(config.metrics, Some("[::1]:9000".parse().unwrap()));
    assert!(config.masquerade_all && config.masquerade_bit == 4 && !config.localhost_node_ports);
    assert_eq!((config.min_sync_period.as_secs(), config.sync_period.as_secs()), (2, 60));
    assert_eq!(config.node_port_addresses, ["192.0.2.0/24".parse().unwrap()]);
    assert_eq!((config.conntrack.max_per_core, config.conntrack.tcp_established.as_secs()), (0, 7200));
}

#[test]
fn local_pods_are_detected_as_configured() {
    let detect = |text: &str| read(text).unwrap().detect_local;
    assert_eq!(detect("detectLocalMode: NodeCIDR"), DetectLocal::NodeCidr);
    let bridge = "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cbr0}";
    assert_eq!(detect(bridge), DetectLocal::BridgeInterface("cbr0".to_owned()));
    let prefix = "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}";
    assert_eq!(detect(prefix), DetectLocal::InterfaceNamePrefix("veth".to_owned()));
    assert!(read("nodePortAddresses: [primary]").unwrap().node_port_primary);
}

#[track_caller]
fn refused(text: &str, field: &str) {
    let refused = read(text);
    assert!(
        matches!(&refused, Err(ConfigError::Invalid { field: found, .. }) if found == field),
        "{refused:?}"
    );
}

#[test]
fn invalid_fields_are_named() {
    refused("mode: ipvs", "mode");
    refused("clusterCIDR: here", "clusterCIDR");
    refused("nftables: {masqueradeBit: 32}", "nftables.masqueradeBit");
    refused("nftables: {syncPeriod: often}", "nftables.syncPeriod");
    refused("detectLocalMode: BridgeInterface", "detectLocal.bridgeInterface");
    refused("nodePortAddresses: [192.0.2.1]", "nodePortAddresses");
    refused("healthzBindAddress: somewhere", "healthzBindAddress");
    let other = yaml::to_value(b"apiVersion: v1\nkind: Pod\n", &mut Vec::new()).unwrap();
    assert!(matches!(Config::of(&other), Err(ConfigError::NotAConfiguration { .. })));
}
