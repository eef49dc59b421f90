//! ServiceCIDR controller: marks ranges of cluster IPs as ready, and keeps them while a service has an address of
//! theirs.
//!
//! Owns the finalizer of ServiceCIDRs and their Ready condition. Watches them and the IPAddresses that the API server
//! creates. Never touches IPAddresses: the API server keeps them consistent with services.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use corten_api::{Str, Value, meta, time, value};
use corten_client::{Cache, Caches, Change, Key, Object, Patch, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Report, Watch};
use jiff::Timestamp;

use crate::conditions;

const NAME: &str = "service-cidr-controller";
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";
/// The time for a deletion to reach all API servers that allocate addresses.
const GRACE: Duration = Duration::from_secs(10);
const BLOCKED: &str = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new \
                       ServiceCIDR";

pub(crate) struct ServiceCidrs;

/// The state of one ServiceCIDR.
#[derive(Debug, Default)]
pub(crate) struct World {
    cidr: Option<Value>,
    /// True if addresses would be left without a range after its deletion.
    is_needed: bool,
}

impl Controller for ServiceCidrs {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn account(&self) -> &'static str {
        "service-cidrs-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::SERVICE_CIDRS, keys: overlapping },
            Watch { kind: &kinds::IP_ADDRESSES, keys: containing },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let all = caches.of(&kinds::SERVICE_CIDRS);
        let Some(object) = all.get(key) else { return World::default() };
        let addresses = || caches.of(&kinds::IP_ADDRESSES).list("").into_iter();
        let addresses = || addresses().filter_map(|address| address_of(&address));
        let is_needed = object.deleting && is_needed(&key.name, &ranges(&all), addresses());
        World { cidr: Some(object.tree()), is_needed }
    }

    fn plan(&self, key: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(cidr) = &world.cidr else { return Plan::done() };
        let is_kept = meta::finalizers(cidr).any(|finalizer| finalizer == FINALIZER);
        if !meta::is_deleting(cidr) {
            let plan = Plan::done();
            let plan = if is_kept { plan } else { plan.then(finalizers(key, "finalizers")) };
            return say(plan, cidr, "True", "", "Kubernetes Service CIDR is ready", now);
        }
        if world.is_needed {
            return say(Plan::done(), cidr, "False", "Terminating", BLOCKED, now);
        }
        match left_of_grace(cidr, now) {
            left if !left.is_zero() => Plan::done().requeue_after(left),
            _ if is_kept => Plan::done().then(finalizers(key, "$deleteFromPrimitiveList/finalizers")),
            _ => Plan::done(),
        }
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, _: Timestamp) -> Plan {
        let Some(cidr) = world.cidr.as_ref().filter(|cidr| !meta::is_deleting(cidr)) else {
            return Plan::done();
        };
        let is_status = |action: &Action| matches!(action, Action::Patch { subresource: "status", .. });
        if !report.failures().any(|(action, _)| is_status(action)) {
            return Plan::done();
        }
        let message = "The ServiceCIDR Status can not be set to Ready=True";
        Plan::done().event(Event::warning(NAME, cidr, "KubernetesServiceCIDRError", message))
    }
}

/// Adds or removes the finalizer.
fn finalizers(key: &Key, how: &'static str) -> Action {
    let mut patch = Value::object();
    patch.set(&["metadata", how], vec![Value::from(FINALIZER)]);
    let (kind, patch) = (&kinds::SERVICE_CIDRS, Patch::Strategic(patch));
    Action::Patch { kind, key: key.clone(), patch, subresource: "" }
}

/// Sets the Ready condition.
fn say(plan: Plan, cidr: &Value, status: &str, reason: &str, message: &str, now: Timestamp) -> Plan {
    let text = |condition: &Value, key: &str| condition.str_at(&[key]).unwrap_or_default().to_owned();
    let is_said = conditions::condition(cidr, "Ready").is_some_and(|known| {
        text(known, "status") == status
            && text(known, "reason") == reason
            && text(known, "message") == message
    });
    if is_said {
        return plan;
    }
    let key = Key::of(cidr);
    let mut object = kinds::SERVICE_CIDRS.new_object("", &key.name);
    let condition = value!({
        "type": "Ready", "status": (status), "reason": (reason), "message": (message),
        "lastTransitionTime": (time::format(now)),
    });
    object.set(&["status", "conditions"], vec![condition]);
    let patch = Patch::Apply { manager: NAME, force: true, object };
    plan.then(Action::Patch { kind: &kinds::SERVICE_CIDRS, key, patch, subresource: "status" })
}

