//! `corten controller-manager`: the controllers in a process of their own, against any Kubernetes API server.
//!
//! Controllers act as the kubeconfig's user, or each as its own service account with
//! `--use-service-account-credentials`.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use corten_client::{AccountTransport, Client, Key, Remote};
use corten_controllers::Options;
use corten_pki::Credentials;
use corten_reconcile::{ClientFor, Manager, Selection};

use super::credentials::KeyFlags;
use super::{AGENT, AddressDefaults, ControllerFlags};
use crate::component::{Component, Flags, Ready};

const CONTROLLER_MANAGER: Component = Component {
    name: "kube-controller-manager",
    recorder: "kube-controller-manager",
    port: 10257,
    agent: AGENT,
};

// As with upstream's components, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Controllers to run: * for the default ones, NAME to add one, -NAME to remove one.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// File with the CA certificates for pods [default: the kubeconfig's].
    #[arg(long)]
    root_ca_file: Option<PathBuf>,
    /// Run each controller as a service account of its own, with only that account's rights.
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    use_service_account_credentials: bool,
    /// CIDR for the cluster IPs of Services, which is excluded from pod CIDRs.
    #[arg(long, default_value = "")]
    service_cluster_ip_range: String,
    #[command(flatten)]
    own: ControllerFlags,
    #[command(flatten)]
    keys: KeyFlags,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let managing: Arc<OnceLock<Manager>> = Arc::default();
    // Not an owner: the controllers stop when the work is dropped.
    let told = Arc::downgrade(&managing);
    let metrics = Arc::new(move || {
        let managing = told.upgrade();
        managing.as_ref().and_then(|managing| managing.get()).map(Manager::metrics).unwrap_or_default()
    });
    let election = args.flags.election.settings(CONTROLLER_MANAGER.name, None)?;
    CONTROLLER_MANAGER.run(&args.flags, election, metrics, |ready| {
        let options = options(args, &ready)?;
        let selection = Selection::new(&args.controllers);
        let client_for = client_for(&ready, args.use_service_account_credentials)?;
        let all = Manager::new(ready.client, client_for, ready.clock).only(selection);
        corten_controllers::start(managing.get_or_init(|| all), options);
        tracing::info!("controllers started");
        Ok(managing)
    })
}

fn options(args: &Args, ready: &Ready) -> anyhow::Result<Options> {
    let root_ca = match &args.root_ca_file {
        Some(file) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?
        }
        None => ready.credentials.ca_pem.clone(),
    };
    let mut options = Options { root_ca, ..Options::default() };
    let services = args.service_cluster_ip_range.clone();
    args.own.apply(&mut options, &AddressDefaults { allocate: false, cluster_cidr: "", services })?;
    args.keys.apply(&mut options)?;
    Ok(options)
}

/// The clients of the controllers: the kubeconfig's user for all, or a service account each.
fn client_for(ready: &Ready, own: bool) -> anyhow::Result<ClientFor> {
    let client = ready.client.clone();
    if !own {
        return Ok(Box::new(move |_| client.clone()));
    }
    let anonymous = Credentials {
        cert_pem: String::new(),
        key_pem: String::new(),
        token: None,
        ..ready.credentials.clone()
    };
    let anonymous = Remote::new(&anonymous).context("cannot connect as service accounts")?;
    let clock = ready.clock.clone();
    Ok(Box::new(move |account| {
        let key = Key::new("kube-system", account);
        let transport = AccountTransport::new(anonymous.clone(), client.clone(), key, clock.clone());
        Client::new(Arc::new(transport), AGENT)
    }))
}
