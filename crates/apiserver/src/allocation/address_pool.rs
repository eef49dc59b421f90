//! The free addresses: those in the ranges of `ServiceCIDR` objects without an `IPAddress`.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use corten_api::{Status, Value, managed, meta, time};
use corten_store::{Expect, Op};
use parking_lot::Mutex;

use super::cidr::{Cidr, Family};
use super::cluster_ips::{AddressError, Pool};
use crate::cache::Cache;
use crate::call::{Backend, Call};
use crate::random;
use crate::verbs::{Companions, Ownership, put_op};

pub(super) const GROUP: &str = "networking.k8s.io";
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
pub(super) const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub(super) const ALLOCATOR: &str = "ipallocator.k8s.io";

fn objects(backend: &Backend) -> Vec<Value> {
    let cache = backend.catalog.cache(GROUP, "servicecidrs");
    let objects = cache.map(|cache| cache.snapshot("", None).objects).unwrap_or_default();
    objects.iter().map(|object| object.tree()).collect()
}

/// The ranges to allocate from: those of `ServiceCIDR` objects that are not unready and not being deleted.
pub(super) fn ready_ranges(backend: &Backend) -> Vec<Cidr> {
    let mut objects = objects(backend);
    objects.retain(|object| is_ready(object) && !meta::is_deleting(object));
    ranges_of(&objects)
}

/// The ranges that addresses may have been allocated from.
pub(super) fn all_ranges(backend: &Backend) -> Vec<Cidr> {
    ranges_of(&objects(backend))
}

fn ranges_of(objects: &[Value]) -> Vec<Cidr> {
    let mut ranges = Vec::new();
    for object in objects {
        let found =
            object.items_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str).filter_map(Cidr::parse);
        for range in found {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    ranges
}

fn is_ready(object: &Value) -> bool {
    let mut conditions = object.items_at(&["status", "conditions"]).iter();
    let ready = conditions.find(|condition| condition.str_at(&["type"]) == Some("Ready"));
    ready.is_none_or(|condition| condition.str_at(&["status"]) == Some("True"))
}

/// An address that a pending write has picked.
struct Reservation {
    address: IpAddr,
    pending: Arc<Mutex<HashSet<IpAddr>>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pending.lock().remove(&self.address);
    }
}

/// The pool of a write that will be committed.
pub(super) struct LivePool<'a> {
    backend: &'a Arc<Backend>,
    ranges: Vec<Cidr>,
    addresses: Option<Arc<Cache>>,
    reserved: Vec<Reservation>,
}

impl<'a> LivePool<'a> {
    pub(super) fn new(backend: &'a Arc<Backend>) -> LivePool<'a> {
        let addresses = backend.catalog.cache(GROUP, "ipaddresses");
        LivePool { backend, ranges: ready_ranges(backend), addresses, reserved: Vec::new() }
    }

    fn is_taken(&self, address: IpAddr) -> bool {
        let known = self.addresses.as_ref().is_none_or(|cache| cache.get("", &address.to_string()).is_some());
        known || self.backend.allocators.pending.lock().contains(&address)
    }

    fn reserve(&mut self, address: IpAddr) -> bool {
        let pending = &self.backend.allocators.pending;
        let fresh = pending.lock().insert(address);
        if fresh {
            self.reserved.push(Reservation { address, pending: pending.clone() });
        }
        fresh
    }

    /// Adds the creation of one `IPAddress` object to the service's transaction; the others are created before.
    pub(super) fn finish(self, service: &Value, companions: &mut Companions) -> Result<(), Status> {
        for reservation in self.reserved {
            let claim = claim(self.backend, reservation.address, service)?;
            let ops = if companions.ops.is_empty() { &mut companions.ops } else { &mut companions.before };
            ops.push(claim);
            companions.held.push(Box::new(reservation));
        }
        Ok(())
    }
}

impl Pool for LivePool<'_> {
    fn take_any(&mut self, family: Family) -> Result<IpAddr, AddressError> {
        for range in self.ranges.clone().into_iter().filter(|range| range.family() == family) {
            while let Some(address) = range.free(|address| self.is_taken(address), random::below) {
                if self.reserve(address) {
                    return Ok(address);
                }
            }
        }
        Err(AddressError::Full)
    }

    fn take(&mut self, address: IpAddr) -> Result<(), AddressError> {
        if !self.ranges.iter().any(|range| range.offers(address)) {
            return Err(AddressError::MismatchedNetwork);
        }
        if self.is_taken(address) || !self.reserve(address) {
            return Err(AddressError::Allocated);
        }
        Ok(())
    }
}

