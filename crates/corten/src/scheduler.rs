//! `corten scheduler`: the scheduler in a process of its own, against any Kubernetes API server.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use corten_api::{Value, yaml};
use corten_reconcile::Manager;
use corten_scheduler::{Config, Metrics};

use crate::component::{Component, Flags};

pub(crate) const AGENT: &str = "kube-scheduler/v1.37.0";
const SCHEDULER: Component =
    Component { name: "kube-scheduler", recorder: "default-scheduler", port: 10259, agent: AGENT };

// As with upstream's components, the last of repeated flags counts.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    flags: Flags,
    /// File with a KubeSchedulerConfiguration.
    #[arg(long)]
    config: Option<PathBuf>,
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<()> {
    let (config, election) = match &args.config {
        Some(path) => read(path, &mut args.flags)?,
        None => (Config::default(), None),
    };
    let election = args.flags.election.settings(SCHEDULER.name, election.as_ref())?;
    let working: Arc<OnceLock<Arc<Metrics>>> = Arc::default();
    let told = working.clone();
    let metrics = Arc::new(move || told.get().map(|metrics| metrics.text()).unwrap_or_default());
    SCHEDULER.run(&args.flags, election, metrics, |ready| {
        let same = ready.client.clone();
        let manager = Manager::new(ready.client.clone(), Box::new(move |_| same.clone()), ready.clock);
        // Set once: a process leads once.
        let _ = working.set(corten_scheduler::start(&manager, ready.client, config));
        tracing::info!("scheduler started");
        Ok(manager)
    })
}

/// Reads a configuration, and its `leaderElection`. The kubeconfig becomes a flag.
fn read(path: &Path, flags: &mut Flags) -> anyhow::Result<(Config, Option<Value>)> {
    let shown = path.display();
    let text = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let value = yaml::to_value(&text, &mut Vec::new()).with_context(|| format!("cannot read {shown}"))?;
    let kubeconfig = value.str_at(&["clientConnection", "kubeconfig"]).filter(|path| !path.is_empty());
    flags.kubeconfig = flags.kubeconfig.take().or_else(|| kubeconfig.map(PathBuf::from));
    let config = Config::of(&value).with_context(|| format!("cannot read {shown}"))?;
    Ok((config, value.at(&["leaderElection"]).cloned()))
}
