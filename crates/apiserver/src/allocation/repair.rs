//! Repair of inconsistent allocations: after a restore, a change of ranges, or manual edits of the objects. The server's own
//! writes never cause inconsistencies.
//!
//! Every repair is committed only if its service is unchanged.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use corten_api::{Value, meta};
use corten_store::{Error as StoreError, Expect, Op, Txn};

use super::address_pool::{self, ALLOCATOR, GROUP, MANAGED_BY_LABEL, is_held_for};
use super::addressing::Addressing;
use super::cidr::{Cidr, Family};
use super::node_ports;
use super::port_record::{PortError, PortRange, Ports};
use super::{cluster_ips, taken_ports, write_ports};
use crate::call::Backend;

/// An inconsistency, as it is recorded in an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// `Service` or `IPAddress`.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) reason: &'static str,
    pub(crate) action: &'static str,
    pub(crate) note: String,
}

/// The repair of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Repair {
    /// The service's address has no `IPAddress`: it is created.
    Claim { address: IpAddr, namespace: String, name: String },
    /// The `IPAddress` is held for another object, which does not have the address: it is replaced.
    Reclaim { address: IpAddr, namespace: String, name: String },
    /// The `IPAddress` is held for a service that does not have the address: it is deleted.
    Release { address: String, namespace: String, name: String },
}

/// Repairs the allocations of addresses and ports to match the services. Returns the inconsistencies.
pub(crate) async fn repair(backend: &Arc<Backend>) -> Vec<Finding> {
    let mut findings = repair_ports(backend).await;
    let (Some(services), Some(addresses)) =
        (backend.catalog.cache("", "services"), backend.catalog.cache(GROUP, "ipaddresses"))
    else {
        return findings;
    };
    let trees = |objects: &[Arc<crate::object::Object>]| -> Vec<Value> {
        objects.iter().map(|object| object.tree()).collect()
    };
    // A service that is not in the snapshot is not acknowledged yet, so that its addresses are still pending here.
    let (pending, services) = {
        let pending = backend.allocators.pending.lock();
        (pending.clone(), services.snapshot("", None))
    };
    addresses.catch_up().await;
    let at_that_revision = addresses.snapshot_at("", None, services.revision);
    let addresses = at_that_revision.unwrap_or_else(|| addresses.snapshot("", None));
    let (services, addresses) = (trees(&services.objects), trees(&addresses.objects));
    let ranges = address_pool::all_ranges(backend);
    let (repairs, found) = plan(&services, &addresses, &ranges, &pending);
    findings.extend(found);
    let done = repairs.iter().map(|repair| execute(backend, repair));
    for outcome in futures_util::future::join_all(done).await {
        if let Err(error) = outcome {
            tracing::warn!(err = &error as &dyn std::error::Error, "cannot repair cluster IP allocation");
        }
    }
    for finding in &findings {
        tracing::warn!(
            kind = finding.kind,
            namespace = finding.namespace,
            name = finding.name,
            reason = finding.reason,
            note = finding.note,
            "Service differs from its IPAddress or node port allocation"
        );
    }
    findings
}

/// True if a change of an `IPAddress` after a revision needs a repair; and the revision up to which changes were checked.
pub(crate) fn repair_after(backend: &Backend, revision: u64) -> (bool, u64) {
    const PAGE: usize = 1000;
    let Some(addresses) = backend.catalog.cache(GROUP, "ipaddresses") else { return (false, revision) };
    let Ok((events, reached)) = addresses.events_after(revision, PAGE) else {
        return (true, addresses.revision());
    };
    let disagrees = |event: &Arc<crate::cache::Event>| {
        let (address, gone) = match (&event.current, &event.previous) {
            (Some(current), _) => (current.tree(), false),
            (None, Some(previous)) => (previous.tree(), true),
            (None, None) => return false,
        };
        service_has_address(backend, &address) == gone
    };
    (events.iter().any(disagrees), reached)
}

