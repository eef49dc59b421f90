//! The network policies of this process' node.

use std::sync::Arc;

use anyhow::Context;
use corten_net::namespace::Namespace;
use corten_policy::{Enforcer, Policies};
use corten_reconcile::Manager;

use super::NodeOptions;

/// The part's name for `--disable`.
pub(crate) const PART: &str = "network-policy";

/// Enforces network policies until the manager is dropped; the rules stay. If they are turned off, removes the rules of an
/// earlier run.
pub(super) fn start(manager: &Manager, options: &NodeOptions) -> anyhow::Result<Option<Arc<Policies>>> {
    if options.network_policy {
        return corten_policy::start(manager, &options.name)
            .map(Some)
            .context("cannot enforce network policies");
    }
    let namespace = Namespace::current().context("cannot open the network namespace")?;
    if let Err(error) = Enforcer::open(&options.name, &namespace).and_then(|mut enforcer| enforcer.clean_up())
    {
        tracing::warn!(err = %error, "cannot remove the rules of network policies");
    }
    Ok(None)
}
