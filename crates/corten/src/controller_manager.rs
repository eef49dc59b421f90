//! The controllers of `corten server`, each as its own service account, with the scheduler and simulated nodes beside
//! them.
//!
//! Of several servers with one datastore, one runs the controllers and one the scheduler, as upstream's components are elected.
//! A server with a datastore of its own runs them at once, in one manager, which shares their caches.

mod credentials;
mod elected;
mod flags;
mod network_flags;
mod node_flags;
mod standalone;
mod storage_flags;
mod workload_flags;

use std::sync::Arc;

use corten_apiserver::{Handle, Running};
use corten_base::Clock;
use corten_client::Client;
use corten_controllers::Options;
use corten_reconcile::{Election, LockKind, Manager, Selection};

use crate::component::ElectionFlags;
use elected::{Candidacy, Elected};

pub(crate) use credentials::of_authority;
pub(crate) use flags::ControllerFlags;
pub(crate) use node_flags::AddressDefaults;
pub(crate) use standalone::{Args, run};

const AGENT: &str = "kube-controller-manager/v1.37.0";
/// The names of the components, which are those of their users and of their leases.
const CONTROLLERS: &str = "kube-controller-manager";
const SCHEDULER: &str = "kube-scheduler";

/// The parts to start on the server of this process.
#[derive(Clone)]
pub(crate) struct Parts {
    /// The settings of the controllers; none to run none.
    pub(crate) controllers: Option<Options>,
    /// True if nodes run DNS servers, whose endpoints a controller writes.
    pub(crate) dns: bool,
    pub(crate) scheduler: bool,
    pub(crate) simulated: Option<corten_simulator::Options>,
}

/// The running parts.
pub(crate) struct Components {
    elected: Vec<Elected>,
    manager: Option<Manager>,
}

/// The elections of the parts that one server of several runs.
pub(crate) struct Elections {
    controllers: Election,
    scheduler: Election,
}

impl Elections {
    /// The elections, unless the flags disable them; an error if the flags are invalid.
    pub(crate) fn of(flags: &ElectionFlags) -> anyhow::Result<Option<Elections>> {
        let clock = Clock::real();
        let controllers = flags.settings(CONTROLLERS, None)?.election(CONTROLLERS, &clock)?;
        let scheduler = flags.settings(SCHEDULER, None)?.election("default-scheduler", &clock)?;
        Ok(controllers.zip(scheduler).map(|(controllers, scheduler)| Elections { controllers, scheduler }))
    }
}

/// Starts the parts. With elections, controllers and scheduler work while this server leads them.
pub(crate) fn start(server: &Running, parts: Parts, elections: Option<Elections>) -> Components {
    let server = server.handle();
    let Some(elections) = elections else {
        return Components { elected: Vec::new(), manager: Some(manage(&server, parts)) };
    };
    let nothing = Parts { controllers: None, dns: false, scheduler: false, simulated: None };
    let mut elected = Vec::new();
    let mut elect = |name: &'static str, election: Election, parts: Parts| {
        // The roles of these users allow Leases only.
        let groups: &[&str] = if election.lock == LockKind::Leases { &[] } else { &["system:masters"] };
        let client = client_of(&server, &format!("system:{name}"), groups);
        let candidacy = Candidacy { client, election };
        let server = server.clone();
        elected.push(Elected::start(candidacy, move || manage(&server, parts.clone())));
    };
    if let Some(controllers) = &parts.controllers {
        let controllers = Some(controllers.clone());
        elect(CONTROLLERS, elections.controllers, Parts { controllers, dns: parts.dns, ..nothing.clone() });
    }
    if parts.scheduler {
        elect(SCHEDULER, elections.scheduler, Parts { scheduler: true, ..nothing.clone() });
    }
    // Simulated nodes are this server's own, whichever server leads.
    let simulated = parts.simulated.map(|options| Parts { simulated: Some(options), ..nothing });
    Components { elected, manager: simulated.map(|parts| manage(&server, parts)) }
}

impl Components {
    /// Ends the work of the parts. Those that this server leads are given up, so that another server continues at once.
    pub(crate) async fn stop(self) {
        drop(self.manager);
        self.elected.iter().for_each(Elected::signal_stop);
        for elected in self.elected {
            elected.stopped().await;
        }
    }
}

/// Starts parts, which work until the manager is dropped.
fn manage(server: &Handle, parts: Parts) -> Manager {
    let of_server = server.clone();
    let identity = move |user: &str, groups: &[&str]| client_of(&of_server, user, groups);
    let client = identity("system:kube-controller-manager", &[]);
    let identities: corten_simulator::Identities = Arc::new(identity);
    let of_account = identities.clone();
    let client_for = move |controller: &str| {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        of_account(&format!("system:serviceaccount:kube-system:{controller}"), &groups)
    };
    // Machines join with bootstrap tokens, so their controllers run too, which upstream turns off by default.
    let manager = Manager::new(client, Box::new(client_for), Clock::real()).only(Selection::everything());
    if let Some(options) = parts.controllers {
        corten_controllers::start(&manager, options);
        if parts.dns {
            manager.run(corten_dns::NodeEndpoints);
        }
    }
    if parts.scheduler {
        let client = identities("system:kube-scheduler", &[]).named(crate::scheduler::AGENT);
        corten_scheduler::start(&manager, client, corten_scheduler::Config::default());
    }
    if let Some(options) = parts.simulated {
        corten_simulator::start(&manager, &identities, options);
    }
    manager
}

fn client_of(server: &Handle, user: &str, groups: &[&str]) -> Client {
    Client::new(server.transport(user, groups), AGENT)
}