/// True if the service that an address is held for has that address.
fn service_has_address(backend: &Backend, address: &Value) -> bool {
    let parent = |key: &str| address.str_at(&["spec", "parentRef", key]).unwrap_or_default();
    let service =
        backend.catalog.cache("", "services").and_then(|c| c.get(parent("namespace"), parent("name")));
    service.is_some_and(|service| {
        cluster_ips::held(&Addressing::of(&service.tree()))
            .iter()
            .any(|held| held.to_string() == meta::name(address))
    })
}

async fn repair_ports(backend: &Arc<Backend>) -> Vec<Finding> {
    let _turn = backend.allocators.port_record.lock().await;
    // The record first: the services are then at least as new, and a service that another server writes meanwhile changes the
    // record that is expected.
    let (found, expect) = taken_ports(backend);
    if let Some(services) = backend.catalog.cache("", "services") {
        services.catch_up().await;
    }
    let (wanted, findings) = ports_of_services(backend);
    if found != wanted || expect == Expect::Absent {
        let written = backend.store.commit(write_ports(&wanted, expect).into()).await;
        if let Err(error) = written {
            tracing::warn!(err = &error as &dyn std::error::Error, "cannot repair node port allocations");
        }
    }
    findings
}

/// The node ports of all services.
pub(super) fn ports_of_services(backend: &Backend) -> (Ports, Vec<Finding>) {
    let objects = backend.catalog.cache("", "services").map(|cache| cache.snapshot("", None).objects);
    let services: Vec<Value> = objects.unwrap_or_default().iter().map(|object| object.tree()).collect();
    count_ports(backend.allocators.node_ports, &services)
}

fn count_ports(range: PortRange, services: &[Value]) -> (Ports, Vec<Finding>) {
    let mut ports = Ports::new(range);
    let mut findings = Vec::new();
    for service in services {
        for port in node_ports::held(service) {
            let (reason, note) = match ports.take(port) {
                Ok(()) => continue,
                Err(PortError::Allocated) => (
                    "PortAlreadyAllocated",
                    format!("Port {port} was assigned to multiple services; please recreate service"),
                ),
                Err(_) => (
                    "PortOutOfRange",
                    format!("Port {port} is not within the port range {range}; please recreate service"),
                ),
            };
            findings.push(about(service, reason, "PortAllocation", note));
        }
    }
    (ports, findings)
}

fn about(service: &Value, reason: &'static str, action: &'static str, note: String) -> Finding {
    Finding {
        kind: "Service",
        namespace: meta::namespace(service).to_owned(),
        name: meta::name(service).to_owned(),
        reason,
        action,
        note,
    }
}

/// Decides the repairs of addresses. Pure.
fn plan(
    services: &[Value],
    addresses: &[Value],
    ranges: &[Cidr],
    pending: &HashSet<IpAddr>,
) -> (Vec<Repair>, Vec<Finding>) {
    let held: HashMap<&str, &Value> =
        addresses.iter().map(|address| (meta::name(address), address)).collect();
    let mut holders: HashMap<String, Vec<&Value>> = HashMap::new();
    for service in services {
        for address in cluster_ips::held(&Addressing::of(service)) {
            holders.entry(address.to_string()).or_default().push(service);
        }
    }
    let (mut repairs, mut findings) = (Vec::new(), Vec::new());
    for service in services {
        for address in cluster_ips::held(&Addressing::of(service)) {
            let text = address.to_string();
            let sharing = holders.get(&text).map_or(&[][..], Vec::as_slice);
            let found = check_service(service, address, held.get(text.as_str()).copied(), sharing, ranges);
            if let Some((repair, reason, note)) = found {
                repairs.extend(repair);
                findings.push(about(service, reason, "ClusterIPAllocation", note));
            }
        }
    }
    for address in addresses.iter().filter(|address| is_ours(address)) {
        let is_pending = || meta::name(address).parse().is_ok_and(|address| pending.contains(&address));
        if !holders.contains_key(meta::name(address)) && !is_pending() {
            let parent =
                |key: &str| address.str_at(&["spec", "parentRef", key]).unwrap_or_default().to_owned();
            let (name, namespace) = (parent("name"), parent("namespace"));
            let address = meta::name(address).to_owned();
            findings.push(Finding {
                kind: "IPAddress",
                namespace: String::new(),
                name: address.clone(),
                reason: "IPAddressNotAllocated",
                action: "IPAddressAllocation",
                note: format!(
                    "IPAddress: {address} for Service {namespace}/{name} appears to have leaked: cleaning up"
                ),
            });
            repairs.push(Repair::Release { address, namespace, name });
        }
    }
    (repairs, findings)
}

