//! Allocation of cluster IPs and node ports, each to one service.
//!
//! An address is allocated by its `IPAddress` object, a node port by its bit in one record. Both are written in the same
//! transaction as their service, so that there is never one without the other, even after a crash; except a second address,
//! which is allocated before its service is written and released after it (`verbs::Companions`). Of two writes that allocate
//! the same, the store refuses the second, which then decides again.
//!
//! The decisions are pure functions (`families`, `cluster_ips`, `node_ports`); only this file and `address_pool` read state.

mod address_pool;
mod addressing;
mod cidr;
mod cluster_ips;
mod families;
mod node_ports;
mod port_record;
mod ranges;
mod repair;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use corten_api::status::ErrorList;
use corten_api::{Status, Value, meta};
use corten_store::{Expect, NewValue, Op};
use parking_lot::Mutex;

pub use port_record::PortRange;
pub use ranges::ServiceRanges;
pub(crate) use repair::{Finding, repair, repair_after};

use crate::call::{Backend, Call};
use crate::object::Object;
use crate::random;
use crate::verbs::Companions;
use address_pool::{DryPool, LivePool};
use addressing::Addressing;
use families::Families;
use port_record::{Operation, Ports};

/// Upstream's key of the record.
const PORT_RECORD: &str = "/registry/ranges/servicenodeports";

/// The ranges of services, and the pending allocations.
pub(crate) struct Allocators {
    families: Families,
    node_ports: PortRange,
    /// Addresses of pending writes, so that concurrent writers do not pick the same.
    pending: Arc<Mutex<HashSet<IpAddr>>>,
    /// Serializes the writers of the one record, which would otherwise conflict.
    port_record: Arc<tokio::sync::Mutex<()>>,
}

impl Allocators {
    pub(crate) fn new(ranges: &ServiceRanges, node_ports: PortRange) -> Allocators {
        Allocators {
            families: Families { primary: ranges.primary().family(), both: ranges.secondary().is_some() },
            node_ports,
            pending: Arc::default(),
            port_record: Arc::default(),
        }
    }
}

/// True if objects of this kind have allocations.
pub(crate) fn concerns(call: &Call) -> bool {
    call.served.group().is_empty() && call.served.name() == "services"
}

/// Allocates the addresses and node ports of a new service. A dry run shows them without allocating.
pub(crate) async fn for_create(
    call: &Call,
    service: &mut Value,
    dry_run: bool,
) -> Result<Companions, Status> {
    if !concerns(call) {
        return Ok(Companions::default());
    }
    let (backend, name) = (&call.backend, meta::name(service).to_owned());
    let mut addressing = Addressing::of(service);
    addressing.agree(None);
    families::complete(&mut addressing, None, backend.allocators.families)
        .map_err(|errors| invalid(&name, &errors))?;
    let mut companions = Companions::default();
    if dry_run {
        cluster_ips::take(&mut addressing, &name, &mut DryPool::new(backend))?;
    } else {
        let mut pool = LivePool::new(backend);
        cluster_ips::take(&mut addressing, &name, &mut pool)?;
        pool.finish(service, &mut companions)?;
    }
    addressing.write(service);
    if node_ports::has_node_ports(service) {
        with_ports(backend, dry_run, &mut companions, |operation| {
            node_ports::take(service, &name, operation)
        })
        .await?;
    }
    Ok(companions)
}

/// Allocates the new addresses and node ports of an updated service, and releases those that it no longer has.
pub(crate) async fn for_update(
    call: &Call,
    subresource: &str,
    service: &mut Value,
    old: &Value,
    dry_run: bool,
) -> Result<Companions, Status> {
    if !concerns(call) || !subresource.is_empty() {
        return Ok(Companions::default());
    }
    let (backend, name) = (&call.backend, meta::name(service).to_owned());
    let families = backend.allocators.families;
    let before = Addressing::of_stored(old, families.primary);
    let mut addressing = Addressing::of(service);
    addressing.keep_omitted(&before);
    node_ports::keep_omitted(service, old);
    addressing.agree(Some(&before));
    families::complete(&mut addressing, Some(&before), families).map_err(|errors| invalid(&name, &errors))?;
    let mut companions = Companions::default();
    if dry_run {
        cluster_ips::change(&mut addressing, &before, &name, &mut DryPool::new(backend))?;
    } else {
        let mut pool = LivePool::new(backend);
        let released = cluster_ips::change(&mut addressing, &before, &name, &mut pool)?;
        pool.finish(service, &mut companions)?;
        address_pool::release(backend, old, &released, &mut companions);
    }
    addressing.write(service);
    if node_ports::has_node_ports(service) || node_ports::has_node_ports(old) {
        with_ports(backend, dry_run, &mut companions, |operation| {
            node_ports::change(service, old, &name, operation)
        })
        .await?;
    }
    Ok(companions)
}

