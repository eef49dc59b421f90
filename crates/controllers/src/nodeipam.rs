//! Node IPAM: allocates a pod CIDR to every node.
//!
//! Watches nodes. Writes `podCIDR` and `podCIDRs` of nodes without one, once; an existing pod CIDR is never changed. It
//! is free again when its node is deleted. There is no other state than the nodes': after a restart their pod CIDRs are
//! occupied before any is allocated.
//!
//! Not a `Controller`: an allocation has to be occupied in memory before the request and released after a refusal.

pub(crate) mod cidr;
mod options;
mod set;

use std::sync::Arc;

use corten_api::{Str, Value, meta, value};
use corten_base::Clock;
use corten_client::{Cache, Client, Error, Key, Object, Patch, kinds};
use corten_reconcile::{Manager, Queue, Recorder};
use parking_lot::Mutex;

use crate::nodes::{self, NodeView};
use cidr::Cidr;
pub use options::{MaskSizes, NodeIpamOptions};
use set::CidrSet;

const NAME: &str = "node-ipam-controller";
const COMPONENT: &str = "cidrAllocator";
const WORKERS: usize = 8;
/// The number of attempts before an allocation is released.
const TRIES: usize = 3;

/// Starts the controller, if it has cluster CIDRs.
pub(crate) fn start(manager: &Manager, options: Option<&NodeIpamOptions>) {
    let Some(options) = options.filter(|_| manager.is_selected(NAME)) else { return };
    let sets = match options.sets() {
        Ok(sets) => Allocator(sets),
        Err(error) => {
            return tracing::error!(
                controller = NAME,
                err = error,
                "invalid cluster CIDRs; no pod CIDRs are allocated"
            );
        }
    };
    let ipam = Arc::new(Ipam {
        client: manager.client_for(nodes::ACCOUNT),
        recorder: manager.recorder().clone(),
        nodes: manager.caches().of(&kinds::NODES),
        clock: manager.clock().clone(),
        allocator: Mutex::new(sets),
    });
    let queue = manager.queue(NAME);
    let (added, known) = (queue.clone(), ipam.clone());
    ipam.nodes.subscribe(move |change| match (&change.old, &change.new) {
        (Some(old), None) => known.release(old),
        (None, Some(new)) if !cidrs(new).is_empty() => known.occupy(new),
        (Some(old), Some(new)) if !cidrs(new).is_empty() => {
            if cidrs(old).is_empty() {
                known.occupy(new);
            }
        }
        _ => added.add(change.object().key.clone()),
    });
    for _ in 0..WORKERS {
        manager.spawn(ipam.clone().run(queue.clone()));
    }
}

fn cidrs(node: &Object) -> Vec<Str> {
    node.view::<NodeView>().pod_cidrs.clone()
}

struct Ipam {
    client: Client,
    recorder: Recorder,
    nodes: Arc<Cache>,
    clock: Clock,
    allocator: Mutex<Allocator>,
}

impl Ipam {
    async fn run(self: Arc<Self>, queue: Arc<Queue>) {
        // Nothing is allocated before the occupied CIDRs are known.
        self.nodes.synced().await;
        loop {
            let key = queue.next().await;
            let result = self.assign(&key).await;
            if let Err(error) = &result {
                tracing::warn!(controller = NAME, node = %key, err = error, "cannot allocate pod CIDR; retrying");
            }
            queue.done(&key, result.is_err(), None);
        }
    }

    /// Allocates a pod CIDR to a node without one.
    async fn assign(&self, key: &Key) -> Result<(), String> {
        let without = |node: &Arc<Object>| !node.deleting && cidrs(node).is_empty();
        let Some(node) = self.nodes.get(key).filter(without) else { return Ok(()) };
        let allocated = self.allocator.lock().allocate();
        let allocated = allocated.inspect_err(|_| self.record_event(&node, "CIDRNotAvailable"))?;
        // Another process may have been faster.
        if !self.nodes.get(key).as_ref().is_some_and(without) {
            self.allocator.lock().release(&allocated);
            return Ok(());
        }
        let mut result = self.write(key, &allocated).await;
        for _ in 1..TRIES {
            if result.is_err() {
                result = self.write(key, &allocated).await;
            }
        }
        result.map_err(|error| {
            self.record_event(&node, "CIDRAssignmentFailed");
            // Without a response the node may have the CIDRs all the same.
            if error.code() != 0 && error.code() != 504 {
                self.allocator.lock().release(&allocated);
            }
            error.to_string()
        })
    }

