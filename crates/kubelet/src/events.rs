//! Events about pods, in upstream's words.

use std::borrow::Cow;

use corten_api::{Str, Value};
use corten_reconcile::{Event, EventKind, Recorder};

use crate::pod::{Container, Pod, Role};

const COMPONENT: &str = "kubelet";

/// Records the events of one pod.
#[derive(Clone)]
pub(crate) struct PodEventRecorder {
    recorder: Recorder,
    pod: Pod,
    node: Str,
}

impl PodEventRecorder {
    pub(crate) fn new(recorder: Recorder, pod: Pod, node: &str) -> PodEventRecorder {
        PodEventRecorder { recorder, pod, node: Str::new(node) }
    }

    pub(crate) fn normal(&self, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        self.record(Event::normal(COMPONENT, self.pod.tree(), reason, message));
    }

    pub(crate) fn warning(&self, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) {
        self.record(Event::warning(COMPONENT, self.pod.tree(), reason, message));
    }

    fn record(&self, event: Event) {
        self.recorder.record(Event { host: self.node.clone(), ..event });
    }

    /// Records an event about one container, which the event's field path names.
    pub(crate) fn of_container(
        &self,
        container: &Container,
        kind: EventKind,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let mut event = Event::normal(COMPONENT, self.pod.tree(), reason, message);
        event.kind = kind;
        event.about.set(&["fieldPath"], Value::from(field_path(container)));
        self.record(event);
    }
}

/// The field path of a container in its pod.
fn field_path(container: &Container) -> String {
    let list = match container.role {
        Role::Init | Role::Sidecar => "initContainers",
        Role::Main => "containers",
        Role::Ephemeral => "ephemeralContainers",
    };
    format!("spec.{list}{{{}}}", container.name)
}