/// The inconsistency of one address of a service, if there is one.
fn check_service(
    service: &Value,
    address: IpAddr,
    held: Option<&Value>,
    sharing: &[&Value],
    ranges: &[Cidr],
) -> Option<(Option<Repair>, &'static str, String)> {
    let (namespace, name) = (meta::namespace(service), meta::name(service));
    let family = Family::of(address);
    if !ranges.iter().any(|range| range.offers(address)) {
        let note = format!(
            "Cluster IP [{family}]: {address} is not within any configured Service CIDR; please recreate service"
        );
        return Some((None, "ClusterIPOutOfRange", note));
    }
    let owned = || (namespace.to_owned(), name.to_owned());
    let Some(held) = held else {
        // Of several services with the address, the first keeps it.
        let first = sharing.first().is_some_and(|first| meta::uid(first) == meta::uid(service));
        let (namespace, name) = owned();
        let repair = first.then_some(Repair::Claim { address, namespace, name });
        let note = format!("Cluster IP [{family}]: {address} is not allocated; repairing");
        return Some((repair, "ClusterIPNotAllocated", note));
    };
    if is_held_for(held, namespace, name) {
        return None;
    }
    if sharing.iter().any(|other| is_held_for(held, meta::namespace(other), meta::name(other))) {
        let note = format!(
            "Cluster IP [{family}]:{address} was assigned to multiple services; please recreate service"
        );
        return Some((None, "ClusterIPAlreadyAllocated", note));
    }
    let note = format!(
        "the ClusterIP [{family}]: {address} for Service {namespace}/{name} has a wrong reference; repairing"
    );
    let (namespace, name) = owned();
    Some((Some(Repair::Reclaim { address, namespace, name }), "ClusterIPNotAllocated", note))
}

fn is_ours(address: &Value) -> bool {
    address.str_at(&["metadata", "labels", MANAGED_BY_LABEL]) == Some(ALLOCATOR)
}