/// Releases the addresses and node ports of a service that is about to be removed.
pub(crate) async fn release(call: &Call, service: &Object) -> Companions {
    let mut companions = Companions::default();
    if !concerns(call) {
        return companions;
    }
    let (backend, service) = (&call.backend, service.tree());
    let held = cluster_ips::held(&Addressing::of(&service));
    address_pool::release(backend, &service, &held, &mut companions);
    let ports = node_ports::held(&service);
    if !ports.is_empty() {
        let released = with_ports(backend, false, &mut companions, |operation| {
            ports.iter().for_each(|port| operation.release(*port));
            Ok(())
        });
        // A release cannot fail.
        let _ = released.await;
    }
    companions
}

/// Runs `decide` on the node ports and adds the changed record to the companions.
async fn with_ports(
    backend: &Backend,
    dry_run: bool,
    companions: &mut Companions,
    decide: impl FnOnce(&mut Operation<'_>) -> Result<(), Status>,
) -> Result<(), Status> {
    let turn = match dry_run {
        true => None,
        false => Some(backend.allocators.port_record.clone().lock_owned().await),
    };
    let (ports, expect) = taken_ports(backend);
    let mut operation = Operation::new(ports, dry_run, &random::below);
    decide(&mut operation)?;
    if let Some(ports) = operation.finish() {
        companions.ops.push(write_ports(&ports, expect));
        companions.held.extend(turn.map(|turn| Box::new(turn) as _));
    }
    Ok(())
}

/// The allocated ports, and the precondition of replacing their record.
fn taken_ports(backend: &Backend) -> (Ports, Expect) {
    let range = backend.allocators.node_ports;
    match backend.store.get(PORT_RECORD) {
        None => (repair::ports_of_services(backend).0, Expect::Absent),
        Some(entry) => {
            let ports = Ports::decode(range, &entry.value);
            let ports = ports.unwrap_or_else(|| repair::ports_of_services(backend).0);
            (ports, Expect::ModRevision(entry.mod_revision))
        }
    }
}

fn write_ports(ports: &Ports, expect: Expect) -> Op {
    Op::Put { key: PORT_RECORD.into(), expect, value: NewValue::from(ports.encode()), lease: None }
}

/// The allocated and available numbers of a range.
pub(crate) struct Usage {
    pub(crate) of: String,
    pub(crate) taken: u128,
    pub(crate) free: u128,
}

/// The usage of each address range.
pub(crate) fn address_usage(backend: &Backend) -> Vec<Usage> {
    let objects =
        backend.catalog.cache(address_pool::GROUP, "ipaddresses").map(|c| c.snapshot("", None).objects);
    let addresses: Vec<IpAddr> =
        objects.unwrap_or_default().iter().filter_map(|object| object.name.parse().ok()).collect();
    let usage = |range: &cidr::Cidr| {
        let taken = addresses.iter().filter(|address| range.offers(**address)).count() as u128;
        Usage { of: range.to_string(), taken, free: range.size().saturating_sub(taken) }
    };
    address_pool::all_ranges(backend).iter().map(usage).collect()
}

/// The usage of the node port range.
pub(crate) fn port_usage(backend: &Backend) -> Usage {
    let (taken, free) = taken_ports(backend).0.counts();
    Usage { of: backend.allocators.node_ports.to_string(), taken: taken as u128, free: free as u128 }
}

fn invalid(name: &str, errors: &ErrorList) -> Status {
    Status::invalid("", "Service", name, errors)
}
