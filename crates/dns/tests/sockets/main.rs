//! Real questions over real sockets.

mod world;

use std::time::Duration;

use corten_api::value;
use corten_dns::kind;
use world::{World, namespace, service, slice};

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
async fn services_are_answered_over_udp_and_tcp() {
    let world = world().await;
    let seen = world.ask("web.default.svc.cluster.local", kind::A).await;
    assert_eq!((seen.code(), seen.count(1), seen.last_address()), (0, 1, [10, 96, 0, 7].into()));
    let questions = [("web.default.svc.cluster.local", kind::A), ("none.default.svc.cluster.local", kind::A)];
    let seen = world.ask_over_tcp(&questions).await;
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
async fn long_answers_are_cut_off_unless_they_may_be_long() {
    let world = world().await;
    let name = "db.default.svc.cluster.local";
    let seen = world.ask(name, kind::A).await;
    assert!(seen.is_cut_off() && seen.0.len() <= 512, "{} octets", seen.0.len());
    let seen = world.ask_with(name, kind::A, Some(4096)).await;
    assert_eq!((seen.is_cut_off(), seen.count(1)), (false, 100));
    let seen = world.ask_over_tcp(&[(name, kind::A)]).await;
    assert_eq!((seen[0].is_cut_off(), seen[0].count(1)), (false, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_answered_and_stay_known_without_a_server() {
    let mut world = world().await;
    world.tell("endpointslices", &slice("db", "2", &addresses(1)));
    world.tell("services", &service("new", value!({"clusterIP": "10.96.0.9", "ports": [{"port": 1}]})).1);
    let mut seen = world.ask("new.default.svc.cluster.local", kind::A).await;
    while seen.code() == 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        seen = world.ask("new.default.svc.cluster.local", kind::A).await;
    }
    assert_eq!(seen.last_address(), std::net::Ipv4Addr::new(10, 96, 0, 9));
    world.cut_off();
    let seen = world.ask("db.default.svc.cluster.local", kind::A).await;
    assert_eq!((seen.code(), seen.count(1)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_names_are_asked_for_once_and_remembered() {
    let world = world().await;
    for name in ["www.example.com", "WWW.Example.com", "www.example.com"] {
        let seen = world.ask(name, kind::A).await;
        assert_eq!((seen.code(), seen.last_address()), (0, [192, 0, 2, 1].into()));
        assert_eq!(&seen.0[..2], &[0, 9], "the asker's own number");
        assert_eq!(&seen.0[13..16], &name.as_bytes()[..3], "the asker's own spelling");
    }
    assert_eq!(world.elsewhere.count(), 1);
    assert_eq!(world.ask("nothing.invalid", kind::A).await.code(), 3);
    assert!(
        world.dns.metrics().contains(
            "coredns_cache_hits_total{type=\"success\",server=\"dns://:53\",view=\"\",zones=\".\"} 2"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_for_other_names_are_answered_whole() {
    let world = world().await;
    let seen = world.ask("away.default.svc.cluster.local", kind::A).await;
    assert_eq!((seen.code(), seen.count(1), seen.last_address()), (0, 2, [192, 0, 2, 1].into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolver_that_says_nothing_holds_up_only_who_asks_it() {
    let world = world().await;
    *world.elsewhere.silent.lock().expect("nobody panicked") = true;
    let asked = world.ask("www.example.com", kind::A);
    let own = async {
        for _ in 0..20 {
            assert_eq!(world.ask("web.default.svc.cluster.local", kind::A).await.code(), 0);
        }
    };
    let (seen, ()) = tokio::join!(asked, own);
    assert_eq!(seen.code(), 2);
}
