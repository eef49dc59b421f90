//! Three machines, real containers on each, real packets between them: every feature of services with both back ends of
//! the proxy, policies for every pair of pods with both, names, and what goes on when agents, servers, endpoints and nodes fail.
//!
//! One cluster is shared by everything, so that it takes no longer than it must.

mod cluster;
mod faults;
mod policies;
mod services;

use cluster::Cluster;

#[test]
fn services_policies_and_faults_on_three_machines() {
    Cluster::with(|cluster| {
        services::all(cluster);
        policies::matrix(cluster);
        faults::agent_is_killed(cluster);
        cluster.restart_all("iptables");
        services::all(cluster);
        policies::matrix(cluster);
        faults::server_is_away(cluster);
        faults::node_is_cut_off(cluster);
    });
}
