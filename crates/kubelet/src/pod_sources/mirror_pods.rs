//! Mirror pods: the API server's view of static pods. Deleting or changing a mirror pod has no effect on the static
//! pod; the mirror pod is created again.
//!
//! *Invariant:* there is a mirror pod for every static pod and for nothing else, once the API server can be reached.

use std::sync::Arc;

use corten_api::pods::MIRROR_ANNOTATION as MIRROR;
use corten_api::{Value, meta, value};
use corten_client::{DeleteOptions, Error, Key, Object, kinds};

use crate::api_server::ApiServer;
use crate::pod::Pod;

const HASH: &str = "kubernetes.io/config.hash";

pub(crate) fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

/// The mirror pod of a static pod, if it mirrors the present version.
pub(crate) fn of(api: &ApiServer, pod: &Pod) -> Option<Arc<Object>> {
    api.bound_pods().get(pod.key()).filter(|mirror| mirrors_version(&mirror.tree(), pod))
}

fn mirrors_version(mirror: &Value, pod: &Pod) -> bool {
    let shown = mirror.str_at(&["metadata", "annotations", MIRROR]);
    shown.is_some() && shown == pod.tree().str_at(&["metadata", "annotations", HASH])
}

/// Creates or replaces the mirror pod of a static pod.
pub(crate) async fn ensure(api: &ApiServer, pod: &Pod) -> Result<(), Error> {
    let cache = api.bound_pods();
    let node = api.own_node();
    // A Node that does not exist or is being deleted has no mirror pods.
    let Some(node) =
        node.filter(|node| cache.is_synced() && node.tree().at(&["metadata", "deletionTimestamp"]).is_none())
    else {
        return Ok(());
    };
    match cache.get(pod.key()).map(|mirror| mirror.tree()) {
        Some(mirror) if !is_mirror(&mirror) => Ok(()),
        Some(mirror)
            if mirrors_version(&mirror, pod) && mirror.at(&["metadata", "deletionTimestamp"]).is_none() =>
        {
            Ok(())
        }
        Some(mirror) => delete(api, pod.key(), meta::uid(&mirror)).await,
        None => {
            let made = api.client.create(&kinds::PODS, &mirror(pod, &node)).await;
            match made {
                Err(err) if err.already_exists() => Ok(()),
                made => made.map(drop),
            }
        }
    }
}

/// The mirror pod of a static pod.
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

/// Deletes the object of a pod that is gone.
pub(crate) async fn delete(api: &ApiServer, key: &Key, uid: &str) -> Result<(), Error> {
    let options = DeleteOptions { grace_seconds: Some(0), uid: Some(uid.into()), ..DeleteOptions::default() };
    match api.client.delete(&kinds::PODS, key, &options).await {
        Err(err) if !err.is_not_found() && !err.is_conflict() => Err(err),
        _ => Ok(()),
    }
}

/// Deletes the mirror pods that have no static pod.
pub(crate) async fn remove_orphans(api: &ApiServer, pods: &[Pod]) {
    for mirror in api.bound_pods().list("") {
        let shown = pods.iter().any(|pod| pod.is_static() && *pod.key() == mirror.key);
        if shown || !is_mirror(&mirror.tree()) {
            continue;
        }
        if let Err(err) = delete(api, &mirror.key, &mirror.uid).await {
            tracing::warn!(pod = %mirror.key, %err, "cannot delete orphaned mirror pod");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Source;

    #[test]
    fn a_mirror_pod_matches_one_version_of_a_pod() {
        let tree = |key: &str, hash: &str| {
            let mut tree = value!({"metadata": {"name": "p"}});
            tree.set(&["metadata", "annotations", key], hash);
            tree
        };
        let pod = Pod::new(tree(HASH, "1"), Source::File);
        assert!(mirrors_version(&tree(MIRROR, "1"), &pod));
        assert!(!mirrors_version(&tree(MIRROR, "2"), &pod));
        assert!(!mirrors_version(&tree("other", "1"), &pod));
        assert!(is_mirror(&tree(MIRROR, "1")) && !is_mirror(&tree(HASH, "1")));
    }
}
