//! Aggregated API servers: the group versions of APIServices that name a Service.
//!
//! `target` is the connection to one of them, `proxy` forwards requests, `availability` checks it, `discovery` and `openapi`
//! fetch and merge its documents, `controller` follows the APIServices and runs those tasks, `watch` lets components of this
//! process watch aggregated resources.
//!
//! *Invariants:* a request is authenticated and authorized here before it is forwarded, and what the client says about its
//! identity is never forwarded. A connection goes only to a ready endpoint of the named Service, whatever the aggregated
//! server responds. Whatever it responds is bounded in time and memory, and no request for another group waits for it.
//! Without such an APIService nothing of this runs: a request costs one atomic load.

mod availability;
mod controller;
mod discovery;
pub(crate) mod fuzz;
mod identity;
mod openapi;
mod order;
mod proxy;
mod target;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corten_api::{Str, Value, meta};
use corten_pki::ServerPki;
use parking_lot::RwLock;

pub(crate) use controller::{refresh, run};
pub(crate) use discovery::answer as discovery;
use openapi::{Specs, document_target};
pub(crate) use openapi::{index_entries, merged};
pub(crate) use proxy::{encoded_path, forward};
pub use target::FrontProxyError;
pub(crate) use watch::events as watch_events;

use crate::bootstrap::Kind;
use crate::resource_metrics;
use target::{FrontProxyClient, Target};

pub(crate) const KIND: Kind =
    Kind { group: "apiregistration.k8s.io", version: "v1", resource: "apiservices", kind: "APIService" };

/// The aggregated API servers, as the APIServices name them.
pub(crate) struct Aggregation {
    client: FrontProxyClient,
    /// False while no APIService names a Service.
    is_used: AtomicBool,
    table: RwLock<Arc<Table>>,
    specs: Specs,
}

/// The group versions of other servers, by the names of their APIServices.
#[derive(Default)]
pub(crate) struct Table(BTreeMap<String, Entry>);

/// One APIService that names a Service.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) target: Arc<Target>,
    group_priority: i64,
}

impl Aggregation {
    pub(crate) fn new(pki: &ServerPki) -> Result<Aggregation, FrontProxyError> {
        Ok(Aggregation {
            client: FrontProxyClient::new(pki)?,
            is_used: AtomicBool::new(false),
            table: RwLock::default(),
            specs: Specs::default(),
        })
    }

    /// The aggregated servers; `None` if there are none.
    pub(crate) fn used(&self) -> Option<Arc<Table>> {
        self.is_used.load(Ordering::Acquire).then(|| self.table.read().clone())
    }

    /// The server of a request's path, if it is not this one.
    pub(crate) fn find(&self, path: &str) -> Option<Entry> {
        let table = self.used()?;
        let found = group_version(path).and_then(|(group, version)| table.get(group, version));
        found.cloned().or_else(|| document_target(self, path))
    }

    /// True if another server serves a group version.
    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        self.used().is_some_and(|table| table.get(group, version).is_some())
    }

    /// True if a resource of this server is hidden: another server serves its version or, for metrics, its group.
    pub(crate) fn hides(&self, group: &str, version: &str) -> bool {
        self.used().is_some_and(|table| table.hides(group, version))
    }

    fn set(&self, table: Table) {
        let is_used = !table.0.is_empty();
        *self.table.write() = Arc::new(table);
        self.is_used.store(is_used, Ordering::Release);
    }
}

impl Table {
    pub(crate) fn get(&self, group: &str, version: &str) -> Option<&Entry> {
        self.0.get(&format!("{version}.{group}"))
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.0.values().any(|entry| entry.target.group == group)
    }

    /// True if this server's own resources of a group version are hidden.
    pub(crate) fn hides(&self, group: &str, version: &str) -> bool {
        // An installed metrics server replaces the built-in metrics in all versions: two sources would disagree.
        (group == resource_metrics::GROUP && self.has_group(group)) || self.get(group, version).is_some()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.values()
    }
}

/// The group and version of a path below `/apis/GROUP/VERSION`, or of the core group.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.strip_prefix('/')?.split('/');
    match parts.next()? {
        "apis" => {
            let (group, version) = (parts.next()?, parts.next()?);
            // The aggregator's own group is never another server's.
            (!group.is_empty() && !version.is_empty() && group != KIND.group).then_some((group, version))
        }
        "api" => Some(("", "v1")),
        _ => None,
    }
}

/// Group, version and priorities of an APIService.
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
}

impl Registered {
    fn of(object: &Value) -> Registered {
        let text = |key: &str| Str::new(object.str_at(&["spec", key]).unwrap_or_default());
        let number = |key: &str| object.int_at(&["spec", key]).unwrap_or(0);
        Registered {
            name: meta::name(object).to_owned(),
            group: text("group"),
            version: text("version"),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_aggregated_servers() {
        for (path, expected) in [
            ("/apis/g.io/v1", Some(("g.io", "v1"))),
            ("/apis/g.io/v1/", Some(("g.io", "v1"))),
            ("/apis/g.io/v1/namespaces/n/things", Some(("g.io", "v1"))),
            ("/apis/g.io", None),
            ("/apis", None),
            ("/apis//v1", None),
            ("/apis/apiregistration.k8s.io/v1/apiservices", None),
            ("/api/v1/pods", Some(("", "v1"))),
            ("/openapi/v2", None),
            ("//apis/g.io/v1", None),
        ] {
            assert_eq!(group_version(path), expected, "{path}");
        }
    }
}
