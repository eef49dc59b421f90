//! Rules and connections outlive the process that wrote them.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corten_api::value;
use corten_proxy::Mode;
use parking_lot::Mutex;

use crate::cluster_ips::in_each_mode;
use crate::world::{DEADLINE, World, at, changed, endpoints, web};

fn rules_outlive_the_process_and_are_replaced_without_a_gap(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, ip) = world.pod("one");
    let (client, _) = world.pod("client");
    pod.serve_as("0.0.0.0:8080", "one");
    let ip = ip.to_string();
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[(&ip, "here")]));
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let stopped = Arc::new(stop);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            while !stopped.load(Ordering::Relaxed) {
                client.reaches(at("10.96.0.1", 80));
                asked.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..20 {
            world.restart();
            world.inputs = Mutex::default();
            world.inputs.lock().service(&changed(&web(&value!({}))));
            world.slice(&endpoints(&[(&ip, "here")]));
        }
        stopped.store(true, Ordering::Relaxed);
        asking.join().expect("every request is answered");
    });
    assert!(asked.load(Ordering::Relaxed) > 0);
}

fn connections_survive_changes(mode: Mode) {
    let mut world = World::new(mode);
    let (pod, ip) = world.pod("one");
    let (client, _) = world.pod("client");
    pod.serve_echo(at("0.0.0.0", 8080));
    world.service(&web(&value!({})));
    world.slice(&endpoints(&[(&ip.to_string(), "here")]));
    let mut stream = client.connect(at("10.96.0.1", 80), DEADLINE).unwrap();
    let mut answers = |byte: u8| {
        stream.write_all(&[byte]).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [byte]);
    };
    answers(1);
    world.engine.distrust();
    world.sync();
    answers(2);
    world.slice(&endpoints(&[]));
    answers(3);
    world.service(&web(&value!({"clusterIP": "None", "clusterIPs": ["None"]})));
    answers(4);
}

in_each_mode!(rules_outlive_the_process_and_are_replaced_without_a_gap, connections_survive_changes,);
