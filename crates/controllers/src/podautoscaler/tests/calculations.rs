//! Tests of the replicas that metrics propose.

use corten_api::value;

use super::super::*;
use super::scene::{Scene, pod, readiness, utilization, with};
use crate::testing::at_text;

/// An autoscaler that nothing but its metric limits.
fn free(replicas: i64, metric: Value) -> Scene {
    let policies = value!([{"type": "Percent", "value": 1000, "periodSeconds": 15}]);
    let rules = value!({"stabilizationWindowSeconds": 0, "policies": (policies)});
    let scene = Scene::new(replicas, metric).change(&["spec", "maxReplicas"], 1000);
    scene
        .change(&["spec", "behavior", "scaleUp"], rules.clone())
        .change(&["spec", "behavior", "scaleDown"], rules)
}

fn cpu(percent: i64, usage: &[&str]) -> Scene {
    free(usage.len() as i64, utilization(percent)).cpu(usage)
}

/// The error of the calculation.
#[track_caller]
fn failure(mut scene: Scene) -> String {
    let look = scene.reconcile();
    assert_eq!(look.scaled, None);
    let [status, _, message] = scene.condition("ScalingActive");
    assert_eq!(status, "False");
    message.strip_prefix("the HPA was unable to compute the replica count: ").unwrap().to_owned()
}

#[test]
fn utilization_decides() {
    for (percent, usage, expected) in [
        (30, ["300m", "500m", "700m"].as_slice(), 5),
        (50, &["100m", "300m", "500m", "250m", "250m"], 3),
        (50, &["500m", "520m", "530m"], 3),
        (50, &["540m", "550m", "560m"], 3),
        (50, &["560m", "561m", "565m"], 4),
        (100, &["1010m", "1030m", "1020m"], 3),
        (80, &["5"], 7),
    ] {
        assert_eq!(cpu(percent, usage).wanted(), expected, "{percent}% {usage:?}");
    }
}

#[test]
fn tolerance_is_configurable_either_way() {
    let scene = |direction: &str, usage: &[&str]| {
        cpu(50, usage).change(&["spec", "behavior", direction, "tolerance"], "300m").wanted()
    };
    assert_eq!(scene("scaleUp", &["600m", "600m", "600m"]), 3);
    assert_eq!(scene("scaleUp", &["700m", "700m", "700m"]), 5);
    assert_eq!(scene("scaleDown", &["360m", "360m", "360m"]), 3);
    assert_eq!(scene("scaleDown", &["300m", "300m", "300m"]), 2);
    let mut flag = cpu(50, &["600m", "600m", "600m"]);
    flag.controller.options.tolerance = 0.5;
    assert_eq!(flag.wanted(), 3);
}

#[test]
fn pods_that_are_not_ready_count_as_idle_when_growing() {
    let unready = |pod| readiness(pod, false, -5, -8);
    let scene = cpu(30, &["300m", "500m", "700m"]).change_pod(0, unready);
    assert_eq!(scene.wanted(), 4);
    let scene = cpu(30, &["400m", "500m", "700m"]).change_pod(0, unready).change_pod(2, unready);
    assert_eq!(scene.wanted(), 3, "never the other way round");
    let pending = |pod| with(pod, &["status", "phase"], "Pending");
    assert_eq!(cpu(30, &["", "500m", "700m"]).change_pod(0, pending).wanted(), 4);
    assert_eq!(
        cpu(50, &["", "100m", "100m", "100m"]).change_pod(0, pending).wanted(),
        1,
        "and not at all when shrinking"
    );
}

#[test]
fn pods_that_start_are_not_measured_by_cpu() {
    // Ready for half of the window.
    let hot = |pod| readiness(pod, true, -30, -60);
    let scene = cpu(30, &["300m", "500m", "700m"]).change_pod(0, hot);
    assert_eq!(scene.wanted(), 4);
    // Ready for longer than the window.
    let warm = |pod| readiness(pod, true, -70, -90);
    assert_eq!(cpu(30, &["300m", "500m", "700m"]).change_pod(0, warm).wanted(), 5);
    // Started long ago, and never ready.
    let never = |pod| readiness(pod, false, -195, -200);
    assert_eq!(cpu(30, &["300m", "500m", "700m"]).change_pod(0, never).wanted(), 4);
    // Started long ago, and ready once.
    let once = |pod| readiness(pod, false, -10, -200);
    assert_eq!(cpu(30, &["300m", "500m", "700m"]).change_pod(0, once).wanted(), 5);
    let no_condition = |pod| with(pod, &["status", "conditions"], Vec::new());
    assert_eq!(cpu(30, &["300m", "500m", "700m"]).change_pod(0, no_condition).wanted(), 4);
    // Other resources do not depend on readiness.
    let memory = value!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 30}}});
    let scene = free(3, memory).usage("memory", &["300", "500", "700"]).change_pod(0, hot);
    assert_eq!(scene.wanted(), 5);
}

