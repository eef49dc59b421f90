//! `corten undo`: an object, or a whole namespace, as it was.
//!
//! ```text
//! read the past and the present ─► plan (pure) ─► show ─► each write as a server-side dry run ─► confirm ─► write
//! ```
//!
//! Objects that were created since are never deleted, and a write in between is a conflict, not an overwrite.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use corten_api::{Value, meta};
use corten_client::{Client, Error, Kind, Served};
use jiff::Timestamp;

use super::moment::Moment;
use super::target::Target;
use super::{ClusterFlags, diff, moment, named, past, restorable, style};

/// The field manager of the writes.
const MANAGER: &str = "corten-undo";
/// Further attempts of a write that is forbidden, and the time between them.
const ATTEMPTS: usize = 5;
const BACKOFF: Duration = Duration::from_millis(500);
/// The kinds that others refer to, which are created first.
const FIRST: [&str; 9] = [
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "Role",
    "RoleBinding",
    "PersistentVolumeClaim",
    "Service",
];

#[derive(clap::Args)]
pub(crate) struct UndoArgs {
    /// Object as KIND/NAME, or namespace/NAME for the namespace and everything that was in it.
    object: String,
    /// Time to go back to: '10 minutes ago', 2h, '2026-11-19 21:30', or a revision.
    #[arg(long, value_name = "TIME")]
    to: String,
    /// Write without asking. Otherwise, and without a terminal, only the differences are shown.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// A write of an undo.
struct Step {
    kind: Kind,
    object: Value,
    /// The object that it replaces; `None` for a create.
    current: Option<Value>,
}

/// The writes of an undo, and the objects that it leaves.
#[derive(Default)]
struct Plan {
    steps: Vec<Step>,
    /// The kinds of objects that are left out, with the reason.
    skipped: Vec<(String, &'static str)>,
    unchanged: usize,
}

pub(super) async fn undo(args: &UndoArgs) -> anyhow::Result<()> {
    let client = args.cluster.client()?;
    let target = Target::find(&client, &args.object, &args.cluster.namespace).await?;
    let now = Timestamp::now();
    let at = moment::parse(&args.to, now)?;
    let plan = match &*target.kind.kind {
        "Namespace" => of_namespace(&client, &target, &at).await?,
        _ => of_object(&client, &target, &at).await?,
    };
    print!("{}", left_out(&plan.skipped));
    if plan.steps.is_empty() {
        println!("nothing to undo: {} objects are as they were", plan.unchanged);
        return Ok(());
    }
    plan.steps.iter().for_each(show);
    let refused = write_all(&client, &plan.steps, true).await;
    ensure!(
        refused == 0,
        "the server would refuse {refused} of {} writes; nothing was written",
        plan.steps.len()
    );
    if !args.yes && !confirmed(plan.steps.len())? {
        println!("dry run: nothing was written; use --yes to write");
        return Ok(());
    }
    let failed = write_all(&client, &plan.steps, false).await;
    ensure!(failed == 0, "{failed} of {} writes failed; the same command continues", plan.steps.len());
    println!("{} objects are as they were", plan.steps.len());
    Ok(())
}

async fn of_object(client: &Client, target: &Target, at: &Moment) -> anyhow::Result<Plan> {
    let found = past::objects_at(client, &target.path(), at).await;
    let then = found.with_context(|| format!("cannot read {} at {at}", target.path()))?;
    let then = then.objects.into_iter().next().context("the server sent no object")?;
    let now = past::current(client, &target.path()).await?;
    let mut plan = Plan::default();
    let existing = now.iter().map(|now| meta::uid(now).to_owned()).collect();
    plan.add(&target.kind, &then, now, &existing);
    Ok(plan)
}

/// The namespace, and all objects in it that a user may read.
async fn of_namespace(client: &Client, target: &Target, at: &Moment) -> anyhow::Result<Plan> {
    let mut plan = of_object(client, target, at).await?;
    // Its own finalizers and phase are the system's.
    plan.steps.retain(|step| step.current.is_none());
    let discovery = client.discover().await.context("cannot discover the kinds of the server")?;
    let is_restorable =
        |served: &&Served| served.kind.namespaced && served.has_verbs(&["get", "list", "create", "update"]);
    let mut kinds: Vec<Kind> = discovery.preferred().filter(is_restorable).map(|s| s.kind.clone()).collect();
    kinds.sort_by_key(|kind| FIRST.iter().position(|first| *first == kind.kind).unwrap_or(FIRST.len()));
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for kind in kinds {
        let collection = kind.collection(&target.name);
        let then = past::objects_at(client, &collection, at).await;
        if let Err(error) = &then
            && error.downcast_ref::<Error>().is_some_and(Error::is_forbidden)
        {
            plan.skipped.push((kind.kind.to_string(), "you may not list them"));
            continue;
        }
        let then = then.with_context(|| format!("cannot read {collection} at {at}"))?.objects;
        if then.is_empty() {
            continue;
        }
        let list = client.read(&collection).await.with_context(|| format!("cannot read {collection}"))?;
        let now: Vec<Value> = list.items_at(&["items"]).to_vec();
        let existing: BTreeSet<String> = now.iter().map(|object| meta::uid(object).to_owned()).collect();
        for object in then {
            // Some kinds are served by two groups.
            if !seen.insert(meta::uid(&object).to_owned()) {
                continue;
            }
            if let Some(why) = restorable::reason_to_skip(&object) {
                plan.skipped.push((meta::kind(&object).to_owned(), why));
                continue;
            }
            let current = now.iter().find(|now| meta::name(now) == meta::name(&object)).cloned();
            let current = current.map(|mut current| {
                // Items of lists of built-in kinds do not say their kind.
                current.set(&["kind"], meta::kind(&object).to_owned());
                current.set(&["apiVersion"], meta::api_version(&object).to_owned());
                current
            });
            plan.add(&kind, &object, current, &existing);
        }
    }
    Ok(plan)
}

impl Plan {
    fn add(&mut self, kind: &Kind, then: &Value, now: Option<Value>, existing: &BTreeSet<String>) {
        // A past object is in its stored version, which is served too.
        let (group, version) = corten_api::resources::split_api_version(meta::api_version(then));
        let kind = Kind { group: group.into(), version: version.into(), ..kind.clone() };
        match now {
            None => {
                let object = restorable::for_create(then, existing);
                self.steps.push(Step { kind, object, current: None });
            }
            Some(now) => {
                let object = restorable::for_update(then, &now);
                if diff::shown(&object, false) == diff::shown(&now, false) {
                    self.unchanged += 1;
                } else {
                    self.steps.push(Step { kind, object, current: Some(now) });
                }
            }
        }
    }
}

/// One line for each reason, with the kinds and numbers of objects.
fn left_out(skipped: &[(String, &'static str)]) -> String {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (kind, why) in skipped {
        *counts.entry(why).or_default().entry(kind).or_default() += 1;
    }
    let line = |(why, kinds): (&str, BTreeMap<&str, usize>)| {
        let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        format!("left out: {} ({why})\n", kinds.join(", "))
    };
    counts.into_iter().map(line).collect()
}

fn show(step: &Step) {
    let verb = if step.current.is_some() { "change" } else { "create" };
    print!("{}", style().heading(&format!("{verb} {}", named(&step.object))));
    if let Some(current) = &step.current {
        print!("{}", diff::objects(current, &step.object, false, style()));
    }
}

/// Sends all writes, and returns the number of those that failed. In a dry run, objects of a namespace that does not exist yet are
/// not sent.
async fn write_all(client: &Client, steps: &[Step], is_dry_run: bool) -> usize {
    let creates_namespace = steps.iter().any(|step| &*step.kind.kind == "Namespace");
    let mut failed = 0;
    for step in steps {
        if is_dry_run && creates_namespace && step.kind.namespaced {
            continue;
        }
        let mut written = write(client, step, is_dry_run).await;
        for _ in 0..ATTEMPTS {
            // Admission waits for what controllers create in a new namespace, such as its service account.
            if is_dry_run || !written.as_ref().is_err_and(Error::is_forbidden) {
                break;
            }
            tokio::time::sleep(BACKOFF).await;
            written = write(client, step, is_dry_run).await;
        }
        if let Err(error) = written {
            failed += 1;
            eprintln!("{}: {error}", named(&step.object));
        }
    }
    failed
}

async fn write(client: &Client, step: &Step, is_dry_run: bool) -> Result<(), Error> {
    let namespace = meta::namespace(&step.object);
    let dry_run = if is_dry_run { "&dryRun=All" } else { "" };
    let query = format!("?fieldManager={MANAGER}{dry_run}");
    match &step.current {
        None => {
            let path = step.kind.collection(if step.kind.namespaced { namespace } else { "" });
            client.create_at(&format!("{path}{query}"), &step.object).await?;
        }
        Some(_) => {
            let path = step.kind.path(namespace, meta::name(&step.object), "");
            client.replace(&format!("{path}{query}"), &step.object).await?;
        }
    }
    Ok(())
}

fn confirmed(count: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Ok(false);
    }
    print!("write {count} objects? [y/N] ");
    std::io::stdout().flush().context("cannot write to the terminal")?;
    let mut answer = String::new();
    if std::io::stdin().read_line(&mut answer).context("cannot read from the terminal")? == 0 {
        bail!("no answer");
    }
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted() {
        let skipped = [("Pod", "a"), ("Event", "b"), ("Pod", "a"), ("ReplicaSet", "a")];
        let skipped = skipped.map(|(kind, why)| (kind.to_owned(), why));
        assert_eq!(left_out(&skipped), "left out: 2 Pod, 1 ReplicaSet (a)\nleft out: 1 Event (b)\n");
        assert_eq!(left_out(&[]), "");
    }
}
