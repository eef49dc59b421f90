//! DNS queries over real sockets.

mod world;

use std::time::Duration;

use corten_api::value;
use corten_dns::kind;
use world::{DEADLINE, World, namespace, service, slice};

fn addresses(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("10.244.{}.{}", at / 250, at % 250 + 1)).collect()
}

async fn world() -> World {
    World::new(&[
        namespace("default"),
        service(
            "web",
            value!({"clusterIP": "10.96.0.7", "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}),
        ),
        service(
            "db",
            value!({"clusterIP": "None", "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}),
        ),
        service("away", value!({"type": "ExternalName", "externalName": "db.example.com"})),
        ("endpointslices", slice("db", "1", &addresses(100))),
    ])
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn services_resolve_over_udp_and_tcp() {
    let world = world().await;
    let seen = world.query("web.default.svc.cluster.local", kind::A).await;
    assert_eq!((seen.code(), seen.count(1), seen.last_address()), (0, 1, [10, 96, 0, 7].into()));
    let queries = [("web.default.svc.cluster.local", kind::A), ("none.default.svc.cluster.local", kind::A)];
    let seen = world.query_over_tcp(&queries).await;
    assert_eq!((seen[0].code(), seen[0].last_address()), (0, [10, 96, 0, 7].into()));
    assert_eq!((seen[1].code(), seen[1].count(2)), (3, 1));
    let metrics = world.dns.metrics();
    for line in [
        "coredns_dns_requests_total{family=\"1\",proto=\"udp\",server=\"dns://:53\",type=\"A\",view=\"\",zone=\"cluster.local.\"} 1",
        "coredns_dns_requests_total{family=\"1\",proto=\"tcp\",server=\"dns://:53\",type=\"A\",view=\"\",zone=\"cluster.local.\"} 2",
        "coredns_dns_responses_total{plugin=\"kubernetes\",rcode=\"NXDOMAIN\",server=\"dns://:53\",view=\"\",zone=\"cluster.local.\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_over_the_size_limit_are_truncated() {
    let world = world().await;
    let name = "db.default.svc.cluster.local";
    let seen = world.query(name, kind::A).await;
    assert!(seen.is_truncated() && seen.0.len() <= 512, "{} octets", seen.0.len());
    let seen = world.query_with(name, kind::A, Some(4096)).await;
    assert_eq!((seen.is_truncated(), seen.count(1)), (false, 100));
    let seen = world.query_over_tcp(&[(name, kind::A)]).await;
    assert_eq!((seen[0].is_truncated(), seen[0].count(1)), (false, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_served_and_kept_without_an_api_server() {
    let mut world = world().await;
    world.send_event("endpointslices", &slice("db", "2", &addresses(1)));
    world.send_event(
        "services",
        &service("new", value!({"clusterIP": "10.96.0.9", "ports": [{"port": 1}]})).1,
    );
    let found = async {
        loop {
            let seen = world.query("new.default.svc.cluster.local", kind::A).await;
            if seen.code() != 3 {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(DEADLINE, found).await.expect("the new Service has a record");
    assert_eq!(seen.last_address(), std::net::Ipv4Addr::new(10, 96, 0, 9));
    world.disconnect();
    let seen = world.query("db.default.svc.cluster.local", kind::A).await;
    assert_eq!((seen.code(), seen.count(1)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_responses_are_cached() {
    let world = world().await;
    for name in ["www.example.com", "WWW.Example.com", "www.example.com"] {
        let seen = world.query(name, kind::A).await;
        assert_eq!((seen.code(), seen.last_address()), (0, [192, 0, 2, 1].into()));
        assert_eq!(&seen.0[..2], &[0, 9], "the client's own ID");
        assert_eq!(&seen.0[13..16], &name.as_bytes()[..3], "the client's own spelling");
    }
    assert_eq!(world.upstream.count(), 1);
    assert_eq!(world.query("nothing.invalid", kind::A).await.code(), 3);
    assert!(
        world.dns.metrics().contains(
            "coredns_cache_hits_total{type=\"success\",server=\"dns://:53\",view=\"\",zones=\".\"} 2"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn external_names_resolve_to_their_targets_addresses() {
    let world = world().await;
    let seen = world.query("away.default.svc.cluster.local", kind::A).await;
    assert_eq!((seen.code(), seen.count(1), seen.last_address()), (0, 2, [192, 0, 2, 1].into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_resolver_delays_only_forwarded_queries() {
    let world = world().await;
    *world.upstream.silent.lock().expect("no thread panicked") = true;
    let forwarded = world.query("www.example.com", kind::A);
    let own = async {
        for _ in 0..20 {
            assert_eq!(world.query("web.default.svc.cluster.local", kind::A).await.code(), 0);
        }
    };
    let (seen, ()) = tokio::join!(forwarded, own);
    assert_eq!(seen.code(), 2);
}
