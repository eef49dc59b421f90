//! The labels, annotations and paths of sandboxes and containers.
//!
//! They are upstream's, because other tools on the node look for them.

use corten_api::{Map as Object, Value, json};
use corten_container::{ContainerStatus, Map};

use crate::pod::{Container, Pod};

pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const POD_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const CONTAINER_NAME: &str = "io.kubernetes.container.name";
const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
pub(crate) const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
pub(crate) const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// The labels of every sandbox and container of a pod.
pub(crate) fn pod_labels(pod: &Pod) -> Map {
    let labels = [(POD_NAME, pod.name()), (POD_NAMESPACE, pod.namespace()), (POD_UID, pod.uid())];
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The labels that select a pod's sandboxes and containers.
pub(crate) fn of_pod(uid: &str) -> Map {
    Map::from([(POD_UID.to_owned(), uid.to_owned())])
}

/// A sandbox also has the pod's own labels.
pub(crate) fn sandbox_labels(pod: &Pod) -> Map {
    let mut labels = texts(pod.tree().at(&["metadata", "labels"]));
    labels.extend(pod_labels(pod));
    labels
}

pub(crate) fn sandbox_annotations(pod: &Pod) -> Map {
    let mut annotations = texts(pod.tree().at(&["metadata", "annotations"]));
    annotations.insert(CONFIG_SOURCE.to_owned(), pod.source().name().to_owned());
    annotations
}

pub(crate) fn container_labels(pod: &Pod, container: &Container) -> Map {
    let mut labels = pod_labels(pod);
    labels.insert(CONTAINER_NAME.to_owned(), container.name.to_string());
    labels
}

pub(crate) fn container_annotations(pod: &Pod, container: &Container, attempt: u32) -> Map {
    let text = |key: &str| container.tree.str_at(&[key]).unwrap_or_default().to_owned();
    let mut annotations = Map::from([
        (CONTAINER_HASH.to_owned(), hash(container)),
        (RESTART_COUNT.to_owned(), attempt.to_string()),
        (TERMINATION_MESSAGE_PATH.to_owned(), text("terminationMessagePath")),
        (TERMINATION_MESSAGE_POLICY.to_owned(), text("terminationMessagePolicy")),
    ]);
    if let Some(seconds) = pod.tree().int_at(&["spec", "terminationGracePeriodSeconds"]) {
        annotations.insert(GRACE.to_owned(), seconds.to_string());
    }
    annotations
}

/// Returns true if a container was created from another definition.
pub(crate) fn is_changed(container: &Container, status: &ContainerStatus) -> bool {
    status.annotations.get(CONTAINER_HASH).is_some_and(|known| *known != hash(container))
}

/// A hash of the fields that must not change while a container runs: its name and its image.
fn hash(container: &Container) -> String {
    let mut fields = Object::new();
    fields.insert("image", container.image());
    fields.insert("name", container.name.clone());
    let text = json::write_to_string(&Value::Object(fields));
    let hash =
        text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}

fn texts(map: Option<&Value>) -> Map {
    let entries = map.and_then(Value::as_object).into_iter().flat_map(Object::iter);
    entries.filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned()))).collect()
}

/// The directory of the logs of a pod's containers.
pub(crate) fn log_directory(root: &str, pod: &Pod) -> String {
    format!("{root}/{}_{}_{}", pod.namespace(), pod.name(), pod.uid())
}

/// The path of the log of one attempt at a container, within its pod's directory.
pub(crate) fn log_path(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}.log")
}
