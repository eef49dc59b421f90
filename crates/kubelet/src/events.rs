//! What the node tells about pods, in upstream's words.

use corten_api::Value;
use corten_reconcile::{Event, EventKind, Recorder};

use crate::pod::{Container, Pod, Role};

const COMPONENT: &str = "kubelet";

/// Tells what happens to one pod.
#[derive(Clone)]
pub(crate) struct Teller {
    recorder: Recorder,
    pod: Pod,
}

impl Teller {
    pub(crate) fn new(recorder: Recorder, pod: Pod) -> Teller {
        Teller { recorder, pod }
    }

    pub(crate) fn normal(&self, reason: &'static str, message: impl Into<String>) {
        self.recorder.record(Event::normal(COMPONENT, self.pod.tree(), reason, message));
    }

    pub(crate) fn warning(&self, reason: &'static str, message: impl Into<String>) {
        self.recorder.record(Event::warning(COMPONENT, self.pod.tree(), reason, message));
    }

    /// About one container: the event says which.
    pub(crate) fn of_container(
        &self,
        container: &Container,
        kind: EventKind,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let mut event = Event::normal(COMPONENT, self.pod.tree(), reason, message);
        event.kind = kind;
        event.about.set(&["fieldPath"], Value::from(field_path(container)));
        self.recorder.record(event);
    }
}

/// Where a container is in its pod.
fn field_path(container: &Container) -> String {
    let list = match container.role {
        Role::Init | Role::Sidecar => "initContainers",
        Role::Main => "containers",
        Role::Ephemeral => "ephemeralContainers",
    };
    format!("spec.{list}{{{}}}", container.name)
}
