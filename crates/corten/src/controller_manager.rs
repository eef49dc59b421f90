//! The controllers of `corten server`, each as its own service account, with the scheduler and simulated nodes beside
//! them.

mod credentials;
mod flags;
mod network_flags;
mod node_flags;
mod standalone;
mod storage_flags;
mod workload_flags;

use std::sync::Arc;

use corten_apiserver::Running;
use corten_base::Clock;
use corten_client::Client;
use corten_controllers::Options;
use corten_reconcile::{Manager, Selection};

pub(crate) use credentials::of_authority;
pub(crate) use flags::ControllerFlags;
pub(crate) use node_flags::AddressDefaults;
pub(crate) use standalone::{Args, run};

const AGENT: &str = "kube-controller-manager/v1.37.0";

/// The parts to start on the server of this process.
pub(crate) struct Parts {
    /// The settings of the controllers; none to run none.
    pub(crate) controllers: Option<Options>,
    pub(crate) scheduler: bool,
    pub(crate) simulated_nodes: usize,
}

/// Starts the parts; they stop when the manager is dropped.
pub(crate) fn start(server: &Running, parts: Parts) -> Manager {
    let server = server.handle();
    let identity = move |user: &str, groups: &[&str]| Client::new(server.transport(user, groups), AGENT);
    let client = identity("system:kube-controller-manager", &[]);
    let identities: corten_simulator::Identities = Arc::new(identity);
    let of_account = identities.clone();
    let client_for = move |controller: &str| {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        of_account(&format!("system:serviceaccount:kube-system:{controller}"), &groups)
    };
    // Machines join with bootstrap tokens, so their controllers run too, which upstream turns off by default.
    let manager = Manager::new(client, Box::new(client_for), Clock::real()).only(Selection::everything());
    let networks_assigned = parts.controllers.as_ref().is_some_and(|options| options.node_ipam.is_some());
    if let Some(options) = parts.controllers {
        corten_controllers::start(&manager, options);
    }
    if parts.scheduler {
        let client = identities("system:kube-scheduler", &[]).named(crate::scheduler::AGENT);
        corten_scheduler::start(&manager, client, corten_scheduler::Config::default());
    }
    if parts.simulated_nodes > 0 {
        let options = corten_simulator::Options { nodes: parts.simulated_nodes, networks_assigned };
        corten_simulator::start(&manager, &identities, options);
    }
    manager
}
