use corten_api::{Value, value};

use super::*;

fn service(spec: Value) -> Value {
    value!({"metadata": {"name": "s", "namespace": "n"}, "spec": (spec)})
}

fn ports(tree: &Value, ipv4: bool) -> Vec<ServicePort> {
    let key = Key::new("n", "s");
    Service::of(tree).map(|service| service.ports(&key, ipv4).collect()).unwrap_or_default()
}

#[test]
fn services_without_an_address_are_not_proxied() {
    let port = || value!([{"port": 80}]);
    assert_eq!(Service::of(&service(value!({"clusterIP": "None", "ports": (port())}))), None);
    assert_eq!(Service::of(&service(value!({"clusterIP": "", "ports": (port())}))), None);
    let named = value!({"type": "ExternalName", "clusterIP": "10.0.0.1", "externalName": "example.com"});
    assert_eq!(Service::of(&service(named)), None);
    assert!(Service::of(&service(value!({"clusterIP": "10.0.0.1", "ports": (port())}))).is_some());
}

#[test]
fn services_of_other_proxies_are_ignored() {
    for label in [OTHER_PROXY, HEADLESS] {
        let mut labeled = service(value!({"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}));
        labeled.set(&["metadata", "labels", label], "");
        assert_eq!(Service::of(&labeled), None, "{label}");
    }
}

#[test]
fn each_family_has_its_own_addresses() {
    let tree = service(value!({
        "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
        "externalIPs": ["192.0.2.9", "2001:db8::9"],
        "loadBalancerSourceRanges": [" 198.51.100.0/24 ", "2001:db8:1::/48"],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "nodePort": 30053}],
    }));
    let v4 = ports(&tree, true);
    assert_eq!((v4.len(), v4[0].cluster_ip), (1, "10.0.0.1".parse().unwrap()));
    assert_eq!(v4[0].external_ips, ["192.0.2.9".parse::<IpAddr>().unwrap()]);
    assert_eq!(v4[0].source_ranges, ["198.51.100.0/24".parse().unwrap()], "blanks are no harm");
    assert_eq!((v4[0].port, v4[0].node_port, v4[0].name.protocol), (53, Some(30053), Protocol::Udp));
    let v6 = ports(&tree, false);
    assert_eq!(v6[0].cluster_ip, "fd00::1".parse::<IpAddr>().unwrap());
    assert_eq!(v6[0].source_ranges, ["2001:db8:1::/48".parse().unwrap()]);
    assert!(ports(&service(value!({"clusterIP": "10.0.0.1", "ports": [{"port": 1}]})), false).is_empty());
}

#[test]
fn only_vip_addresses_of_load_balancers_are_proxied() {
    let mut tree =
        service(value!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": [{"port": 80}]}));
    tree.set(
        &["status", "loadBalancer", "ingress"],
        value!([
            {"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "ipMode": "VIP"}, {"ip": "192.0.2.3", "ipMode": "Proxy"},
            {"hostname": "example.com"},
        ]),
    );
    let found = ports(&tree, true)[0].load_balancer_ips.clone();
    assert_eq!(found, ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap()));
}

#[test]
fn a_source_range_of_all_addresses_is_no_restriction() {
    let tree = service(value!({
        "clusterIP": "10.0.0.1", "ports": [{"port": 80}],
        "loadBalancerSourceRanges": ["198.51.100.0/24", "0.0.0.0/0"],
    }));
    assert!(ports(&tree, true)[0].source_ranges.is_empty());
}

#[track_caller]
fn check_policies(spec: Value, internal_local: bool, external_local: bool, health_check_port: Option<u16>) {
    let service = Service::of(&service(spec)).unwrap();
    assert_eq!(
        (service.internal_local, service.external_local, service.health_check_port()),
        (internal_local, external_local, health_check_port)
    );
}

#[test]
fn traffic_policies_apply_where_upstream_applies_them() {
    let local = |kind: &str| {
        value!({
            "type": (kind), "clusterIP": "10.0.0.1", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30100,
        })
    };
    check_policies(local("ClusterIP"), false, false, None);
    check_policies(local("NodePort"), false, true, None);
    check_policies(local("LoadBalancer"), false, true, Some(30100));
    let mut by_ip = local("ClusterIP");
    by_ip.set(&["externalIPs"], vec![Value::from("192.0.2.1")]);
    check_policies(by_ip, false, true, None);
    check_policies(value!({"clusterIP": "10.0.0.1", "internalTrafficPolicy": "Local"}), true, false, None);
    let cluster = value!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "healthCheckNodePort": 30100});
    check_policies(cluster, false, false, None);
}

#[test]
fn affinity_has_the_configured_timeout() {
    let sticky = value!({
        "clusterIP": "10.0.0.1", "ports": [{"port": 80}], "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
    });
    assert_eq!(ports(&service(sticky), true)[0].affinity, Some(Duration::from_secs(60)));
    let none = value!({"clusterIP": "10.0.0.1", "ports": [{"port": 80}], "sessionAffinity": "None"});
    assert_eq!(ports(&service(none), true)[0].affinity, None);
}

#[test]
fn ports_times_external_addresses_are_limited() {
    let tree = |ports: i64, ips: usize| {
        let ports: Vec<Value> =
            (1..=ports).map(|port| value!({"name": (format!("p{port}")), "port": (port)})).collect();
        let ips: Vec<Value> =
            (0..ips).map(|i| Value::from(format!("192.0.{}.{}", i / 250, i % 250))).collect();
        service(value!({
            "clusterIP": "10.0.0.1", "ports": (ports), "externalIPs": (ips),
            "loadBalancerSourceRanges": ["198.51.100.0/24"],
        }))
    };
    let entries =
        |tree: &Value| -> usize { ports(tree, true).iter().map(|port| port.external_ips.len()).sum() };
    assert_eq!(entries(&tree(100, 900)), 90_000);
    let many = tree(4_000, 4_000);
    assert_eq!(entries(&many), 0, "sixteen millions are none");
    assert_eq!(ports(&many, true).len(), 4_000, "it is still reached within the cluster");
    assert!(Service::of(&many).is_some_and(|service| !service.has_outside_addresses()));
}
