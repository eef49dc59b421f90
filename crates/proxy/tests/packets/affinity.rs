//! Session affinity.

use corten_api::{Value, value};
use corten_proxy::Mode;

use crate::cluster_ips::in_each_mode;
use crate::world::{World, at, endpoints, web};

fn sticky(seconds: i64) -> Value {
    web(&value!({
        "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": (seconds)}},
    }))
}

/// Several pods with servers, and their addresses.
fn servers(world: &World) -> (Vec<crate::world::Netns>, Vec<String>) {
    let names = ["one", "two", "three", "four"];
    let pods = names.map(|name| {
        let (pod, ip) = world.pod(name);
        pod.serve_as("0.0.0.0:8080", name);
        (pod, ip.to_string())
    });
    pods.into_iter().unzip()
}

fn a_client_stays_with_its_endpoint(mode: Mode) {
    let mut world = World::new(mode);
    let (_pods, ips) = servers(&world);
    let (client, _) = world.pod("client");
    let all: Vec<(&str, &str)> = ips.iter().map(|ip| (ip.as_str(), "here")).collect();
    world.service(&sticky(600));
    world.slice(&endpoints(&all));
    let first = client.reaches(at("10.96.0.1", 80));
    for _ in 0..20 {
        assert_eq!(client.reaches(at("10.96.0.1", 80)), first);
    }
    // One endpoint less that is not the client's own changes nothing for it.
    let own = ["one", "two", "three", "four"].iter().position(|name| first.starts_with(name)).unwrap();
    let fewer = all.iter().copied().enumerate().filter(|(n, _)| *n != (own + 1) % 4);
    world.slice(&endpoints(&fewer.map(|(_, endpoint)| endpoint).collect::<Vec<_>>()));
    for _ in 0..20 {
        assert_eq!(client.reaches(at("10.96.0.1", 80)), first);
    }
    // Without its endpoint it goes elsewhere.
    let others = all.iter().copied().enumerate().filter(|(n, _)| *n != own);
    world.slice(&endpoints(&others.map(|(_, endpoint)| endpoint).collect::<Vec<_>>()));
    assert_ne!(client.reaches(at("10.96.0.1", 80)), first);
}

fn affinity_outlives_the_process(mode: Mode) {
    let mut world = World::new(mode);
    let (_pods, ips) = servers(&world);
    let (client, _) = world.pod("client");
    let all: Vec<(&str, &str)> = ips.iter().map(|ip| (ip.as_str(), "here")).collect();
    world.service(&sticky(600));
    world.slice(&endpoints(&all));
    let first = client.reaches(at("10.96.0.1", 80));
    world.restart();
    // The new process gets all objects again and writes all rules.
    let inputs = std::mem::take(&mut *world.inputs.lock());
    drop(inputs);
    world.inputs.lock().service(&crate::world::changed(&sticky(600)));
    world.slice(&endpoints(&all));
    for _ in 0..20 {
        assert_eq!(client.reaches(at("10.96.0.1", 80)), first);
    }
}

fn affinity_can_be_turned_off(mode: Mode) {
    let mut world = World::new(mode);
    let (_pods, ips) = servers(&world);
    let (client, _) = world.pod("client");
    let all: Vec<(&str, &str)> = ips.iter().map(|ip| (ip.as_str(), "here")).collect();
    world.service(&sticky(600));
    world.slice(&endpoints(&all));
    client.reaches(at("10.96.0.1", 80));
    world.service(&sticky(300));
    client.reaches(at("10.96.0.1", 80));
    world.service(&web(&value!({})));
    client.reaches_each(at("10.96.0.1", 80), &["four", "one", "three", "two"]);
}

in_each_mode!(a_client_stays_with_its_endpoint, affinity_outlives_the_process, affinity_can_be_turned_off,);
