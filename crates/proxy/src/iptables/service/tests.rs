//! Each feature of Services, as rules.

use std::time::Duration;

use super::*;
use crate::testing::{base, routed};

const ONE: &str = "10.244.0.2:8080";
const TWO: &str = "10.244.1.2:8080";

/// All rules, one a line, without hashes.
fn lines(routed: &Routed) -> Vec<String> {
    let wanted = wanted(std::slice::from_ref(routed), &base());
    let shared = wanted
        .shared
        .iter()
        .flat_map(|(chain, rules)| rules.iter().map(move |rule| format!("{chain:?} {rule}")));
    let own =
        wanted.own.iter().flat_map(|(chain, rules)| rules.iter().map(move |rule| format!("{chain} {rule}")));
    let plain = |line: String| -> String {
        let word = |word: &str| match word.rsplit_once('-') {
            Some((kind, hash)) if hash.len() == 16 && kind.starts_with("KUBE-") => kind.to_owned(),
            _ => word.to_owned(),
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ")
    };
    shared.chain(own).map(plain).collect()
}

#[track_caller]
fn check(routed: &Routed, expected: &[&str]) {
    assert_eq!(lines(routed), expected);
}

#[test]
fn a_cluster_ip_is_redirected_to_endpoints() {
    check(
        &routed(|_| {}, &[ONE, TWO], &[ONE]),
        &[
            "NatServices -m comment --comment \"ns1/svc1:p80 cluster IP\" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j KUBE-SVC",
            "KUBE-SEP -s 10.244.0.2 -j KUBE-MARK-MASQ",
            "KUBE-SEP -m tcp -p tcp -j DNAT --to-destination 10.244.0.2:8080",
            "KUBE-SEP -s 10.244.1.2 -j KUBE-MARK-MASQ",
            "KUBE-SEP -m tcp -p tcp -j DNAT --to-destination 10.244.1.2:8080",
            "KUBE-SVC -m comment --comment \"ns1/svc1:p80 cluster IP\" -m tcp -p tcp -d 10.96.0.1 --dport 80 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ",
            "KUBE-SVC -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP",
            "KUBE-SVC -j KUBE-SEP",
        ],
    );
}

#[test]
fn without_endpoints_everything_is_rejected() {
    let change = |port: &mut ServicePort| {
        port.node_port = Some(30080);
        port.external_ips = vec!["192.0.2.9".parse().unwrap()];
    };
    check(
        &routed(change, &[], &[]),
        &[
            "FilterServices -m comment --comment \"ns1/svc1:p80 has no endpoints\" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j REJECT",
            "FilterExternalServices -m comment --comment \"ns1/svc1:p80 has no endpoints\" -m tcp -p tcp -d 192.0.2.9 --dport 80 -m addrtype ! --dst-type LOCAL -j REJECT",
            "FilterExternalServices -m comment --comment \"ns1/svc1:p80 has no endpoints\" -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j REJECT",
        ],
    );
}

#[test]
fn external_local_keeps_sources_and_admits_the_cluster() {
    let change = |port: &mut ServicePort| {
        port.node_port = Some(30080);
        port.external_local = true;
        port.health_check_port = Some(31000);
    };
    let all = lines(&routed(change, &[ONE, TWO], &[ONE]));
    for rule in [
        "FilterNodePorts -m comment --comment \"ns1/svc1:p80 health check node port\" -m tcp -p tcp --dport 31000 -j ACCEPT",
        "NatNodePorts -m comment --comment \"ns1/svc1:p80\" -m tcp -p tcp --dport 30080 -j KUBE-EXT",
        "KUBE-EXT -m comment --comment \"pod traffic for ns1/svc1:p80 external destinations\" -s 10.244.0.0/16 -j KUBE-SVC",
        "KUBE-EXT -m comment --comment \"masquerade LOCAL traffic for ns1/svc1:p80 external destinations\" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ",
        "KUBE-EXT -m comment --comment \"route LOCAL traffic for ns1/svc1:p80 external destinations\" -m addrtype --src-type LOCAL -j KUBE-SVC",
        "KUBE-EXT -j KUBE-SVL",
        "KUBE-SVL -j KUBE-SEP",
    ] {
        assert!(all.iter().any(|found| found == rule), "{rule} is not in\n{all:#?}");
    }
    let elsewhere = lines(&routed(change, &[TWO], &[]));
    assert!(
        elsewhere.iter().any(|rule| rule.starts_with("FilterExternalServices") && rule.ends_with("-j DROP"))
    );
    assert!(!elsewhere.iter().any(|rule| rule.contains("KUBE-SVL")));
}

#[test]
fn load_balancers_have_source_ranges() {
    let change = |port: &mut ServicePort| {
        port.load_balancer_ips = vec!["192.0.2.10".parse().unwrap()];
        port.source_ranges = vec!["198.51.100.0/24".parse().unwrap(), "192.0.2.0/30".parse().unwrap()];
    };
    let all = lines(&routed(change, &[ONE], &[]));
    for rule in [
        "FilterFirewall -m comment --comment \"ns1/svc1:p80 traffic not accepted by KUBE-FW-XPGD46QRK7WJZT7O\" -m tcp -p tcp -d 192.0.2.10 --dport 80 -j DROP",
        "NatServices -m comment --comment \"ns1/svc1:p80 loadbalancer IP\" -m tcp -p tcp -d 192.0.2.10 --dport 80 -j KUBE-FW",
        "KUBE-FW -m comment --comment \"ns1/svc1:p80 loadbalancer IP\" -s 198.51.100.0/24 -j KUBE-EXT",
        "KUBE-FW -m comment --comment \"ns1/svc1:p80 loadbalancer IP\" -s 192.0.2.10 -j KUBE-EXT",
    ] {
        assert!(all.iter().any(|found| found == rule), "{rule} is not in\n{all:#?}");
    }
}

#[test]
fn clients_have_affinity_to_endpoints() {
    let sticky = routed(|port| port.affinity = Some(Duration::from_secs(9)), &[ONE], &[]);
    let all = lines(&sticky);
    for rule in [
        "KUBE-SVC -m recent --name KUBE-SEP --rcheck --seconds 9 --reap -j KUBE-SEP",
        "KUBE-SEP -m recent --name KUBE-SEP --set -m tcp -p tcp -j DNAT --to-destination 10.244.0.2:8080",
    ] {
        assert!(all.iter().any(|found| found == rule), "{rule} is not in\n{all:#?}");
    }
}