fn left_of_grace(cidr: &Value, now: Timestamp) -> Duration {
    let deleted = cidr.str_at(&["metadata", "deletionTimestamp"]).and_then(|text| time::parse(text).ok());
    let since =
        deleted.map_or(Duration::MAX, |at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
    GRACE.saturating_sub(since)
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: IpAddr,
    bits: u32,
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// The leading bits of a number of 128 bits.
fn leading(number: u128, bits: u32) -> u128 {
    number.checked_shr(128 - bits).unwrap_or(0)
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let (first, bits) = text.split_once('/')?;
        let (first, bits): (IpAddr, u32) = (first.parse().ok()?, bits.parse().ok()?);
        let most = if first.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Range { first, bits })
    }

    fn has(&self, ip: IpAddr) -> bool {
        self.first.is_ipv4() == ip.is_ipv4()
            && leading(number(self.first), self.bits) == leading(number(ip), self.bits)
    }

    fn includes(&self, other: &Range) -> bool {
        self.bits <= other.bits && self.has(other.first)
    }

    /// True if an address can belong to a service: the first of a range never does, nor the last of an IPv4 range.
    fn offers(&self, ip: IpAddr) -> bool {
        let length = if self.first.is_ipv4() { 32 } else { 128 };
        let rest = number(ip) >> (128 - length) & !u128::MAX.checked_shl(length - self.bits).unwrap_or(0);
        let last = !u128::MAX.checked_shl(length - self.bits).unwrap_or(0);
        self.has(ip) && rest != 0 && !(ip.is_ipv4() && rest == last)
    }
}

/// The ranges of all ServiceCIDRs.
type Ranges = Vec<(Str, Vec<Range>)>;

fn ranges_of(cidr: &Object) -> Vec<Range> {
    let tree = cidr.tree();
    tree.items_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str).filter_map(Range::parse).collect()
}

fn ranges(cache: &Cache) -> Ranges {
    cache.list("").iter().map(|cidr| (cidr.key.name.clone(), ranges_of(cidr))).collect()
}

/// The ServiceCIDRs with a range that meets a condition.
fn having(all: &Ranges, is_so: impl Fn(&Range) -> bool) -> BTreeSet<&Str> {
    all.iter().filter(|(_, ranges)| ranges.iter().any(&is_so)).map(|(name, _)| name).collect()
}

/// True if an address is offered by this one only, and by none that contains it.
fn is_needed(name: &Str, all: &Ranges, mut addresses: impl Iterator<Item = IpAddr>) -> bool {
    let only_it = |found: BTreeSet<&Str>| found.iter().all(|other| *other == name);
    let mut own = all.iter().filter(|(other, _)| other == name).flat_map(|(_, ranges)| ranges);
    if !own.any(|range| only_it(having(all, |other| other.includes(range)))) {
        return false;
    }
    addresses.any(|ip| {
        let found = having(all, |range| range.offers(ip));
        found.len() == 1 && only_it(found)
    })
}

/// The address that the API server allocated to a service.
fn address_of(address: &Object) -> Option<IpAddr> {
    let manager = address.labels.get(MANAGED_BY).and_then(Value::as_str);
    if manager == Some(ALLOCATOR) { address.key.name.parse().ok() } else { None }
}

/// A new range may allow the deletion of others.
fn overlapping(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let object = change.object();
    keys.push(object.key.clone());
    if change.old.is_none() {
        let own = ranges_of(object);
        let overlaps = |other: &Range| own.iter().any(|range| range.includes(other) || other.includes(range));
        let all = ranges(&caches.of(&kinds::SERVICE_CIDRS));
        keys.extend(having(&all, overlaps).into_iter().map(|name| Key::new("", name.clone())));
    }
}

