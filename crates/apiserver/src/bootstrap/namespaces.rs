//! The system namespaces.

use super::{Failure, Kind, Local};

pub(super) const KIND: Kind = Kind { group: "", version: "v1", resource: "namespaces", kind: "Namespace" };

const NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    let missing = NAMES.into_iter().filter(|name| local.get(&KIND, "", name).is_none());
    let created = missing.map(|name| async move { local.create(&KIND, &KIND.named("", name), "").await });
    futures_util::future::try_join_all(created).await.map(|_| ())
}