#[test]
fn pods_that_go_or_failed_do_not_count() {
    let failed = |pod| with(pod, &["status", "phase"], "Failed");
    let going = |pod| with(pod, &["metadata", "deletionTimestamp"], at_text(0));
    for (name, change) in [("failed", failed as fn(Value) -> Value), ("going", going)] {
        let scene = cpu(30, &["500m", "700m", "600m", "900m"]).change_pod(3, change);
        assert_eq!(scene.wanted(), 6, "{name}");
        let scene = cpu(30, &["500m", "700m", "600m", ""]).change_pod(3, change);
        assert_eq!(scene.wanted(), 6, "{name} without metrics");
    }
}

#[test]
fn pods_without_metrics_count_against_any_change() {
    for (percent, usage, expected) in [
        (100, ["1", ""].as_slice(), 2),
        (100, &["1900m", ""], 2),
        (100, &["600m", ""], 2),
        (50, &["1", ""], 2),
        (50, &["100m", "300m", "", "200m", "200m"], 4),
        (200, &["100m", "100m", "", "100m", "100m"], 2),
        (30, &["900m", "900m", "900m", ""], 9),
    ] {
        assert_eq!(cpu(percent, usage).wanted(), expected, "{percent}% {usage:?}");
    }
}

#[test]
fn metrics_of_unknown_pods_do_not_count() {
    let mut scene = cpu(50, &["400m", "500m", "600m", "9", "9"]);
    scene.scale.set(&["spec", "replicas"], 3);
    scene.pods.truncate(3);
    assert_eq!(scene.wanted(), 3);
}

#[test]
fn requests_of_sidecars_and_pods_count() {
    let sidecar = value!([{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}, {"name": "init"}]);
    let scene = cpu(50, &["1", "1"]).change_pod(0, |pod| with(pod, &["spec", "initContainers"], sidecar));
    assert_eq!(scene.wanted(), 3, "two thirds of what is asked for");
    let whole = |pod| with(pod, &["spec", "resources", "requests", "cpu"], "4");
    assert_eq!(cpu(50, &["1", "1"]).change_pod(0, whole).change_pod(1, whole).wanted(), 1);
    let other = |pod| {
        let pod = with(pod, &["spec", "containers"], value!([{"name": "main"}]));
        with(pod, &["spec", "resources", "requests", "memory"], "4")
    };
    let why = failure(cpu(50, &["1"]).change_pod(0, other));
    assert_eq!(why, "failed to get cpu utilization: missing pod-level request for cpu in Pod p0");
}

#[test]
fn averages_decide() {
    let metric = value!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "250m"}}});
    for (usage, expected) in [
        (["300m", "500m", "700m"].as_slice(), 6),
        (&["100m", "100m", "100m"], 2),
        (&["260m", "260m", "240m"], 3),
        (&["500m", ""], 2),
        (&["10m", ""], 2),
    ] {
        let scene = free(usage.len() as i64, metric.clone()).cpu(usage);
        assert_eq!(scene.wanted(), expected, "{usage:?}");
    }
}

