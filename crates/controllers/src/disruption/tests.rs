//! Tests of budgets: allowed disruptions and conditions.

use std::time::Duration;

use corten_api::{Status, Str};
use corten_reconcile::EventKind;

use super::*;
use crate::testing::{at, at_text, cached};

fn budget(spec: Value) -> Value {
    let mut budget = value!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "pdb", "namespace": "default", "uid": "b", "generation": 4},
    });
    budget.set(&["spec"], spec);
    budget.set(&["spec", "selector"], value!({"matchLabels": {"app": "web"}}));
    budget
}

fn min(limit: impl Into<Value>) -> Value {
    budget(value!({"minAvailable": (limit.into())}))
}

fn max(limit: impl Into<Value>) -> Value {
    budget(value!({"maxUnavailable": (limit.into())}))
}

/// A ready pod of a replica set.
fn pod(name: &str) -> Value {
    let owner = value!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true});
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": (name), "namespace": "default", "uid": (name), "labels": {"app": "web"}, "ownerReferences": [(owner)]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn with(mut tree: Value, path: &[&str], value: impl Into<Value>) -> Value {
    tree.set(path, value);
    tree
}

fn unready(pod: Value) -> Value {
    with(pod, &["status", "conditions"], Vec::new())
}

fn owned_by(pod: Value, api_version: &str, kind: &str, uid: &str) -> Value {
    let owner = value!({"apiVersion": (api_version), "kind": (kind), "name": (uid), "uid": (uid), "controller": true});
    with(pod, &["metadata", "ownerReferences"], vec![owner])
}

/// A world in which every controller that is named after its scale has that scale.
fn world(budget: Value, pods: &[Value]) -> World {
    let pods: Vec<Pod> = pods.iter().map(|pod| Pod::from(cached(pod))).collect();
    let scales = Scales::known(&pods, |owner| match owner.uid.as_str() {
        "rs" => Some((Str::new("rs"), 10)),
        "rs-a" | "rs-b" => Some((Str::new("deployment"), 20)),
        _ => None,
    });
    World { budget: Some(budget), pods, shared: Vec::new(), scales }
}

fn plan(world: &World) -> Plan {
    Budgets.plan(&Key::new("default", "pdb"), world, at(0))
}

fn written(world: &World) -> Option<Value> {
    plan(world).actions().find_map(|action| match action {
        Action::Update { object, subresource: "status", .. } => object.get("status").cloned(),
        _ => None,
    })
}

/// Disruptions allowed, current healthy, desired healthy, expected pods.
fn numbers(world: &World) -> [i64; 4] {
    let status = written(world).expect("a status");
    ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"]
        .map(|key| status.int_at(&[key]).unwrap())
}

fn events(world: &World) -> Vec<String> {
    plan(world).events.iter().map(|event| format!("{} {}", event.reason, event.message)).collect()
}

fn pods(count: usize) -> Vec<Value> {
    (0..count).map(|number| pod(&format!("p{number}"))).collect()
}

#[test]
fn healthy_pods_beyond_the_desired_number_may_be_disrupted() {
    for (budget, ready, expected) in [
        (min(3), 3, [0, 3, 3, 3]),
        (min(3), 4, [1, 4, 3, 4]),
        (min(3), 2, [0, 2, 3, 2]),
        (min(0), 0, [0, 0, 0, 0]),
        (min("30%"), 5, [2, 5, 3, 10]),
        (min("28%"), 5, [2, 5, 3, 10]),
        (min("100%"), 10, [0, 10, 10, 10]),
        (max(2), 10, [2, 10, 8, 10]),
        (max(2), 7, [0, 7, 8, 10]),
        (max(11), 3, [3, 3, 0, 10]),
        (max("20%"), 10, [2, 10, 8, 10]),
        (max("21%"), 10, [3, 10, 7, 10]),
    ] {
        assert_eq!(numbers(&world(budget.clone(), &pods(ready))), expected, "{budget:?} {ready}");
    }
}

#[test]
fn only_ready_pods_that_stay_are_healthy() {
    let pods = [pod("a"), unready(pod("b")), with(pod("c"), &["metadata", "deletionTimestamp"], at_text(0))];
    assert_eq!(numbers(&world(min(1), &pods)), [0, 1, 1, 3]);
}

