//! Three servers over three etcd members, and three agents, each on a machine of its own: processes are killed and paused and
//! machines disconnected, one at a time and in pairs, under load. Afterwards the history of all requests must be
//! linearizable, no acknowledged write may be missing, no watch may have a gap, and the pods must have served all the time.
//!
//! `CORTEN_FAULT_SECONDS` sets the duration of the faults, `CORTEN_FAULT_SEED` their order.

mod cluster;
mod faults;
mod load;
mod traffic;

use std::time::{Duration, Instant};

use corten_e2e::eventually;

use cluster::{COUNT, Cluster};

/// The duration of the faults in a test run.
const SECONDS: u64 = 75;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// The seconds of faults.
fn seconds() -> u64 {
    setting("CORTEN_FAULT_SECONDS", SECONDS)
}

/// Agents learn the servers from the one that they were given, and use those that are left, also after a restart.
fn agents_follow_the_servers(cluster: &mut Cluster) {
    for agent in 0..COUNT {
        eventually("agents know all servers", || cluster.learned(agent).len() == COUNT);
    }
    // The first one is the one that agents were given.
    for server in [0, 1] {
        cluster.processes.servers[server].kill_9();
    }
    let killed = Instant::now();
    let client = cluster.client(2);
    cluster.start_pods(&client, "q");
    println!("pods run on every node {:.1?} after two servers were killed", killed.elapsed());
    cluster.processes.agents[0].kill();
    cluster.restart_agent(0);
    cluster.delete_pods(&client, "q");
    for server in [0, 1] {
        cluster.restart_server(server);
    }
}

#[test]
fn nothing_is_lost_whatever_fails() {
    let duration = Duration::from_secs(seconds());
    let seed = setting("CORTEN_FAULT_SEED", 1);
    Cluster::with(|cluster| {
        agents_follow_the_servers(cluster);
        let started = Instant::now();
        let load = load::Load::start(cluster);
        let traffic = traffic::Traffic::start(cluster);
        let faults = faults::run(cluster, &load, duration, seed);
        let (history, asked) = (load.finish(cluster), traffic.finish());
        let requests = history.operations.len();
        println!(
            "{} faults in {:?}: {requests} requests, {} acknowledged writes, {} lists, {} watch events, pods asked {asked} times",
            faults,
            started.elapsed(),
            history.acknowledged(),
            history.lists.len(),
            history.watches.iter().map(|watch| watch.events.len()).sum::<usize>(),
        );
        if let Err(error) = history.check() {
            panic!("{error}");
        }
    });
}
