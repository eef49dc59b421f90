//! `corten controller-manager`: the controllers alone, against any Kubernetes API server. All of them speak in the
//! kubeconfig's identity.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use corten_controllers::Options;
use corten_reconcile::{Manager, Selection};

use super::AGENT;
use crate::component::{Component, Flags};

const CONTROLLER_MANAGER: Component =
    Component { name: "kube-controller-manager", port: 10257, agent: AGENT };

// As upstream's, a flag that is given twice counts the second time.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Controllers to run: * for all that are on by default, NAME for one more, -NAME for one less.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// The certificates by which pods know the API server; the kubeconfig's unless given.
    #[arg(long)]
    root_ca_file: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let managing: Arc<OnceLock<Manager>> = Arc::default();
    let told = managing.clone();
    let metrics = Arc::new(move || told.get().map(Manager::metrics).unwrap_or_default());
    CONTROLLER_MANAGER.run(&args.flags, metrics, |ready| {
        let root_ca = match &args.root_ca_file {
            Some(file) => {
                std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?
            }
            None => ready.credentials.ca_pem,
        };
        let same = ready.client.clone();
        let selection = Selection::new(args.controllers);
        let all = Manager::new(ready.client, Box::new(move |_| same.clone()), ready.clock).only(selection);
        corten_controllers::start(managing.get_or_init(|| all), Options { root_ca, ..Options::default() });
        tracing::info!("controllers run");
        Ok(managing)
    })
}
