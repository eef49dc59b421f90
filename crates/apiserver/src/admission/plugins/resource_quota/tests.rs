//! Tables of quotas and demands.

use corten_api::{Value, json, value};
use corten_quota::{Item, Measure, Neighbours, resource_list};

use super::check::{Quota, check};
use super::usage::Demand;

/// Charges one object to one quota, for the tests of what that costs.
pub(in crate::admission) fn charge_one(
    quota: &Value,
    measure: Measure,
    new: Item,
    old: Option<Item>,
) -> Result<(), String> {
    let demand = Demand { measure, new, old, has_happened: false, dry_run: false };
    check(&mut vec![Quota::read(quota)], &demand)
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn quota(hard: &str, used: &str) -> Quota {
    Quota::read(&value!({
        "metadata": {"name": "q"},
        "status": {"hard": (tree(hard)), "used": (tree(used))},
    }))
}

struct NoNeighbours;

impl Neighbours for NoNeighbours {
    fn pod(&self, _: &str) -> Option<Value> {
        None
    }

    fn resource_claims(&self) -> Vec<Value> {
        Vec::new()
    }
}

fn pod_item(resources: &str) -> Item {
    let pod = value!({
        "spec": {"containers": [{"name": "c", "resources": (tree(resources))}]},
        "status": {"qosClass": "Burstable"},
    });
    Measure::Pods.item(&pod, &NoNeighbours, jiff::Timestamp::UNIX_EPOCH)
}

fn pod(resources: &str) -> Demand {
    Demand {
        measure: Measure::Pods,
        new: pod_item(resources),
        old: None,
        has_happened: false,
        dry_run: false,
    }
}

fn used(quotas: &[Quota]) -> String {
    json::write_to_string(&resource_list::write(&quotas[0].used))
}

#[test]
fn a_demand_that_fits_is_charged() {
    let mut quotas = vec![quota(r#"{"pods":"2","requests.cpu":"2"}"#, r#"{"pods":"0","requests.cpu":"0"}"#)];
    check(&mut quotas, &pod(r#"{"requests":{"cpu":"500m"}}"#)).unwrap();
    assert_eq!(used(&quotas), r#"{"pods":"1","requests.cpu":"500m"}"#);
    check(&mut quotas, &pod(r#"{"requests":{"cpu":"1500m"}}"#)).unwrap();
    assert_eq!(used(&quotas), r#"{"pods":"2","requests.cpu":"2"}"#);
    assert!(quotas[0].charged);
    assert_eq!(
        check(&mut quotas, &pod(r#"{"requests":{"cpu":"1"}}"#)).unwrap_err(),
        "exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=2,requests.cpu=2, limited: pods=2,requests.cpu=2"
    );
    assert_eq!(used(&quotas), r#"{"pods":"2","requests.cpu":"2"}"#, "a refused demand is not charged");
}

#[test]
fn one_quota_is_enough_to_refuse() {
    let mut quotas =
        vec![quota(r#"{"pods":"9"}"#, r#"{"pods":"0"}"#), quota(r#"{"pods":"1"}"#, r#"{"pods":"1"}"#)];
    let why = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    assert_eq!(check(&mut quotas, &pod("{}")).unwrap_err(), why);
    assert_eq!(used(&quotas), r#"{"pods":"0"}"#);
}

#[test]
fn a_quota_without_counted_usage_refuses_all_demands() {
    let mut quotas = vec![quota(r#"{"pods":"2","secrets":"1"}"#, r#"{"secrets":"0"}"#)];
    let why = "status unknown for quota: q, resources: pods";
    assert_eq!(check(&mut quotas, &pod("{}")).unwrap_err(), why);
    let mut unseen = vec![Quota::read(&value!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}))];
    assert_eq!(check(&mut unseen, &pod("{}")), Ok(()), "what is not in the status is not enforced");
}

#[test]
fn containers_must_specify_limited_resources() {
    let mut quotas = vec![quota(
        r#"{"limits.memory":"1Gi","requests.cpu":"1","requests.ephemeral-storage":"1Gi"}"#,
        r#"{"limits.memory":"0","requests.cpu":"0","requests.ephemeral-storage":"0"}"#,
    )];
    assert_eq!(
        check(&mut quotas, &pod("{}")).unwrap_err(),
        "failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    check(&mut quotas, &pod(r#"{"requests":{"cpu":"1"},"limits":{"memory":"1"}}"#)).unwrap();
}

#[test]
fn updates_are_charged_for_the_difference() {
    let mut quotas = vec![quota(r#"{"pods":"1","requests.cpu":"3"}"#, r#"{"pods":"1","requests.cpu":"1"}"#)];
    let mut resize = pod(r#"{"requests":{"cpu":"3"}}"#);
    resize.old = Some(pod_item(r#"{"requests":{"cpu":"1"}}"#));
    check(&mut quotas, &resize).unwrap();
    assert_eq!(used(&quotas), r#"{"pods":"1","requests.cpu":"3"}"#);
    let mut shrink = pod(r#"{"requests":{"cpu":"1"}}"#);
    shrink.old = Some(pod_item(r#"{"requests":{"cpu":"3"}}"#));
    check(&mut quotas, &shrink).unwrap();
    assert_eq!(used(&quotas), r#"{"pods":"1","requests.cpu":"3"}"#, "less is for the controller to see");
}

#[test]
fn dry_runs_are_refused_but_never_charged() {
    let mut quotas = vec![quota(r#"{"pods":"1"}"#, r#"{"pods":"0"}"#)];
    let mut rehearsal = pod("{}");
    rehearsal.dry_run = true;
    check(&mut quotas, &rehearsal).unwrap();
    assert_eq!(used(&quotas), r#"{"pods":"0"}"#);
    assert!(!quotas[0].charged);
    check(&mut quotas, &pod("{}")).unwrap();
    assert!(check(&mut quotas, &rehearsal).is_err());
}

#[test]
fn a_status_is_charged_and_never_refused() {
    let mut quotas = vec![quota(r#"{"pods":"1"}"#, r#"{"pods":"1"}"#)];
    let mut reported = pod("{}");
    reported.has_happened = true;
    check(&mut quotas, &reported).unwrap();
    assert_eq!(used(&quotas), r#"{"pods":"2"}"#);
}