/// An address that is allocated or released matters to the terminating ranges.
fn containing(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.old.is_some() && change.new.is_some() {
        return;
    }
    let Some(ip) = address_of(change.object()) else { return };
    let cidrs = caches.of(&kinds::SERVICE_CIDRS).list("");
    let waits = |cidr: &&std::sync::Arc<Object>| {
        cidr.deleting && ranges_of(cidr).iter().any(|range| range.offers(ip))
    };
    keys.extend(cidrs.iter().filter(waits).map(|cidr| cidr.key.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, at_text};

    fn cidr(deleted: Option<i64>, condition: Option<(&str, &str, &str)>, kept: bool) -> Value {
        let mut cidr = kinds::SERVICE_CIDRS.new_object("", "more");
        if let Some(seconds) = deleted {
            cidr.set(&["metadata", "deletionTimestamp"], at_text(seconds));
        }
        if kept {
            cidr.set(&["metadata", "finalizers"], vec![Value::from(FINALIZER)]);
        }
        if let Some((status, reason, message)) = condition {
            let condition = value!({"type": "Ready", "status": status, "reason": reason, "message": message});
            cidr.set(&["status", "conditions"], vec![condition]);
        }
        cidr
    }

    /// The actions of a plan.
    fn words(cidr: Value, is_needed: bool) -> Vec<String> {
        let plan = ServiceCidrs.plan(&Key::new("", "more"), &World { cidr: Some(cidr), is_needed }, at(0));
        let word = |action: &Action| match action {
            Action::Patch { patch: Patch::Strategic(patch), .. } => {
                let (how, _) =
                    patch.get("metadata").and_then(Value::as_object).unwrap().iter().next().unwrap();
                how.to_string()
            }
            Action::Patch { patch: Patch::Apply { object, .. }, subresource: "status", .. } => {
                let condition = &object.items_at(&["status", "conditions"])[0];
                let text = |key: &str| condition.str_at(&[key]).unwrap();
                format!("{} {}", text("status"), text("reason"))
            }
            other => panic!("{other:?}"),
        };
        let later = plan.requeue_after.map(|delay| format!("in {}s", delay.as_secs()));
        plan.actions().map(word).chain(later).collect()
    }

    #[test]
    fn ranges_are_ready_and_stay_while_they_are_needed() {
        let ready = Some(("True", "", "Kubernetes Service CIDR is ready"));
        let blocked = Some(("False", "Terminating", BLOCKED));
        let remove = "$deleteFromPrimitiveList/finalizers";
        for (case, cidr, needed, expected) in [
            ("new", cidr(None, None, false), false, &["finalizers", "True "][..]),
            ("ready", cidr(None, ready, true), false, &[]),
            ("other words", cidr(None, Some(("True", "", "is ready")), true), false, &["True "]),
            ("going and needed", cidr(Some(-60), ready, true), true, &["False Terminating"]),
            ("still", cidr(Some(-60), blocked, true), true, &[]),
            ("going", cidr(Some(-3), ready, true), false, &["in 7s"]),
            ("no longer needed", cidr(Some(-60), blocked, true), false, &[remove]),
            ("gone", cidr(Some(-60), blocked, false), false, &[]),
        ] {
            assert_eq!(words(cidr, needed), expected, "{case}");
        }
    }

    #[test]
    fn which_ranges_are_needed() {
        let all = |others: &[(&str, &[&str])]| -> Ranges {
            let ranges = |texts: &[&str]| texts.iter().map(|text| Range::parse(text).unwrap()).collect();
            let own = [("more", &["10.0.0.0/24", "fd00::/112"][..])];
            own.iter().chain(others).map(|(name, texts)| (Str::new(name), ranges(texts))).collect()
        };
        for (case, others, ips, expected) in [
            ("no addresses", &[][..], &[][..], false),
            ("an address", &[], &["10.0.0.5"], true),
            ("an address of its other family", &[], &["fd00::5"], true),
            ("an address that none has", &[], &["10.0.0.255"], false),
            ("another has it too", &[("b", &["10.0.0.0/28"][..])], &["10.0.0.5"], false),
            ("another has it partly", &[("b", &["10.0.0.0/28"])], &["10.0.0.5", "10.0.0.99"], true),
            (
                "another is the same",
                &[("b", &["10.0.0.0/24", "fd00::/112"])],
                &["10.0.0.5", "fd00::5"],
                false,
            ),
            ("another includes one", &[("b", &["10.0.0.0/16"])], &["10.0.0.5"], false),
            ("another includes the other", &[("b", &["10.0.0.0/16"])], &["fd00::5"], true),
        ] {
            let ips = ips.iter().map(|ip| ip.parse().unwrap());
            assert_eq!(is_needed(&Str::new("more"), &all(others), ips), expected, "{case}");
        }
    }

    #[test]
    fn ranges_offer_their_usable_addresses() {
        let range = |text: &str| Range::parse(text).unwrap();
        for (text, ip, has, offers) in [
            ("10.0.0.0/24", "10.0.0.1", true, true),
            ("10.0.0.0/24", "10.0.0.0", true, false),
            ("10.0.0.0/24", "10.0.0.255", true, false),
            ("10.0.0.0/24", "10.0.1.1", false, false),
            ("10.0.0.0/24", "fd00::1", false, false),
            ("fd00::/112", "fd00::", true, false),
            ("fd00::/112", "fd00::ffff", true, true),
        ] {
            let ip = ip.parse().unwrap();
            assert_eq!((range(text).has(ip), range(text).offers(ip)), (has, offers), "{text} {ip}");
        }
        assert!(range("10.0.0.0/16").includes(&range("10.0.5.0/24")));
        assert!(!range("10.0.5.0/24").includes(&range("10.0.0.0/16")));
        assert!(range("10.0.5.0/24").includes(&range("10.0.5.0/24")));
        assert_eq!(Range::parse("10.0.0.0/33"), None);
    }
}
