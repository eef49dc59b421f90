//! What happens to containers, for runtimes that do not tell: everything is listed every second, and whoever's pod is not
//! what it was is told to look.
//!
//! Never used with a runtime that tells.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use corten_container::{
    Container, ContainerFilter, ContainerState, PodSandbox, PodSandboxFilter, PodSandboxState,
};

use crate::machine::Machine;
use crate::names::POD_UID;

const PERIOD: Duration = Duration::from_secs(1);

/// How everything of a pod was.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Seen(BTreeMap<String, State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Sandbox(PodSandboxState),
    Container(ContainerState),
}

type All = HashMap<String, Seen>;

/// Compares lists, for good.
pub(crate) async fn run(machine: Arc<Machine>) {
    let mut before: Option<All> = None;
    loop {
        let now = match list(&machine).await {
            Ok(now) => Some(now),
            Err(error) => {
                tracing::debug!(%error, "the runtime did not say what it has");
                None
            }
        };
        if before.is_some() != now.is_some() {
            // Whether the runtime answers is a condition of the node.
            machine.news.notify_one();
        }
        match (&before, &now) {
            (Some(before), Some(now)) => changed(before, now).for_each(|uid| machine.pods.wake(uid)),
            (None, Some(_)) => machine.pods.wake_all(),
            _ => {}
        }
        before = now;
        machine.clock.sleep(PERIOD).await;
    }
}

async fn list(machine: &Machine) -> corten_container::Result<All> {
    let sandboxes = machine.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?;
    let containers = machine.runtime.list_containers(&ContainerFilter::default()).await?;
    Ok(seen(&sandboxes, &containers))
}

fn seen(sandboxes: &[PodSandbox], containers: &[Container]) -> All {
    let mut all = All::new();
    let mut note = |uid: Option<&String>, id: &str, state| {
        if let Some(uid) = uid {
            all.entry(uid.clone()).or_default().0.insert(id.to_owned(), state);
        }
    };
    for sandbox in sandboxes {
        note(sandbox.labels.get(POD_UID), &sandbox.id, State::Sandbox(sandbox.state));
    }
    for container in containers {
        note(container.labels.get(POD_UID), &container.id, State::Container(container.state));
    }
    all
}

/// The pods that are not what they were.
fn changed<'a>(before: &'a All, now: &'a All) -> impl Iterator<Item = &'a String> {
    let gone = before.keys().filter(|uid| !now.contains_key(*uid));
    now.iter().filter(|(uid, seen)| before.get(*uid) != Some(seen)).map(|(uid, _)| uid).chain(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(uid: &str, state: ContainerState) -> Container {
        let labels = [(POD_UID.to_owned(), uid.to_owned())].into();
        Container { id: format!("c-{uid}"), state, labels, ..Container::default() }
    }

    #[test]
    fn who_changed_is_told() {
        let running = |uid: &str| container(uid, ContainerState::Running);
        let before = seen(&[], &[running("a"), running("b"), running("c"), Container::default()]);
        let now = seen(&[], &[running("a"), container("b", ContainerState::Exited), running("d")]);
        let mut found: Vec<&str> = changed(&before, &now).map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["b", "c", "d"]);
        assert_eq!(changed(&now, &now).count(), 0);
    }
}
