//! Three machines, real containers on each, real packets between them: every feature of services with both modes of
//! the proxy, policies for every pair of pods with both, DNS, and failures of agents, servers, endpoints and nodes.
//!
//! One cluster is shared by all tests, to save time.

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