#[test]
fn a_status_is_written_once() {
    let first = world(min(1), &pods(2));
    let status = written(&first).unwrap();
    let expected = value!({
        "currentHealthy": 2, "desiredHealthy": 1, "disruptionsAllowed": 1, "expectedPods": 2, "observedGeneration": 4,
        "conditions": [{
            "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
            "observedGeneration": 4, "lastTransitionTime": (at_text(0)),
        }],
    });
    assert_eq!(status, expected);
    let known = with(min(1), &["status"], status);
    assert!(plan(&world(known.clone(), &pods(2))).is_done());

    let status = written(&world(known.clone(), &pods(1))).unwrap();
    let condition = &status.items_at(&["conditions"])[0];
    assert_eq!(condition.str_at(&["reason"]), Some("InsufficientPods"));
    assert_eq!(condition.str_at(&["status"]), Some("False"));

    let newer = with(known, &["metadata", "generation"], 5);
    let status = written(&world(newer, &pods(2))).unwrap();
    assert_eq!(status.items_at(&["conditions"])[0].int_at(&["observedGeneration"]), Some(5));
}

#[test]
fn pods_of_several_managers_add_up_once_each() {
    let mine = [
        owned_by(pod("a"), "apps/v1", "ReplicaSet", "rs-a"),
        owned_by(pod("b"), "apps/v1", "ReplicaSet", "rs-b"),
        pod("c"),
        pod("d"),
    ];
    assert_eq!(numbers(&world(max(1), &mine)), [0, 4, 29, 30]);
}

#[test]
fn pods_without_a_controller_are_reported() {
    let naked = with(pod("a"), &["metadata", "ownerReferences"], Vec::new());
    assert_eq!(numbers(&world(max(1), &[naked.clone(), pod("b")])), [0, 2, 9, 10]);
    let reported = events(&world(max("10%"), std::slice::from_ref(&naked)));
    let spelled = "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}";
    assert!(reported[0].starts_with(&format!(
        "UnmanagedPods Pods selected by this PodDisruptionBudget (selector: {spelled}) were found to be unmanaged. "
    )));
    assert!(events(&world(min(1), &[naked])).is_empty(), "a plain number needs no managers");
}

#[test]
fn a_budget_without_pods_says_so() {
    assert_eq!(events(&world(min(1), &[])), ["NoPods No matching pods found"]);
    assert_eq!(numbers(&world(max(1), &[])), [0, 0, 0, 0], "nothing may go before anything is known");
}

#[test]
fn without_a_scale_nothing_may_go() {
    let lost = owned_by(pod("a"), "apps/v1", "ReplicaSet", "lost");
    let mut unknown =
        world(with(max(1), &["status"], value!({"disruptionsAllowed": 3, "observedGeneration": 4})), &[lost]);
    for path in Budgets.ask(&unknown) {
        Budgets.learn(&mut unknown, &path, Err(Status::not_found("", "", "").into()));
    }
    let status = written(&unknown).unwrap();
    assert_eq!(status.int_at(&["disruptionsAllowed"]), Some(0));
    let condition = &status.items_at(&["conditions"])[0];
    assert_eq!(condition.str_at(&["reason"]), Some("SyncFailed"));
    let why = "no matches for kind \"ReplicaSet\" in version \"apps/v1\"";
    assert_eq!(condition.str_at(&["message"]), Some(why));
    assert_eq!(
        events(&unknown),
        [format!("CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: {why}")]
    );
    unknown.budget = Some(with(max(1), &["status"], status));
    assert_eq!(written(&unknown), None, "and that is written once");
}

/// The resources of a group: one kind, with or without a scale.
fn served(has_scale: bool) -> Value {
    let mut resources =
        vec![value!({"name": "foos", "kind": "Foo"}), value!({"name": "foos/status", "kind": "Foo"})];
    if has_scale {
        resources.push(value!({"name": "foos/scale", "kind": "Scale"}));
    }
    let mut list = value!({"kind": "APIResourceList"});
    list.set(&["resources"], resources);
    list
}

