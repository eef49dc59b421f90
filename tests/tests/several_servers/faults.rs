//! The faults: what is hit, how, and how it heals.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use corten_e2e::eventually;

use crate::cluster::{COUNT, Cluster, signal};
use crate::load::Load;

/// The least time that a fault lasts.
const LASTS: Duration = Duration::from_secs(2);

/// A part of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Etcd(usize),
    Server(usize),
    /// A server and its etcd member.
    ServerMachine(usize),
    Agent(usize),
    AgentMachine(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Kill(Target),
    Pause(Target),
    Disconnect(Target),
}

/// Every kind of fault, of a part with this number.
fn kinds(number: usize) -> [Fault; 8] {
    use Target::{Agent, AgentMachine, Etcd, Server, ServerMachine};
    [
        Fault::Kill(Server(number)),
        Fault::Pause(Server(number)),
        Fault::Disconnect(ServerMachine(number)),
        Fault::Kill(Etcd(number)),
        Fault::Pause(Etcd(number)),
        Fault::Kill(Agent(number)),
        Fault::Pause(Agent(number)),
        Fault::Disconnect(AgentMachine(number)),
    ]
}

/// Numbers that look random, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Makes faults for a time: first each kind alone, then pairs. Returns their number.
pub(crate) fn run(cluster: &mut Cluster, load: &Load, duration: Duration, seed: u64) -> usize {
    let (started, mut dice, mut count) = (Instant::now(), Dice(seed), 0);
    let mut singles = kinds(dice.roll(COUNT)).to_vec();
    while started.elapsed() < duration {
        let faults = match singles.is_empty() {
            false => vec![singles.remove(dice.roll(singles.len()))],
            true => pair(&mut dice),
        };
        println!("{:>6.1?} {faults:?}", started.elapsed());
        count += faults.len();
        faults.iter().for_each(|fault| fault.strike(cluster));
        last(load, &faults);
        // etcd first: a server that starts needs it.
        let (mut healing, healed) = (faults, Instant::now());
        healing.sort_by_key(|fault| fault.target());
        healing.iter().for_each(|fault| fault.heal(cluster));
        for server in 0..COUNT {
            let before = load.acknowledged(server);
            eventually(&format!("server {server} writes again"), || load.acknowledged(server) > before);
        }
        println!("{:>6.1?} all servers write again", healed.elapsed());
    }
    count
}

/// Two faults of different parts.
fn pair(dice: &mut Dice) -> Vec<Fault> {
    loop {
        let mut one = || kinds(dice.roll(COUNT))[dice.roll(8)];
        let (first, second) = (one(), one());
        if first.parts().is_disjoint(&second.parts()) {
            return vec![first, second];
        }
    }
}

/// Waits while faults last: writes go on if most etcd members and a server are there.
fn last(load: &Load, faults: &[Fault]) {
    let hit: BTreeSet<Target> = faults.iter().flat_map(Fault::parts).collect();
    let members = (0..COUNT).filter(|number| !hit.contains(&Target::Etcd(*number))).count();
    let server = (0..COUNT).find(|number| !hit.contains(&Target::Server(*number)));
    let started = Instant::now();
    if let Some(server) = server.filter(|_| members * 2 > COUNT) {
        let before = load.acknowledged(server);
        eventually(&format!("server {server} writes during {faults:?}"), || {
            load.acknowledged(server) > before
        });
    }
    std::thread::sleep(LASTS.saturating_sub(started.elapsed()));
}

impl Fault {
    fn target(&self) -> Target {
        match self {
            Fault::Kill(target) | Fault::Pause(target) | Fault::Disconnect(target) => *target,
        }
    }

    /// The parts that do not work meanwhile.
    fn parts(&self) -> BTreeSet<Target> {
        match self.target() {
            Target::ServerMachine(number) => [Target::Etcd(number), Target::Server(number)].into(),
            Target::AgentMachine(number) => [Target::Agent(number)].into(),
            part => [part].into(),
        }
    }

    fn strike(&self, cluster: &mut Cluster) {
        match self {
            Fault::Kill(Target::Etcd(number)) => cluster.processes.etcd[*number].kill(),
            Fault::Kill(Target::Server(number)) => cluster.processes.servers[*number].kill_9(),
            Fault::Kill(Target::Agent(number)) => cluster.processes.agents[*number].kill(),
            Fault::Pause(target) => signal(process(cluster, *target), "STOP"),
            Fault::Disconnect(target) | Fault::Kill(target) => connect(cluster, *target, false),
        }
    }

    fn heal(&self, cluster: &mut Cluster) {
        match self {
            Fault::Kill(Target::Etcd(number)) => cluster.restart_etcd(*number),
            Fault::Kill(Target::Server(number)) => cluster.restart_server(*number),
            Fault::Kill(Target::Agent(number)) => cluster.restart_agent(*number),
            Fault::Pause(target) => signal(process(cluster, *target), "CONT"),
            Fault::Disconnect(target) | Fault::Kill(target) => connect(cluster, *target, true),
        }
    }
}

fn process(cluster: &Cluster, target: Target) -> u32 {
    let processes = &cluster.processes;
    match target {
        Target::Etcd(number) => processes.etcd[number].child.id(),
        Target::Server(number) | Target::ServerMachine(number) => processes.servers[number].process_id(),
        Target::Agent(number) | Target::AgentMachine(number) => processes.agents[number].child.id(),
    }
}

fn connect(cluster: &Cluster, target: Target, connected: bool) {
    let machine = match target {
        Target::Etcd(number) | Target::Server(number) | Target::ServerMachine(number) => {
            &cluster.servers[number]
        }
        Target::Agent(number) | Target::AgentMachine(number) => &cluster.nodes[number],
    };
    cluster.switch.set_connected(machine, connected);
}
