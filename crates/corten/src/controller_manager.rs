//! The controller manager: the controllers within a server, each in its own identity.

use corten_apiserver::Running;
use corten_base::Clock;
use corten_client::Client;
use corten_controllers::Options;
use corten_reconcile::Manager;

const AGENT: &str = "kube-controller-manager/v1.37.0";

/// Starts the controllers on the server of this process; they end when the manager is dropped.
pub(crate) fn start(server: &Running, options: Options) -> Manager {
    let client = Client::new(server.transport("system:kube-controller-manager", &[]), AGENT);
    let server = server.handle();
    let client_for = move |controller: &str| {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        let account = format!("system:serviceaccount:kube-system:{controller}");
        Client::new(server.transport(&account, &groups), AGENT)
    };
    let manager = Manager::new(client, Box::new(client_for), Clock::real());
    corten_controllers::start(&manager, options);
    manager
}