async fn execute(backend: &Arc<Backend>, repair: &Repair) -> Result<(), StoreError> {
    let (Some(services), Some(addresses)) =
        (backend.catalog.cache("", "services"), backend.catalog.cache(GROUP, "ipaddresses"))
    else {
        return Ok(());
    };
    let (Repair::Claim { namespace, name, .. }
    | Repair::Reclaim { namespace, name, .. }
    | Repair::Release { namespace, name, .. }) = repair;
    let service = services.get(namespace, name);
    let unchanged = Op::Check {
        key: services.form.key(namespace, name),
        expect: Expect::ModRevision(service.as_ref().map_or(0, |service| service.revision)),
    };
    // Decided again on the newest objects.
    let has = |address: &str| {
        let held = service.as_ref().map(|service| cluster_ips::held(&Addressing::of(&service.tree())));
        held.is_some_and(|held| held.iter().any(|held| held.to_string() == address))
    };
    let op = match repair {
        Repair::Claim { address, .. } | Repair::Reclaim { address, .. } => {
            let text = address.to_string();
            let held = addresses.get("", &text);
            if !has(&text) || held.as_ref().is_some_and(|held| is_held_for(&held.tree(), namespace, name)) {
                return Ok(());
            }
            let Some(service) = &service else { return Ok(()) };
            let Ok(Op::Put { key, value, lease, .. }) =
                address_pool::claim(backend, *address, &service.tree())
            else {
                return Ok(());
            };
            let current = held.map_or(0, |held| held.revision);
            Op::Put { key, expect: Expect::ModRevision(current), value, lease }
        }
        Repair::Release { address, .. } => {
            let Some(held) = addresses.get("", address).filter(|_| !has(address)) else { return Ok(()) };
            Op::Delete { key: held.key.clone(), expect: Expect::ModRevision(held.revision) }
        }
    };
    match backend.store.commit(Txn { ops: vec![op, unchanged] }).await {
        // The service has changed meanwhile: its write triggers the next check.
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn service(name: &str, ip: &str) -> Value {
        value!({
            "metadata": {"namespace": "n", "name": name, "uid": name},
            "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip]},
        })
    }

    fn address(ip: &str, service: &str) -> Value {
        value!({
            "metadata": {"name": ip, "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": service}},
        })
    }

    #[track_caller]
    fn check(services: &[Value], addresses: &[Value], repairs: &[Repair], reasons: &[&str]) {
        let ranges = [Cidr::parse("10.0.0.0/24").unwrap()];
        let pending = HashSet::from(["10.0.0.99".parse().unwrap()]);
        let (planned, findings) = plan(services, addresses, &ranges, &pending);
        assert_eq!(planned, repairs);
        assert_eq!(findings.iter().map(|finding| finding.reason).collect::<Vec<_>>(), reasons);
    }

    #[test]
    fn addresses() {
        let ip = |text: &str| text.parse().unwrap();
        let (n, a, b) = ("n".to_owned(), "a".to_owned(), "b".to_owned());
        check(&[service("a", "10.0.0.1")], &[address("10.0.0.1", "a")], &[], &[]);
        check(&[service("a", "None")], &[], &[], &[]);
        check(
            &[service("a", "10.0.0.1")],
            &[],
            &[Repair::Claim { address: ip("10.0.0.1"), namespace: n.clone(), name: a.clone() }],
            &["ClusterIPNotAllocated"],
        );
        check(
            &[],
            &[address("10.0.0.1", "b")],
            &[Repair::Release { address: "10.0.0.1".into(), namespace: n.clone(), name: b }],
            &["IPAddressNotAllocated"],
        );
        check(
            &[service("a", "10.0.0.1")],
            &[address("10.0.0.1", "gone")],
            &[Repair::Reclaim { address: ip("10.0.0.1"), namespace: n, name: a }],
            &["ClusterIPNotAllocated"],
        );
        check(
            &[service("a", "10.0.0.1"), service("b", "10.0.0.1")],
            &[address("10.0.0.1", "a")],
            &[],
            &["ClusterIPAlreadyAllocated"],
        );
        check(&[service("a", "10.1.0.1")], &[], &[], &["ClusterIPOutOfRange"]);
        // A service that is about to be written has it.
        check(&[], &[address("10.0.0.99", "b")], &[], &[]);
        // Addresses that this allocator does not manage are left alone.
        let foreign = value!({"metadata": {"name": "10.0.0.7"}});
        check(&[], &[foreign], &[], &[]);
    }

    #[test]
    fn ports() {
        let on = |name: &str, port: i64| {
            let mut service = value!({
                "metadata": {"namespace": "n", "name": name}, "spec": {"type": "NodePort"},
            });
            service.set(&["spec", "ports"], vec![value!({"port": 80, "nodePort": port})]);
            service
        };
        let services = [on("a", 30001), on("b", 30001), on("c", 80), on("d", 30002)];
        let (ports, findings) = count_ports(PortRange::default(), &services);
        assert!(ports.has(30001) && ports.has(30002));
        assert_eq!(ports.counts().0, 2);
        let found: Vec<_> = findings.iter().map(|finding| (finding.name.as_str(), finding.reason)).collect();
        assert_eq!(found, [("b", "PortAlreadyAllocated"), ("c", "PortOutOfRange")]);
    }
}
