//! A pod lifecycle event generator for runtimes without events: sandboxes and containers are listed every second, and
//! the workers of pods whose state changed sync.
//!
//! Never used with a runtime that reports events.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use corten_container::{
    Container, ContainerFilter, ContainerState, PodSandbox, PodSandboxFilter, PodSandboxState,
};

use crate::containers::labels::POD_UID;
use crate::kubelet::Kubelet;

const PERIOD: Duration = Duration::from_secs(1);

/// The states of a pod's sandboxes and containers, by id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Seen(BTreeMap<String, State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Sandbox(PodSandboxState),
    Container(ContainerState),
}

type All = HashMap<String, Seen>;

/// Relists periodically, for good.
pub(crate) async fn run(kubelet: Arc<Kubelet>) {
    let mut before: Option<All> = None;
    loop {
        let now = match list(&kubelet).await {
            Ok(now) => Some(now),
            Err(err) => {
                tracing::debug!(%err, "cannot list sandboxes and containers; retrying");
                None
            }
        };
        if before.is_some() != now.is_some() {
            // A runtime that stops or starts responding changes the node's Ready condition.
            kubelet.node.changed.notify_one();
        }
        match (&before, &now) {
            (Some(before), Some(now)) => {
                changed(before, now).for_each(|uid| kubelet.pod_workers.sync_pod(uid))
            }
            (None, Some(_)) => kubelet.pod_workers.sync_all(),
            _ => {}
        }
        before = now;
        kubelet.clock.sleep(PERIOD).await;
    }
}

async fn list(kubelet: &Kubelet) -> corten_container::Result<All> {
    let sandboxes = kubelet.containers.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await?;
    let containers = kubelet.containers.runtime.list_containers(&ContainerFilter::default()).await?;
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

/// The pods whose state changed.
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
    fn changed_pods_are_found() {
        let running = |uid: &str| container(uid, ContainerState::Running);
        let before = seen(&[], &[running("a"), running("b"), running("c"), Container::default()]);
        let now = seen(&[], &[running("a"), container("b", ContainerState::Exited), running("d")]);
        let mut found: Vec<&str> = changed(&before, &now).map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["b", "c", "d"]);
        assert_eq!(changed(&now, &now).count(), 0);
    }
}