#[test]
fn one_container_may_decide() {
    let metric = |target: Value| value!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": (target)}});
    let share = value!({"type": "Utilization", "averageUtilization": 30});
    let mut scene = free(3, metric(share.clone())).cpu(&["300m", "500m", "700m"]);
    scene.reconcile();
    assert_eq!(scene.scale.int_at(&["spec", "replicas"]), Some(5));
    let current = value!({"averageUtilization": 50, "averageValue": "500m"});
    let expected = value!([{"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "current": (current)}}]);
    assert_eq!(scene.hpa.at(&["status", "currentMetrics"]), Some(&expected));
    let active = scene.condition("ScalingActive");
    assert_eq!(
        active[2],
        "the HPA was able to successfully calculate a replica count from cpu container resource utilization (percentage of request)"
    );
    let average = value!({"type": "AverageValue", "averageValue": "250m"});
    assert_eq!(free(3, metric(average)).cpu(&["300m", "500m", "700m"]).wanted(), 6);
    let other = |pod| {
        with(
            pod,
            &["spec", "containers"],
            value!([{"name": "other", "resources": {"requests": {"cpu": "1"}}}]),
        )
    };
    let why = failure(free(1, metric(share)).cpu(&["1"]).change_pod(0, other));
    assert_eq!(why, "failed to get cpu utilization: container main not found in Pod p0");
}

fn pods_metric(target: &str) -> Value {
    value!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": (target)}}})
}

#[test]
fn metrics_of_pods_decide() {
    let pods = |values: &[(&str, &str)]| free(3, pods_metric("15")).custom("pods/*/qps", values);
    let mut scene = pods(&[("p0", "20"), ("p1", "10"), ("p2", "30")]);
    let look = scene.reconcile();
    assert_eq!(look.scaled, Some(4));
    assert!(
        look.asked.contains(
            &"/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/qps?labelSelector=app%3Dweb"
                .to_owned()
        )
    );
    let expected =
        value!([{"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "20"}}}]);
    assert_eq!(scene.hpa.at(&["status", "currentMetrics"]), Some(&expected));
    assert_eq!(pods(&[("p0", "14"), ("p1", "16"), ("p2", "15")]).wanted(), 3);
    assert_eq!(pods(&[("p0", "1"), ("p1", "1"), ("p2", "1")]).wanted(), 1);
    // Readiness does not matter, being pending does.
    let unready = |pod| readiness(pod, false, -5, -8);
    assert_eq!(pods(&[("p0", "50"), ("p1", "10"), ("p2", "30")]).change_pod(0, unready).wanted(), 6);
    let pending = |pod| with(pod, &["status", "phase"], "Pending");
    assert_eq!(pods(&[("p0", "50"), ("p1", "10"), ("p2", "30")]).change_pod(0, pending).wanted(), 3);
}

fn object_metric(target: Value) -> Value {
    let object = value!({"apiVersion": "v1", "kind": "Service", "name": "front"});
    value!({"type": "Object", "object": {"describedObject": (object), "metric": {"name": "hits"}, "target": (target)}})
}

fn services(scene: Scene) -> Scene {
    scene.serve("/api/v1", value!({"resources": [{"name": "services/status", "kind": "Service"}, {"name": "services", "kind": "Service"}]}))
}

#[test]
fn metrics_of_an_object_decide() {
    let value = |target: &str| object_metric(value!({"type": "Value", "value": (target)}));
    let scene = |metric: Value, measured: &str| {
        services(free(3, metric)).custom("services/front/hits", &[("front", measured)])
    };
    assert_eq!(scene(value("15"), "20").wanted(), 4);
    assert_eq!(scene(value("15"), "15").wanted(), 3);
    assert_eq!(scene(value("15"), "5").wanted(), 1);
    let unready = |pod| readiness(pod, false, -5, -8);
    assert_eq!(scene(value("15"), "30").change_pod(0, unready).wanted(), 4, "only ready pods bring it about");
    let share = object_metric(value!({"type": "AverageValue", "averageValue": "15"}));
    let mut shared = scene(share, "90");
    shared.reconcile();
    assert_eq!(shared.scale.int_at(&["spec", "replicas"]), Some(6));
    assert_eq!(
        shared.hpa.items_at(&["status", "currentMetrics"])[0].str_at(&["object", "current", "averageValue"]),
        Some("30")
    );
    let several = services(free(3, value("15"))).custom("services/front/hits", &[("a", "1"), ("b", "2")]);
    assert_eq!(
        failure(several),
        "unable to get metric hits on Service default/front: unable to fetch metrics from custom metrics API: the custom metrics API server returned 2 results when we asked for exactly one"
    );
}

#[test]
fn metrics_of_the_namespace_decide() {
    let object = value!({"apiVersion": "v1", "kind": "Namespace", "name": "any"});
    let metric = value!({"type": "Object", "object": {"describedObject": (object), "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"}}});
    assert_eq!(free(2, metric).custom("metrics/hits", &[("default", "20")]).wanted(), 4);
}

fn external_metric(target: Value) -> Value {
    let selector = value!({"matchLabels": {"queue": "mail"}});
    value!({"type": "External", "external": {"metric": {"name": "length", "selector": (selector)}, "target": (target)}})
}

fn external(scene: Scene, values: &[&str]) -> Scene {
    let item = |measured: &&str| value!({"metricName": "length", "value": (*measured)});
    let mut list = Value::object();
    list.set(&["items"], values.iter().map(item).collect::<Vec<_>>());
    scene.serve("/apis/external.metrics.k8s.io/v1beta1/namespaces/default/length", list)
}

#[test]
fn metrics_from_outside_decide() {
    let value = external_metric(value!({"type": "Value", "value": "10"}));
    let mut scene = external(free(2, value.clone()), &["8", "12"]);
    let look = scene.reconcile();
    assert_eq!(look.scaled, Some(4));
    assert!(look.asked.iter().any(|path| path.ends_with("/length?labelSelector=queue%3Dmail")));
    let expected = value!([{"type": "External", "external": {
        "metric": {"name": "length", "selector": {"matchLabels": {"queue": "mail"}}}, "current": {"value": "20"},
    }}]);
    assert_eq!(scene.hpa.at(&["status", "currentMetrics"]), Some(&expected));
    assert!(look.events[0].ends_with(
        "external metric length(&LabelSelector{MatchLabels:map[string]string{queue: mail,},MatchExpressions:[]LabelSelectorRequirement{},}) above target"
    ));
    let share = external_metric(value!({"type": "AverageValue", "averageValue": "10"}));
    assert_eq!(external(free(2, share.clone()), &["50"]).wanted(), 5);
    assert_eq!(external(free(2, share), &["21"]).wanted(), 2);
    let huge = external(free(2, value), &["9223372036854775", "9223372036854775"])
        .change(&["spec", "maxReplicas"], 5);
    assert_eq!(huge.wanted(), 5);
}

#[test]
fn the_most_that_any_metric_asks_for_counts() {
    let scene = |second: Value| {
        let metrics = vec![utilization(30), second];
        services(free(3, Value::Null)).change(&["spec", "metrics"], metrics).cpu(&["300m", "500m", "700m"])
    };
    let hits = || object_metric(value!({"type": "Value", "value": "10"}));
    assert_eq!(scene(hits()).custom("services/front/hits", &[("front", "30")]).wanted(), 9);
    assert_eq!(scene(hits()).custom("services/front/hits", &[("front", "1")]).wanted(), 5);
    assert_eq!(scene(hits()).wanted(), 5, "one that cannot be known does not stop growing");
    let idle = scene(hits()).cpu(&["10m", "10m", "10m"]);
    assert_eq!(idle.wanted(), 3, "but shrinking");
}

#[test]
fn missing_requests_and_metrics_are_reported() {
    let cpu_failed = "failed to get cpu utilization: ";
    let metrics = "unable to get metrics for resource cpu: ";
    assert_eq!(
        failure(free(1, utilization(50))),
        format!(
            "{cpu_failed}{metrics}unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
        )
    );
    assert_eq!(
        failure(cpu(50, &[""])),
        format!("{cpu_failed}{metrics}no metrics returned from resource metrics API")
    );
    let mut without_pods = cpu(50, &["1"]);
    without_pods.pods.clear();
    assert_eq!(
        failure(without_pods),
        format!("{cpu_failed}no pods returned by selector while calculating replica count")
    );
    let going = |pod| with(pod, &["metadata", "deletionTimestamp"], at_text(0));
    assert_eq!(
        failure(cpu(50, &["1"]).change_pod(0, going)),
        format!("{cpu_failed}did not receive metrics for targeted pods (pods might be unready)")
    );
    let asks_nothing = |pod| with(pod, &["spec", "containers"], value!([{"name": "main"}]));
    assert_eq!(
        failure(cpu(50, &["1"]).change_pod(0, asks_nothing)),
        format!("{cpu_failed}missing request for cpu in container main of Pod p0")
    );
    let custom = failure(free(1, pods_metric("1")));
    assert_eq!(
        custom,
        "unable to get metric qps: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
    );
    let outside = failure(free(1, external_metric(value!({"type": "Value", "value": "10"}))));
    assert!(outside.starts_with("unable to get external metric default/length/&LabelSelector{"));
    let aimless =
        value!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value", "value": "1"}}});
    assert_eq!(
        failure(free(1, aimless)),
        "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set"
    );
    assert_eq!(failure(free(1, value!({"type": "Moon"}))), "unknown metric source type \"Moon\"");
    assert_eq!(pod("p").str_at(&["metadata", "name"]), Some("p"));
}
