//! The service proxy of this process' node.

use anyhow::Context;
use corten_proxy::Config;
use corten_proxy::config::DetectLocal;
use corten_reconcile::Manager;

use crate::pod_network::BRIDGE;

/// Starts the proxy of a node on the built-in pod network; it ends with the manager, and its rules stay.
pub(crate) fn start(manager: &Manager, node_name: &str) -> anyhow::Result<()> {
    let detect_local = DetectLocal::BridgeInterface(BRIDGE.to_owned());
    let config = Config { detect_local, ..Config::default() };
    corten_proxy::start(manager, config, node_name).context("starting the service proxy")?;
    Ok(())
}
