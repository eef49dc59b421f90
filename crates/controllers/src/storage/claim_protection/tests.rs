//! Tests of finalizers and of the condition `Unused`.

use corten_api::value;
use corten_reconcile::Action;

use super::*;
use crate::testing::at;

fn claim(name: &str, finalizers: Value) -> Value {
    value!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "3", "finalizers": finalizers},
        "status": {"phase": "Pending"},
    })
}

fn held(name: &str) -> Value {
    claim(name, value!(["kubernetes.io/pvc-protection"]))
}

fn pod(node: &str, volume: Value) -> Value {
    value!({
        "metadata": {"name": "p", "namespace": "n", "uid": "pod"},
        "spec": {"nodeName": node, "volumes": [volume]},
        "status": {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]},
    })
}

fn using(claim: &str) -> Value {
    pod("one", value!({"name": "d", "persistentVolumeClaim": {"claimName": claim}}))
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

fn plan(world: &World) -> Plan {
    ClaimProtection.plan(&Key::default(), world, at(0))
}

fn going_with(claims: &[Value], pods: &[Value]) -> Going {
    Going { namespace: "n".into(), claims: claims.to_vec(), pods: pods.to_vec(), asked: Asked::NotYet }
}

/// The claims whose finalizers are removed.
fn released(going: &[Value], pods: &[Value]) -> Vec<String> {
    let plan = plan(&World::Going(going_with(going, pods)));
    let name = |action: &Action| match action {
        Action::Update { object, subresource: "", .. } => {
            assert_eq!(meta::finalizers(object).count(), 0);
            assert_eq!(meta::resource_version(object), "3", "in the version that was read");
            meta::name(object).to_owned()
        }
        other => panic!("{other:?}"),
    };
    plan.actions().map(name).collect()
}

#[test]
fn a_claim_is_held_as_long_as_a_pod_uses_it() {
    let check = |why: &str, pod: Value, is_held: bool| {
        assert_eq!(released(&[held("c")], &[pod]).is_empty(), is_held, "{why}");
    };
    check("used", using("c"), true);
    check("used by another's pod", using("other"), false);
    check("not scheduled", with(using("c"), &["spec", "nodeName"], ""), false);
    check("finished, but not gone", with(using("c"), &["status", "phase"], "Succeeded"), true);
    check("no volumes", with(using("c"), &["spec", "volumes"], value!([])), false);
}

#[test]
fn an_ephemeral_claim_goes_with_its_pod() {
    let mut made = held("p-e");
    let owner = value!([{"controller": true, "uid": "pod"}]);
    made.set(&["metadata", "ownerReferences"], owner);
    let user = pod("one", value!({"name": "e", "ephemeral": {}}));
    let (made, user) = ([made], [user]);
    assert!(released(&made, &user).is_empty());
    assert_eq!(released(&[held("p-e")], &user), ["p-e"], "a claim of the same name is not the pod's");
    let [mut gone] = user;
    gone.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    gone.set(&["metadata", "deletionGracePeriodSeconds"], 30);
    assert!(released(&made, std::slice::from_ref(&gone)).is_empty());
    gone.set(&["metadata", "deletionGracePeriodSeconds"], 0);
    assert_eq!(released(&made, &[gone]), ["p-e"], "the node is done with it");
}

#[test]
fn pods_of_a_namespace_are_listed_once_for_all_claims() {
    let mut world = World::Going(going_with(&[held("a"), held("b"), held("c")], &[using("a")]));
    assert_eq!(ClaimProtection.ask(&world), ["/api/v1/namespaces/n/pods"]);
    ClaimProtection.learn(&mut world, "", Ok(value!({"items": [(using("b"))]})));
    assert!(ClaimProtection.ask(&world).is_empty());
    let World::Going(going) = &world else { panic!() };
    assert_eq!(released(&going.claims, &going.pods), ["c"]);
    let used = World::Going(going_with(&[held("a")], &[using("a")]));
    assert!(ClaimProtection.ask(&used).is_empty(), "one that is used is not let go anyway");
    let mut unknown = World::Going(going_with(&[held("c")], &[]));
    ClaimProtection.learn(&mut unknown, "", Err(corten_api::Status::internal("no").into()));
    let plan = plan(&unknown);
    assert!(plan.retry && plan.steps.is_empty(), "nothing is let go without an answer");
}

#[test]
fn a_claim_without_protection_gets_it() {
    assert!(plan(&World::Claim(held("c"), false)).is_done());
    let plan = plan(&World::Claim(claim("c", value!(["x"])), false));
    let Some(Action::Update { object, .. }) = plan.actions().next() else { panic!("{plan:?}") };
    assert_eq!(meta::finalizers(object).collect::<Vec<_>>(), ["x", "kubernetes.io/pvc-protection"]);
}

#[test]
fn bound_claims_report_whether_they_are_used() {
    let bound = || with(held("c"), &["status", "phase"], "Bound");
    let reported = |claim: &Value, used: bool| {
        let plan = plan(&World::Claim(claim.clone(), used));
        plan.actions().find_map(|action| match action {
            Action::Update { object, subresource: "status", .. } => Some(object.clone()),
            _ => None,
        })
    };
    let unused = reported(&bound(), false).unwrap();
    let condition = conditions::condition(&unused, "Unused").unwrap();
    assert_eq!(condition.str_at(&["status"]), Some("True"));
    assert_eq!(condition.str_at(&["reason"]), Some("NoPodsUsingPVC"));
    assert_eq!(condition.str_at(&["message"]), Some("No pods are currently referencing this PVC"));
    assert_eq!(reported(&unused, false), None);
    let used = reported(&unused, true).unwrap();
    let condition = conditions::condition(&used, "Unused").unwrap();
    assert_eq!(condition.str_at(&["status"]), Some("False"));
    assert_eq!(condition.str_at(&["reason"]), Some("PodUsingPVC"));
    assert_eq!(reported(&used, true), None);
    assert_eq!(reported(&held("c"), false), None, "one that is not bound says nothing");
}

#[test]
fn when_a_pod_is_over() {
    assert!(!is_terminated(&using("c")));
    assert!(is_terminated(&with(using("c"), &["status", "phase"], "Failed")));
    let going = with(using("c"), &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert!(!is_terminated(&going));
    let ended = value!([{"state": {"terminated": {}}}, {"state": {"waiting": {}}}]);
    assert!(is_terminated(&with(going, &["status", "containerStatuses"], ended)));
}
