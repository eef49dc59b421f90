//! `corten history`, `corten show` and `corten undo`: past versions of objects, with the caller's kubeconfig and rights.
//!
//! The server answers for an object's past whom it would answer for the object now, and an undo consists of ordinary writes, which
//! the server authorizes, admits and validates like all others.

mod diff;
mod moment;
mod past;
mod restorable;
mod target;
mod undo;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use corten_api::{Value, meta, yaml};
use corten_client::{Client, Remote};
use jiff::Timestamp;

use crate::kubeconfig;
use diff::Style;
use past::Version;
use target::Target;

/// The versions that one request returns.
const PAGE: usize = 100;

#[derive(clap::Args)]
pub(crate) struct ClusterFlags {
    /// Namespace of the object.
    #[arg(long, short, default_value = "default")]
    namespace: String,
    /// Kubeconfig of the user [default: KUBECONFIG, ~/.kube/config, or the one of the server on this machine].
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Data directory of the server on this machine, for its kubeconfig.
    #[arg(long, default_value = "/var/lib/corten")]
    data_dir: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct HistoryArgs {
    /// Object, as KIND/NAME: pod/web, deployments.apps/web, po/web.
    object: String,
    /// Number of changes to show, newest first.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Show changes of the status too.
    #[arg(long)]
    status: bool,
    /// Print only when, by whom and at which revision.
    #[arg(long)]
    no_diff: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(clap::Args)]
pub(crate) struct ShowArgs {
    /// Object, as KIND/NAME.
    object: String,
    /// Time: '10 minutes ago', 2h, '2026-11-19 21:30', 2026-11-19T21:30:00Z, or a revision.
    #[arg(long)]
    at: String,
    /// Print managedFields too.
    #[arg(long)]
    show_managed_fields: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub(crate) use undo::UndoArgs;

impl ClusterFlags {
    fn client(&self) -> anyhow::Result<Client> {
        let path = self.kubeconfig.clone().or_else(default_kubeconfig);
        let path = path.unwrap_or_else(|| kubeconfig::admin_path(&self.data_dir));
        let credentials = kubeconfig::read(&path)?;
        let remote =
            Remote::new(&credentials).with_context(|| format!("cannot connect to {}", credentials.server))?;
        Ok(Client::new(Arc::new(remote), "corten-undo"))
    }
}

/// The kubeconfig that kubectl would use, if there is one. Of several in KUBECONFIG, the first.
fn default_kubeconfig() -> Option<PathBuf> {
    let given = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    if let Some(given) = given {
        return std::env::split_paths(&given).next();
    }
    let home = PathBuf::from(std::env::var_os("HOME")?).join(".kube/config");
    home.is_file().then_some(home)
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(work)
}

fn style() -> Style {
    if std::io::stdout().is_terminal() { Style::Colours } else { Style::Plain }
}

pub(crate) fn history(args: &HistoryArgs) -> anyhow::Result<()> {
    ensure!(args.limit > 0, "--limit is at least 1");
    block_on(async {
        let client = args.cluster.client()?;
        let target = Target::find(&client, &args.object, &args.cluster.namespace).await?;
        // One more than is shown: a change is a difference to the version before.
        let versions = read_versions(&client, &target, args.limit.saturating_add(1)).await?;
        let now = Timestamp::now();
        for (index, version) in versions.iter().enumerate().take(args.limit) {
            print!("{}", change(version, versions.get(index + 1), args, now));
        }
        if versions.len() > args.limit {
            println!("… older changes: --limit {}", args.limit * 2);
        }
        Ok(())
    })
}

/// Versions of an object, newest first.
async fn read_versions(client: &Client, target: &Target, limit: usize) -> anyhow::Result<Vec<Version>> {
    let mut versions: Vec<Version> = Vec::new();
    while versions.len() < limit {
        let before = versions.last().map(|version| version.revision.clone());
        let page =
            past::versions(client, target, before.as_deref(), PAGE.min(limit - versions.len())).await?;
        if page.is_empty() {
            break;
        }
        versions.extend(page);
    }
    Ok(versions)
}

/// A change as it is printed.
fn change(version: &Version, earlier: Option<&Version>, args: &HistoryArgs, now: Timestamp) -> String {
    let before = earlier.and_then(|earlier| earlier.object.as_ref());
    let what = match (&version.object, before, earlier.is_some() || version.is_creation()) {
        (None, ..) => "deleted",
        (Some(_), None, true) => "created",
        // It is the oldest version that is known.
        (Some(_), None, false) => "first known version",
        (Some(after), Some(before), _) if is_status(before, after) => "changed status",
        (Some(_), Some(_), _) => "changed",
    };
    let by = version.object.as_ref().map(|object| past::manager(object, before)).unwrap_or_default();
    let mut text = style().heading(&format!(
        "{} {what}{}{}",
        version.revision,
        version.time.map(|time| format!(" {}", moment::shown(time, now))).unwrap_or_default(),
        if by.is_empty() { String::new() } else { format!(" by {by}") },
    ));
    if let (Some(after), Some(before), false) = (&version.object, before, args.no_diff) {
        text.push_str(&diff::objects(before, after, args.status, style()));
    }
    text
}

/// True if two versions differ in their status alone.
fn is_status(before: &Value, after: &Value) -> bool {
    diff::shown(before, false) == diff::shown(after, false) && before.at(&["status"]) != after.at(&["status"])
}

pub(crate) fn show(args: &ShowArgs) -> anyhow::Result<()> {
    block_on(async {
        let client = args.cluster.client()?;
        let target = Target::find(&client, &args.object, &args.cluster.namespace).await?;
        let at = moment::parse(&args.at, Timestamp::now())?;
        let past = past::objects_at(&client, &target.path(), &at).await?;
        let mut object = past.objects.into_iter().next().context("the server sent no object")?;
        if !args.show_managed_fields {
            object.remove(&["metadata", "managedFields"]);
        }
        if let Some(time) = past.time {
            eprintln!("revision {}, {}", past.revision, moment::shown(time, Timestamp::now()));
        }
        print!("{}", yaml::to_string(&object));
        Ok(())
    })
}

pub(crate) fn undo(args: &UndoArgs) -> anyhow::Result<()> {
    block_on(undo::undo(args))
}

/// The kind and name of an object, for messages.
fn named(object: &Value) -> String {
    format!("{}/{}", meta::kind(object), meta::name(object))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn changes_are_told_with_their_kind() {
        let version = |revision: &str, object| Version { revision: revision.into(), time: None, object };
        let object = |size: i64| {
            Some(value!({"kind": "W", "metadata": {"name": "w", "uid": "u"}, "spec": {"size": (size)}}))
        };
        let cluster = ClusterFlags { namespace: String::new(), kubeconfig: None, data_dir: PathBuf::new() };
        let args = HistoryArgs { object: String::new(), limit: 1, status: false, no_diff: false, cluster };
        let told = |version: &Version, earlier: Option<&Version>| {
            change(version, earlier, &args, Timestamp::UNIX_EPOCH)
        };
        let (first, second, gone) = (version("1", object(1)), version("2", object(2)), version("3", None));
        assert_eq!(told(&first, None), "1 first known version\n");
        assert_eq!(told(&gone, Some(&second)), "3 deleted\n");
        assert_eq!(told(&first, Some(&gone)), "1 created\n");
        let changed = told(&second, Some(&first));
        let mut ready = second.clone();
        ready.object.as_mut().unwrap().set(&["status", "ready"], 1_i64);
        assert_eq!(told(&ready, Some(&second)), "2 changed status\n");
        assert!(changed.starts_with("2 changed\n") && changed.contains("-  size: 1"), "{changed}");
    }
}
