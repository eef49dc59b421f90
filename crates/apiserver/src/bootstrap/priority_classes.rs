//! The priority classes of critical pods. Created at start if missing, and not changed later.

use corten_api::Value;

use super::{Failure, Kind, Local};

const KIND: Kind =
    Kind { group: "scheduling.k8s.io", version: "v1", resource: "priorityclasses", kind: "PriorityClass" };

const CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    if local.cache(&KIND).is_none() {
        return Ok(());
    }
    let missing = CLASSES.into_iter().filter(|(name, ..)| local.get(&KIND, "", name).is_none());
    let created = missing.map(|class| async move { local.create(&KIND, &object(class), "").await });
    futures_util::future::try_join_all(created).await.map(|_| ())
}

fn object((name, value, description): (&str, i64, &str)) -> Value {
    let mut object = KIND.named("", name);
    object.set(&["value"], value);
    object.set(&["description"], description);
    object
}