#[test]
fn any_kind_with_a_scale_will_do() {
    let mine = owned_by(pod("a"), "example.com/v1", "Foo", "foo");
    let mut asked = world(max(1), &[mine]);
    assert_eq!(Budgets.ask(&asked), ["/apis/example.com/v1"]);
    Budgets.learn(&mut asked, "/apis/example.com/v1", Ok(served(true)));
    let path = "/apis/example.com/v1/namespaces/default/foos/foo/scale";
    assert_eq!(Budgets.ask(&asked), [path]);
    Budgets.learn(&mut asked, path, Ok(value!({"metadata": {"uid": "foo"}, "spec": {"replicas": 5}})));
    assert!(Budgets.ask(&asked).is_empty());
    assert_eq!(numbers(&asked), [0, 1, 4, 5]);
}

#[test]
fn scales_that_cannot_be_had_are_failures() {
    let mine = owned_by(pod("a"), "example.com/v1", "Foo", "foo");
    let after = |list: Value, scale: Option<Result<Value, Error>>| {
        let mut asked = world(max(1), std::slice::from_ref(&mine));
        Budgets.learn(&mut asked, "/apis/example.com/v1", Ok(list));
        if let Some(scale) = scale {
            Budgets.learn(&mut asked, "/apis/example.com/v1/namespaces/default/foos/foo/scale", scale);
        }
        assert!(Budgets.ask(&asked).is_empty());
        let status = written(&asked).unwrap();
        status.items_at(&["conditions"])[0].str_at(&["message"]).unwrap().to_owned()
    };
    assert_eq!(after(served(false), None), "foos.example.com does not implement the scale subresource");
    let gone = Err(Status::not_found("example.com", "foos", "foo").into());
    assert_eq!(after(served(true), Some(gone)), "found no controllers for pod \"a\"");
    let other = Ok(value!({"metadata": {"uid": "other"}, "spec": {"replicas": 5}}));
    assert_eq!(after(served(true), Some(other)), "found no controllers for pod \"a\"");
    let broken = Err(Status::internal("no").into());
    assert_eq!(after(served(true), Some(broken)), "Internal error occurred: no");
}

#[test]
fn evicted_pods_count_as_gone_for_a_while() {
    let noted = |seconds: i64| {
        let mut budget = min(1);
        budget
            .set(&["status", "disruptedPods"], value!({"p0": (at_text(seconds)), "elsewhere": (at_text(0))}));
        world(budget, &pods(3))
    };
    let fresh = noted(-30);
    assert_eq!(numbers(&fresh), [1, 2, 1, 3]);
    assert_eq!(written(&fresh).unwrap().get("disruptedPods"), Some(&value!({"p0": (at_text(-30))})));
    assert_eq!(plan(&fresh).requeue_after, Some(Duration::from_secs(90)));

    let old = noted(-121);
    assert_eq!(numbers(&old), [2, 3, 1, 3]);
    assert_eq!(written(&old).unwrap().get("disruptedPods"), None);
    let event = &plan(&old).events[0];
    assert_eq!((event.kind, event.reason.as_ref()), (EventKind::Warning, "NotDeleted"));
    assert_eq!(event.message, "Pod was expected by PDB default/default to be deleted but it wasn't");
    assert_eq!(event.about.str_at(&["name"]), Some("p0"));
}

#[test]
fn pods_of_several_budgets_are_reported() {
    let mut both = world(min(1), &pods(1));
    both.shared = both.pods.clone();
    let expected = "MultiplePodDisruptionBudgets Pod \"default\"/\"p0\" matches multiple PodDisruptionBudgets.  Chose \"pdb\" arbitrarily.";
    assert_eq!(events(&both), [expected]);
}

#[test]
fn selectors_that_cannot_be_read_are_failures() {
    let selector = value!({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]});
    let bad = world(with(min(1), &["spec", "selector"], selector), &[]);
    assert!(events(&bad)[0].starts_with("NoPods Failed to get pods: "));
    assert_eq!(written(&bad).unwrap().items_at(&["conditions"])[0].str_at(&["reason"]), Some("SyncFailed"));
}
