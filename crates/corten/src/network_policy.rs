//! Network policies of this process' node.

use std::sync::Arc;

use anyhow::Context;
use corten_net::namespace::Namespace;
use corten_policy::{Enforcer, Policies};
use corten_reconcile::Manager;

use crate::agent::NodeOptions;

/// What people disable it by.
pub(crate) const PART: &str = "network-policy";

/// Starts enforcing policies; it ends with the manager, and the rules stay. If they are not to be enforced, what an
/// earlier run left of them goes.
pub(crate) fn start(manager: &Manager, options: &NodeOptions) -> anyhow::Result<Option<Arc<Policies>>> {
    if options.network_policy {
        return corten_policy::start(manager, &options.name).map(Some).context("enforcing network policies");
    }
    let namespace = Namespace::current().context("opening the network namespace")?;
    if let Err(error) = Enforcer::open(&options.name, &namespace).and_then(|mut enforcer| enforcer.clean_up())
    {
        tracing::warn!(%error, "the rules of network policies could not be removed");
    }
    Ok(None)
}
