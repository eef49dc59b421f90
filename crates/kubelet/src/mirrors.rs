//! Mirror pods: what the API server is shown of the pods that this node runs by itself. They only show: whatever is done to
//! one, the node goes on, and shows it again.
//!
//! *Invariant:* there is a mirror for every static pod and for nothing else, once the API server can be reached.

use std::sync::Arc;

use corten_api::{Value, meta, value};
use corten_client::{DeleteOptions, Error, Key, Object, kinds};

use crate::machine::Machine;
use crate::pod::Pod;

const MIRROR: &str = "kubernetes.io/config.mirror";
const HASH: &str = "kubernetes.io/config.hash";

pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

/// The mirror of a static pod, if it shows the pod as it is.
pub(crate) fn of(machine: &Machine, pod: &Pod) -> Option<Arc<Object>> {
    machine.caches.of(&machine.bound_pods).get(pod.key()).filter(|mirror| shows(&mirror.tree(), pod))
}

fn shows(mirror: &Value, pod: &Pod) -> bool {
    let shown = mirror.str_at(&["metadata", "annotations", MIRROR]);
    shown.is_some() && shown == pod.tree().str_at(&["metadata", "annotations", HASH])
}

/// Makes the API server show a static pod as it is.
pub(crate) async fn show(machine: &Machine, pod: &Pod) -> Result<(), Error> {
    let cache = machine.caches.of(&machine.bound_pods);
    let node = machine.caches.of(&machine.own_node).get(&Key::new("", machine.config.node_name.as_str()));
    // A node that is unknown or on its way out shows nothing.
    let Some(node) =
        node.filter(|node| cache.is_synced() && node.tree().at(&["metadata", "deletionTimestamp"]).is_none())
    else {
        return Ok(());
    };
    match cache.get(pod.key()).map(|mirror| mirror.tree()) {
        Some(mirror) if !is_mirror(&mirror) => Ok(()),
        Some(mirror) if shows(&mirror, pod) && mirror.at(&["metadata", "deletionTimestamp"]).is_none() => {
            Ok(())
        }
        Some(mirror) => remove(machine, pod.key(), meta::uid(&mirror)).await,
        None => {
            let made = machine.client.create(&kinds::PODS, &mirror(pod, &node)).await;
            match made {
                Err(error) if error.already_exists() => Ok(()),
                made => made.map(drop),
            }
        }
    }
}

/// What the API server is shown.
fn mirror(pod: &Pod, node: &Object) -> Value {
    let mut mirror = pod.tree().clone();
    let hash = mirror.str_at(&["metadata", "annotations", HASH]).unwrap_or_default().to_owned();
    mirror.set(&["metadata", "annotations", MIRROR], hash);
    mirror.remove(&["metadata", "uid"]);
    let owner = value!([{
        "apiVersion": "v1", "kind": "Node", "name": (node.key.name.as_str()), "uid": (node.uid.as_str()),
        "controller": true,
    }]);
    mirror.set(&["metadata", "ownerReferences"], owner);
    mirror
}

/// Takes an object away whose pod is gone or never was.
pub(crate) async fn remove(machine: &Machine, key: &Key, uid: &str) -> Result<(), Error> {
    let options = DeleteOptions { grace_seconds: Some(0), uid: Some(uid.into()), ..DeleteOptions::default() };
    match machine.client.delete(&kinds::PODS, key, &options).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}

/// Takes the mirrors away that show nothing.
pub(crate) async fn remove_orphans(machine: &Machine) {
    let wanted = machine.pods.all();
    for mirror in machine.caches.of(&machine.bound_pods).list("") {
        let shown = wanted.iter().any(|pod| pod.is_static() && *pod.key() == mirror.key);
        if shown || !is_mirror(&mirror.tree()) {
            continue;
        }
        if let Err(error) = remove(machine, &mirror.key, &mirror.uid).await {
            tracing::warn!(pod = %mirror.key, %error, "a mirror pod could not be deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;

    #[test]
    fn a_mirror_shows_one_pod_as_it_is() {
        let tree = |key: &str, hash: &str| {
            let mut tree = value!({"metadata": {"name": "p"}});
            tree.set(&["metadata", "annotations", key], hash);
            tree
        };
        let pod = Pod::new(tree(HASH, "1"), Source::File);
        assert!(shows(&tree(MIRROR, "1"), &pod));
        assert!(!shows(&tree(MIRROR, "2"), &pod));
        assert!(!shows(&tree("other", "1"), &pod));
        assert!(is_mirror(&tree(MIRROR, "1")) && !is_mirror(&tree(HASH, "1")));
    }
}