/// The pool of a dry run: it neither searches for free addresses nor finds one allocated.
pub(super) struct DryPool {
    ranges: Vec<Cidr>,
}

impl DryPool {
    pub(super) fn new(backend: &Backend) -> DryPool {
        DryPool { ranges: ready_ranges(backend) }
    }
}

impl Pool for DryPool {
    fn take_any(&mut self, family: Family) -> Result<IpAddr, AddressError> {
        let range = self.ranges.iter().find(|range| range.family() == family);
        range.map(Cidr::network).ok_or(AddressError::Full)
    }

    fn take(&mut self, address: IpAddr) -> Result<(), AddressError> {
        let family = Family::of(address);
        let range = self.ranges.iter().find(|range| range.family() == family);
        match range {
            _ if self.ranges.iter().any(|range| range.offers(address)) => Ok(()),
            Some(range) => Err(AddressError::NotInRange { address, range: *range }),
            None => Err(AddressError::MismatchedNetwork),
        }
    }
}

/// The creation of the `IPAddress` that allocates an address to a service.
pub(super) fn claim(backend: &Arc<Backend>, address: IpAddr, service: &Value) -> Result<Op, Status> {
    let name = address.to_string();
    let call = Call::internal(backend, (GROUP, "v1", "ipaddresses"), "", &name);
    let (call, cache) = call
        .and_then(|call| call.served.cache.clone().map(|cache| (call, cache)))
        .ok_or_else(|| Status::unavailable("ipaddresses.networking.k8s.io are not served"))?;
    let mut object = Value::object();
    object.set(&["metadata", "name"], name.as_str());
    object.set(&["metadata", "uid"], random::uuid());
    object.set(&["metadata", "creationTimestamp"], time::format(call.now));
    object.set(&["metadata", "labels", FAMILY_LABEL], Family::of(address).name());
    object.set(&["metadata", "labels", MANAGED_BY_LABEL], ALLOCATOR);
    object.set(&["spec", "parentRef", "resource"], "services");
    object.set(&["spec", "parentRef", "namespace"], meta::namespace(service));
    object.set(&["spec", "parentRef", "name"], meta::name(service));
    managed::update(&Ownership::of(&call, "").context(&call), None, &mut object);
    Ok(put_op(&cache, cache.form.key("", &name), Expect::Absent, object))
}

/// True if an address is held for a service.
pub(super) fn is_held_for(address: &Value, namespace: &str, name: &str) -> bool {
    let parent = |key: &str| address.str_at(&["spec", "parentRef", key]).unwrap_or_default();
    parent("group").is_empty()
        && parent("resource") == "services"
        && parent("namespace") == namespace
        && parent("name") == name
}

/// Adds the deletion of one `IPAddress` object of a service to its transaction, if that writes none yet; the others are
/// deleted after. Those that are held for another object stay.
pub(super) fn release(backend: &Backend, service: &Value, addresses: &[IpAddr], companions: &mut Companions) {
    let Some(cache) = backend.catalog.cache(GROUP, "ipaddresses") else { return };
    let (namespace, name) = (meta::namespace(service), meta::name(service));
    let held = addresses
        .iter()
        .filter_map(|address| cache.get("", &address.to_string()))
        .filter(|held| is_held_for(&held.tree(), namespace, name));
    for held in held {
        let op = Op::Delete { key: held.key.clone(), expect: Expect::ModRevision(held.revision) };
        let ops = if companions.ops.is_empty() { &mut companions.ops } else { &mut companions.after };
        ops.push(op);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn ranges() {
        let condition = |status: &str| {
            let mut object = value!({"spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]}});
            object.set(&["status", "conditions"], vec![value!({"type": "Ready"})]);
            let conditions = object.get_mut("status").and_then(|s| s.get_mut("conditions"));
            conditions.and_then(Value::as_array_mut).unwrap()[0].set(&["status"], status);
            object
        };
        assert!(
            is_ready(&condition("True"))
                && !is_ready(&condition("False"))
                && !is_ready(&condition("Unknown"))
        );
        let plain = value!({"spec": {"cidrs": ["10.1.0.0/24", "10.0.0.0/24", "bad"]}});
        assert!(is_ready(&plain));
        let found: Vec<String> =
            ranges_of(&[condition("True"), plain]).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.0/24", "fd00::/112", "10.1.0.0/24"]);
    }

    #[test]
    fn an_address_is_held_for_its_parent() {
        let address =
            value!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}});
        assert!(is_held_for(&address, "n", "s"));
        assert!(!is_held_for(&address, "n", "t") && !is_held_for(&Value::object(), "", ""));
    }
}