    /// Writes the pod CIDRs of a node, and waits for the cache: a stale node would get others.
    async fn write(&self, key: &Key, cidrs: &[Cidr]) -> Result<(), Error> {
        let patch = Patch::Strategic(assignment(cidrs));
        let written = self.client.patch(&kinds::NODES, key, &patch, "").await?;
        let version = meta::resource_version(&written).parse().unwrap_or(0);
        nodes::seen(&self.nodes, version, &self.clock).await;
        Ok(())
    }

    fn record_event(&self, node: &Object, state: &'static str) {
        self.recorder.record(nodes::status_event(COMPONENT, &node.key.name, &node.uid, state));
    }

    fn occupy(&self, node: &Object) {
        if let Err(error) = self.allocator.lock().occupy(&cidrs(node)) {
            tracing::error!(controller = NAME, node = %node.key, err = error, "pod CIDR of node is outside the cluster CIDRs");
        }
    }

    fn release(&self, node: &Object) {
        let ours: Vec<_> = cidrs(node).iter().filter_map(|cidr| cidr.parse().ok()).collect();
        self.allocator.lock().release(&ours);
    }
}

/// The allocators: one set for each cluster CIDR.
struct Allocator(Vec<CidrSet>);

impl Allocator {
    /// Allocates one CIDR of each set, or none.
    fn allocate(&mut self) -> Result<Vec<Cidr>, String> {
        let mut allocated = Vec::new();
        for (at, set) in self.0.iter_mut().enumerate() {
            let Some(cidr) = set.allocate() else {
                self.release(&allocated);
                return Err(format!(
                    "failed to allocate cidr from cluster cidr at idx:{at}: CIDR allocation failed; there are no \
                     remaining CIDRs left to allocate in the accepted range"
                ));
            };
            allocated.push(cidr);
        }
        Ok(allocated)
    }

    fn occupy(&mut self, cidrs: &[Str]) -> Result<(), String> {
        for (at, cidr) in cidrs.iter().enumerate() {
            let Some(set) = self.0.get_mut(at) else {
                return Err(format!(
                    "cidr: {cidr} at index:{at} does not exist in cluster cidrs configuration"
                ));
            };
            set.occupy(&cidr.parse()?)?;
        }
        Ok(())
    }

    /// Releases the CIDRs that belong to the sets.
    fn release(&mut self, cidrs: &[Cidr]) {
        for (set, cidr) in self.0.iter_mut().zip(cidrs) {
            if let Err(error) = set.release(cidr) {
                tracing::debug!(
                    controller = NAME,
                    err = error,
                    "released pod CIDR is outside the cluster CIDRs"
                );
            }
        }
    }
}

fn assignment(cidrs: &[Cidr]) -> Value {
    let all: Vec<Value> = cidrs.iter().map(|cidr| cidr.to_string().into()).collect();
    let first = all.first().cloned().unwrap_or_default();
    value!({"spec": {"podCIDR": (first), "podCIDRs": (all)}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocator(cluster: &str) -> Allocator {
        Allocator(NodeIpamOptions::new(cluster, MaskSizes::default(), "").unwrap().sets().unwrap())
    }

    fn texts(cidrs: &[Cidr]) -> Vec<String> {
        cidrs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_node_gets_a_part_of_each_range() {
        let mut allocator = allocator("10.244.0.0/16,fd00::/56");
        assert_eq!(texts(&allocator.allocate().unwrap()), ["10.244.0.0/24", "fd00::/64"]);
        let second = allocator.allocate().unwrap();
        assert_eq!(
            assignment(&second),
            value!({"spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:0:0:1::/64"]}})
        );
    }

    #[test]
    fn a_range_that_is_used_up_takes_nothing_of_the_other() {
        let mut allocator = allocator("10.244.0.0/23,fd00::/64");
        allocator.allocate().unwrap();
        assert!(allocator.allocate().unwrap_err().contains("idx:1"));
        allocator.release(&["10.244.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()]);
        assert_eq!(texts(&allocator.allocate().unwrap()), ["10.244.0.0/24", "fd00::/64"]);
    }

    #[test]
    fn pod_cidrs_of_nodes_are_occupied() {
        let mut allocator = allocator("10.244.0.0/16");
        allocator.occupy(&["10.244.0.0/24".into()]).unwrap();
        assert_eq!(texts(&allocator.allocate().unwrap()), ["10.244.1.0/24"]);
        for bad in [&["10.9.0.0/24"][..], &["garbage"], &["10.244.5.0/24", "fd00::/64"]] {
            let bad: Vec<Str> = bad.iter().map(Str::new).collect();
            assert!(allocator.occupy(&bad).is_err(), "{bad:?}");
        }
    }
}
