//! Each feature of Services, as entries and chains.

use super::*;
use crate::testing::routed;

/// All contents, one a line, without hashes.
fn lines(wanted: &Wanted) -> Vec<String> {
    let verdict = |verdict: &Option<Verdict>| match verdict {
        None => String::new(),
        Some(Verdict::Drop) => " : drop".to_owned(),
        Some(Verdict::Goto(chain)) => format!(" : goto {}", plain(chain)),
        Some(Verdict::Jump(chain)) => format!(" : jump {}", plain(chain)),
    };
    let entries = wanted.entries.iter().map(|(entry, wanted)| format!("{entry}{}", verdict(wanted)));
    let chains = wanted.chains.iter().flat_map(|(chain, rules)| {
        rules.iter().map(move |rule| format!("{} {}", plain(chain), plain(&format!("{rule:?}"))))
    });
    entries.chain(chains).collect()
}

fn plain(text: &str) -> String {
    let hash =
        |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    text.split('-').filter(|word| !hash(word)).collect::<Vec<_>>().join("-").replace("ns1/svc1/tcp/p80", "S")
}

#[track_caller]
fn check(routed: &Routed, expected: &[&str]) {
    assert_eq!(lines(&wanted(std::slice::from_ref(routed), "192.0.2.1".parse().ok())), expected);
}

#[test]
fn a_cluster_ip_is_redirected_to_endpoints() {
    check(
        &routed(|_| {}, &["10.244.0.2:8080", "10.244.1.2:8080"], &[]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "service-ips { 10.96.0.1 . tcp . 80 } : goto service-S",
            "service-S Redirect(Tcp, [10.244.0.2:8080, 10.244.1.2:8080])",
        ],
    );
}

#[test]
fn without_endpoints_everything_is_rejected() {
    let change = |port: &mut ServicePort| {
        port.node_port = Some(30080);
        port.external_ips = vec!["192.0.2.9".parse().unwrap()];
        port.external_local = true;
    };
    check(
        &routed(change, &[], &[]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "no-endpoint-services { 10.96.0.1 . tcp . 80 } : goto reject-chain",
            "no-endpoint-external-ips { 192.0.2.9 . tcp . 80 } : goto reject-chain",
            "no-endpoint-nodeports { tcp . 30080 } : goto reject-chain",
        ],
    );
}

#[test]
fn packets_from_outside_are_masqueraded() {
    let change = |port: &mut ServicePort| {
        port.node_port = Some(30080);
        port.external_ips = vec!["192.0.2.9".parse().unwrap()];
        port.load_balancer_ips = vec!["192.0.2.10".parse().unwrap()];
    };
    check(
        &routed(change, &["10.244.0.2:8080"], &[]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "service-ips { 10.96.0.1 . tcp . 80 } : goto service-S",
            "service-ips { 192.0.2.10 . tcp . 80 } : goto external-S",
            "external-ips { 192.0.2.9 . tcp . 80 } : goto external-S",
            "service-nodeports { tcp . 30080 } : goto external-S",
            "external-S Masquerade",
            "external-S Goto(\"service-S\")",
            "service-S Redirect(Tcp, [10.244.0.2:8080])",
        ],
    );
}

#[test]
fn external_local_keeps_sources_and_admits_the_cluster() {
    let change = |port: &mut ServicePort| {
        port.node_port = Some(30080);
        port.external_local = true;
    };
    check(
        &routed(change, &["10.244.0.2:8080", "10.244.1.2:8080"], &["10.244.0.2:8080"]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "service-ips { 10.96.0.1 . tcp . 80 } : goto service-S",
            "service-nodeports { tcp . 30080 } : goto external-S",
            "hairpin-connections { 10.244.0.2 . 10.244.0.2 . tcp . 8080 }",
            "external-S PodsGoto(\"service-S\")",
            "external-S MasqueradeOwn",
            "external-S OwnGoto(\"service-S\")",
            "external-S Goto(\"local-S\")",
            "local-S Redirect(Tcp, [10.244.0.2:8080])",
            "service-S Redirect(Tcp, [10.244.0.2:8080, 10.244.1.2:8080])",
        ],
    );
    check(
        &routed(change, &["10.244.1.2:8080"], &[]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "service-ips { 10.96.0.1 . tcp . 80 } : goto service-S",
            "no-endpoint-nodeports { tcp . 30080 } : drop",
            "service-nodeports { tcp . 30080 } : goto external-S",
            "external-S PodsGoto(\"service-S\")",
            "external-S MasqueradeOwn",
            "external-S OwnGoto(\"service-S\")",
            "service-S Redirect(Tcp, [10.244.1.2:8080])",
        ],
    );
}

#[test]
fn internal_local_drops_packets_without_local_endpoints() {
    let mut elsewhere = routed(|port| port.internal_local = true, &[], &[]);
    elsewhere.has_endpoints = true;
    check(&elsewhere, &["cluster-ips { 10.96.0.1 }", "no-endpoint-services { 10.96.0.1 . tcp . 80 } : drop"]);
    check(
        &routed(|port| port.internal_local = true, &[], &["10.244.0.2:8080"]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "service-ips { 10.96.0.1 . tcp . 80 } : goto local-S",
            "hairpin-connections { 10.244.0.2 . 10.244.0.2 . tcp . 8080 }",
            "local-S Redirect(Tcp, [10.244.0.2:8080])",
        ],
    );
}

#[test]
fn load_balancers_have_source_ranges() {
    let change = |port: &mut ServicePort| {
        port.load_balancer_ips = vec!["192.0.2.10".parse().unwrap()];
        port.source_ranges = vec!["198.51.100.0/24".parse().unwrap(), "192.0.2.0/30".parse().unwrap()];
    };
    check(
        &routed(change, &["10.244.0.2:8080"], &[]),
        &[
            "cluster-ips { 10.96.0.1 }",
            "service-ips { 10.96.0.1 . tcp . 80 } : goto service-S",
            "service-ips { 192.0.2.10 . tcp . 80 } : goto external-S",
            "firewall-ips { 192.0.2.10 . tcp . 80 } : goto firewall-S",
            "external-S Masquerade",
            "external-S Goto(\"service-S\")",
            "firewall-S Admit(Cidr { address: 198.51.100.0, prefix: 24 })",
            "firewall-S Admit(Cidr { address: 192.0.2.0, prefix: 30 })",
            "firewall-S Admit(Cidr { address: 192.0.2.10, prefix: 32 })",
            "firewall-S Drop",
            "service-S Redirect(Tcp, [10.244.0.2:8080])",
        ],
    );
}

#[test]
fn clients_have_affinity_to_endpoints() {
    let sticky =
        routed(|port| port.affinity = Some(Duration::from_secs(9)), &["10.244.0.2:80", "10.244.0.3:80"], &[]);
    let wanted = wanted(&[sticky], None);
    assert_eq!(wanted.affinity.len(), 2);
    let text = lines(&wanted);
    assert!(text.iter().any(|line| line.starts_with("endpoint-S__10.244.0.2/80 Remember")), "{text:#?}");
    assert!(
        text.iter().any(|line| line.starts_with("endpoint-S__10.244.0.2/80 Redirect(Tcp, [10.244.0.2:80])"))
    );
    let chain: Vec<&String> = text.iter().filter(|line| line.starts_with("service-S ")).collect();
    assert_eq!(chain.len(), 3, "{chain:#?}");
    assert!(chain[0].contains("Return") && chain[2].contains("GotoAny"), "{chain:#?}");
}
