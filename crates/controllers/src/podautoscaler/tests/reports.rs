//! Tests of the status of autoscalers: conditions, events and metrics.

use corten_api::{Status, value};

use super::super::*;
use super::scene::{Scene, utilization};
use crate::testing::{at, at_text};

#[test]
fn scaling_up_is_reported() {
    let mut scene = Scene::new(3, utilization(30)).cpu(&["300m", "500m", "700m"]);
    let look = scene.reconcile();
    let scale = "/apis/apps/v1/namespaces/default/deployments/web/scale";
    assert_eq!(
        look.asked,
        [scale, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb"]
    );
    assert_eq!(
        look.events,
        [
            "SuccessfulRescale New size: 5; reason: cpu resource utilization (percentage of request) above target"
        ]
    );
    let condition = |kind: &str, status: &str, reason: &str, message: &str| value!({"type": (kind), "status": (status), "reason": (reason), "message": (message), "lastTransitionTime": (at_text(0))});
    let current = value!({"averageUtilization": 50, "averageValue": "500m"});
    let expected = value!({
        "observedGeneration": 2, "currentReplicas": 3, "desiredReplicas": 5, "lastScaleTime": (at_text(0)),
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": (current)}}],
        "conditions": [
            (condition("AbleToScale", "True", "SucceededRescale", "the HPA controller was able to update the target scale to 5")),
            (condition("ScalingActive", "True", "ValidMetricFound", "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)")),
            (condition("ScalingLimited", "False", "DesiredWithinRange", "the desired count is within the acceptable range")),
            (condition("ScaledToZero", "False", "NotScaledToZero", "the HPA controller did not scale the workload to zero")),
        ],
    });
    assert_eq!(scene.hpa.get("status"), Some(&expected));
}

#[test]
fn nothing_is_written_when_nothing_changes() {
    let mut scene = Scene::new(2, utilization(50)).cpu(&["500m", "500m"]);
    scene.reconcile();
    let status = scene.hpa.get("status").cloned();
    scene.now = 15;
    let world = scene.hpa.clone();
    assert_eq!(scene.reconcile().scaled, None);
    assert_eq!(scene.hpa, world);
    assert_eq!(scene.hpa.get("status").cloned(), status);
    assert_eq!(scene.condition("AbleToScale")[1], "ReadyForNewScale");
}

#[test]
fn a_missing_target_is_reported() {
    let mut scene = Scene::new(2, utilization(50));
    scene.scale = Value::Null;
    let look = scene.reconcile();
    assert_eq!(look.events, ["FailedGetScale deployments.apps \"web\" not found"]);
    assert_eq!(
        scene.condition("AbleToScale"),
        [
            "False",
            "FailedGetScale",
            "the HPA controller was unable to get the target's current scale: deployments.apps \"web\" not found"
        ]
    );
    let foo = |api_version: &str| {
        let target = value!({"apiVersion": (api_version), "kind": "Foo", "name": "web"});
        Scene::new(2, utilization(50)).change(&["spec", "scaleTargetRef"], target)
    };
    assert_eq!(
        foo("example.com/v1").reconcile().events,
        ["FailedGetScale no matches for kind \"Foo\" in group \"example.com\""]
    );
    assert_eq!(foo("a/b/c").reconcile().events, ["FailedGetScale unexpected GroupVersion string: a/b/c"]);
}

#[test]
fn any_kind_with_a_scale_can_be_a_target() {
    let target = value!({"apiVersion": "example.com/v1alpha1", "kind": "Foo", "name": "web"});
    let group = value!({
        "versions": [{"groupVersion": "example.com/v1alpha1"}, {"groupVersion": "example.com/v1"}],
        "preferredVersion": {"groupVersion": "example.com/v1"},
    });
    let list =
        value!({"resources": [{"name": "foos", "kind": "Foo"}, {"name": "foos/scale", "kind": "Scale"}]});
    let mut scene = Scene::new(2, utilization(50))
        .change(&["spec", "scaleTargetRef"], target)
        .serve("/apis/example.com", group)
        .serve("/apis/example.com/v1", list)
        .cpu(&["1", "1"]);
    let look = scene.reconcile();
    assert_eq!(
        look.asked[..3],
        [
            "/apis/example.com",
            "/apis/example.com/v1",
            "/apis/example.com/v1/namespaces/default/foos/web/scale"
        ]
    );
    assert_eq!(look.scaled, Some(4));
}

#[test]
fn a_failed_rescale_is_reported() {
    let mut scene = Scene::new(3, utilization(30)).cpu(&["300m", "500m", "700m"]);
    scene.refusal = Some(Status::internal("no").into());
    let look = scene.reconcile();
    assert_eq!(
        look.events,
        [
            "FailedRescale New size: 5; reason: cpu resource utilization (percentage of request) above target; error: Internal error occurred: no"
        ]
    );
    assert_eq!(
        scene.condition("AbleToScale"),
        [
            "False",
            "FailedUpdateScale",
            "the HPA controller was unable to update the target scale: Internal error occurred: no"
        ]
    );
    assert_eq!(scene.hpa.int_at(&["status", "desiredReplicas"]), Some(0));
    assert_eq!(scene.hpa.at(&["status", "lastScaleTime"]), None);
}

#[test]
fn missing_metrics_are_reported() {
    let mut scene = Scene::new(2, utilization(50));
    let look = scene.reconcile();
    let why = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
    assert_eq!(
        look.events,
        [
            format!("FailedGetResourceMetric {why}"),
            format!(
                "FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}"
            ),
        ]
    );
    assert_eq!(scene.condition("ScalingActive")[..2], ["False", "FailedGetResourceMetric"]);
    assert_eq!(scene.condition("AbleToScale")[1], "SucceededGetScale");
    assert_eq!(scene.hpa.at(&["status", "currentMetrics"]), Some(&value!([{"type": ""}])));
    assert_eq!(scene.hpa.int_at(&["status", "currentReplicas"]), Some(2));
}

#[test]
fn bounds_come_before_metrics() {
    let mut many = Scene::new(12, utilization(50));
    let look = many.reconcile();
    assert_eq!(look.asked.len(), 1, "no metrics are asked for");
    assert_eq!(
        look.events,
        ["SuccessfulRescale New size: 10; reason: Current number of replicas above Spec.MaxReplicas"]
    );
    assert_eq!(many.hpa.get("status").and_then(|s| s.get("currentMetrics")), Some(&Value::Null));
    let mut few = Scene::new(2, utilization(50)).change(&["spec", "minReplicas"], 3);
    assert_eq!(
        few.reconcile().events,
        ["SuccessfulRescale New size: 3; reason: Current number of replicas below Spec.MinReplicas"]
    );
}

#[test]
fn a_target_of_nothing_is_left_alone() {
    let mut scene = Scene::new(0, utilization(50));
    let look = scene.reconcile();
    assert_eq!(look.scaled, None);
    assert!(look.events.is_empty());
    assert_eq!(
        scene.condition("ScalingActive"),
        ["False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero"]
    );
}

fn queue_length(scene: Scene, length: &str) -> Scene {
    let list = value!({"items": [{"value": (length)}]});
    scene.serve("/apis/external.metrics.k8s.io/v1beta1/namespaces/default/length", list)
}

#[test]
fn targets_go_to_nothing_and_come_back() {
    let metric = value!({"type": "External", "external": {"metric": {"name": "length"}, "target": {"type": "Value", "value": "10"}}});
    let mut scene = Scene::new(1, metric).change(&["spec", "minReplicas"], 0);
    scene.controller.options.downscale_stabilization = Duration::ZERO;
    scene = queue_length(scene, "0");
    scene.reconcile();
    scene.now = 15;
    assert_eq!(scene.reconcile().scaled.or(scene.scale.int_at(&["spec", "replicas"])), Some(0));
    assert_eq!(
        scene.condition("ScaledToZero"),
        ["True", "ScaledToZero", "the HPA controller scaled the workload to zero"]
    );
    scene.pods.clear();
    scene.now = 30;
    assert_eq!(scene.reconcile().scaled, None);
    scene = queue_length(scene, "25");
    scene.now = 45;
    assert_eq!(scene.reconcile().scaled, Some(3));
    assert_eq!(scene.condition("ScaledToZero")[1], "NotScaledToZero");
}

#[test]
fn a_raised_minimum_scales_up() {
    let metric = value!({"type": "External", "external": {"metric": {"name": "length"}, "target": {"type": "Value", "value": "10"}}});
    let condition = value!({"type": "ScaledToZero", "status": "True", "lastTransitionTime": (at_text(-9))});
    let scene = Scene::new(0, metric)
        .change(&["spec", "minReplicas"], 2)
        .change(&["status", "conditions"], vec![condition]);
    let mut scene = queue_length(scene, "0").change(&["spec", "behavior"], value!({"scaleUp": {}}));
    let below = "SuccessfulRescale New size: 2; reason: Current number of replicas below Spec.MinReplicas";
    assert_eq!(scene.reconcile().events, [below]);
}

#[test]
fn targets_have_to_tell_their_pods() {
    let mut scene = Scene::new(2, utilization(50)).cpu(&["1", "1"]);
    scene.scale.remove(&["status", "selector"]);
    let look = scene.reconcile();
    assert_eq!(
        look.events,
        ["SelectorRequired selector is required", "FailedComputeMetricsReplicas selector is required"]
    );
    assert_eq!(
        scene.condition("ScalingActive"),
        ["False", "InvalidSelector", "the HPA target's scale is missing a selector"]
    );
    scene.scale.set(&["status", "selector"], "a b c!");
    let look = scene.reconcile();
    assert!(look.events[0].starts_with(
        "InvalidSelector couldn't convert selector into a corresponding internal selector object: "
    ));
}

#[test]
fn pods_have_one_autoscaler() {
    let mut scene = Scene::new(2, utilization(50)).cpu(&["1", "1"]);
    let selector = LabelSelector::parse("app=web").ok();
    let other = Remembered { selector, ..Remembered::default() };
    scene.controller.remembered.lock().insert(Key::new("elsewhere", "other"), other.clone());
    assert_eq!(scene.reconcile().scaled, Some(4));
    scene.controller.remembered.lock().insert(Key::new("default", "other"), other);
    let why =
        "pods by selector app=web are controlled by more than one HPA (e.g. [{hpa default} {other default}])";
    let look = scene.reconcile();
    assert_eq!(
        look.events,
        [format!("AmbiguousSelector {why}"), format!("FailedComputeMetricsReplicas {why}")]
    );
    assert_eq!(scene.condition("ScalingActive"), ["False", "AmbiguousSelector", why]);
}

#[test]
fn scales_are_written_without_a_resource_version() {
    let scene = Scene::new(12, utilization(50));
    let mut world = Some(scene.controller.world(scene.hpa.clone(), Vec::new()));
    let path = scene.controller.ask(&world).remove(0);
    scene.controller.learn(&mut world, &path, Ok(scene.scale.clone()));
    let plan = scene.controller.plan(&Key::default(), &world, at(0));
    let Some(Action::Scale { path: written, object }) = plan.actions().next() else { panic!("not rescaled") };
    assert_eq!(*written, path);
    assert_eq!(object.at(&["metadata", "resourceVersion"]), None);
    assert_eq!(object.str_at(&["kind"]), Some("Scale"));
}
