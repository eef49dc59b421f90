//! Conversions both ways, on objects small enough to read.

use super::*;
use crate::{json, value};

#[track_caller]
fn check(kind: &str, from: &str, input: &Value, to: &str, expected: &Value) {
    let mut value = input.clone();
    value.set(&["apiVersion"], from);
    convert(kind, from, to, &mut value).unwrap();
    assert_eq!(value.str_at(&["apiVersion"]), Some(to));
    value.remove(&["apiVersion"]);
    assert_eq!(json::write_to_string(&value), json::write_to_string(expected));
}

/// Both directions.
#[track_caller]
fn check_both(kind: &str, one: &str, there: &Value, other: &str, back: &Value) {
    check(kind, one, there, other, back);
    check(kind, other, back, one, there);
}

#[test]
fn every_resource_with_versions_is_listed() {
    use crate::resources;
    // Metrics are not stored, and both versions are equal.
    for resource in resources::all().iter().filter(|resource| resource.group != "metrics.k8s.io") {
        let siblings: Vec<_> = resources::all()
            .iter()
            .filter(|r| r.group == resource.group && r.name == resource.name)
            .map(|r| r.api_version())
            .collect();
        if siblings.len() > 1 {
            let versions = versioned(&resource.api_version(), &resource.kind).expect(&resource.kind);
            assert!(siblings.iter().all(|s| versions.has(s)), "{}", resource.kind);
        }
    }
    for versions in VERSIONED {
        for api_version in versions.api_versions() {
            let (group, version) = split_api_version(api_version);
            assert!(schema_of(group, version, versions.kind).is_some(), "{api_version} {}", versions.kind);
        }
    }
    assert_eq!(storage_version("autoscaling/v1", "HorizontalPodAutoscaler"), "autoscaling/v2");
    assert_eq!(storage_version("apps/v1", "Deployment"), "apps/v1");
}

#[test]
fn versions_of_the_same_shape_change_their_name_only() {
    let object = value!({"metadata": {"name": "x"}, "spec": {"signerName": "s", "trustBundle": "t"}});
    check_both(
        "ClusterTrustBundle",
        "certificates.k8s.io/v1",
        &object,
        "certificates.k8s.io/v1beta1",
        &object,
    );
}

#[test]
fn unknown_conversions_are_refused() {
    let error = convert("Pod", "v1", "v2", &mut Value::object()).unwrap_err();
    assert_eq!(error.to_string(), "no conversion of Pod from v1 to v2");
}

#[test]
fn events() {
    let core = value!({
        "count": 3, "eventTime": null, "firstTimestamp": "2024-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": null, "message": "m",
        "metadata": {"name": "e"}, "reason": "r", "reportingComponent": "c", "reportingInstance": "i",
        "source": {"component": "kubelet"}
    });
    let events = value!({
        "deprecatedCount": 3, "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
        "deprecatedLastTimestamp": null, "deprecatedSource": {"component": "kubelet"}, "eventTime": null,
        "metadata": {"name": "e"}, "note": "m", "reason": "r", "regarding": {"kind": "Pod", "name": "p"},
        "reportingController": "c", "reportingInstance": "i"
    });
    check_both("Event", "v1", &core, "events.k8s.io/v1", &events);
}

#[test]
fn requests_of_resource_claims() {
    let v1 = value!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"exactly": {"allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu"}, "name": "a"},
        {"firstAvailable": [{"deviceClassName": "gpu", "name": "s"}], "name": "b"}
    ]}}, "status": {}});
    let v1beta1 = value!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu", "name": "a"},
        {"deviceClassName": "", "firstAvailable": [{"deviceClassName": "gpu", "name": "s"}], "name": "b"}
    ]}}, "status": {}});
    check_both("ResourceClaim", "resource.k8s.io/v1", &v1, "resource.k8s.io/v1beta1", &v1beta1);
    check("ResourceClaim", "resource.k8s.io/v1beta2", &v1, "resource.k8s.io/v1beta1", &v1beta1);
}

#[test]
fn devices_of_resource_slices() {
    let v1 = value!({"metadata": {"name": "s"}, "spec": {
        "devices": [{"attributes": {"model": {"string": "x"}}, "name": "d"}],
        "driver": "drv", "nodeName": "n", "pool": {"generation": 1, "name": "p", "resourceSliceCount": 1}
    }});
    let v1beta1 = value!({"metadata": {"name": "s"}, "spec": {
        "devices": [{"basic": {"attributes": {"model": {"string": "x"}}}, "name": "d"}],
        "driver": "drv", "nodeName": "n", "pool": {"generation": 1, "name": "p", "resourceSliceCount": 1}
    }});
    check_both("ResourceSlice", "resource.k8s.io/v1", &v1, "resource.k8s.io/v1beta1", &v1beta1);
}

fn hpa_v2() -> Value {
    json::parse(
        br#"{"metadata":{"annotations":{"own":"kept"},"name":"h"},"spec":{
        "behavior":{"scaleDown":{"policies":[{"periodSeconds":60,"type":"Pods","value":1}],"selectPolicy":"Min"}},
        "maxReplicas":5,
        "metrics":[
        {"resource":{"name":"memory","target":{"averageValue":"100Mi","type":"AverageValue"}},"type":"Resource"},
        {"object":{"describedObject":{"kind":"Service","name":"s"},"metric":{"name":"m"},"target":{"averageValue":"5","type":"AverageValue"}},"type":"Object"},
        {"external":{"metric":{"name":"q","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"Value","value":"30"}},"type":"External"},
        {"pods":{"metric":{"name":"p"},"target":{"averageValue":"7","type":"AverageValue"}},"type":"Pods"},
        {"resource":{"name":"cpu","target":{"averageUtilization":70,"type":"Utilization"}},"type":"Resource"}],
        "scaleTargetRef":{"kind":"Deployment","name":"d"}},
        "status":{"conditions":[{"lastTransitionTime":"2024-01-01T00:00:00Z","status":"True","type":"AbleToScale"}],
        "currentMetrics":[{"resource":{"current":{"averageUtilization":50,"averageValue":"250m"},"name":"cpu"},"type":"Resource"}],
        "currentReplicas":2,"desiredReplicas":2}}"#,
    )
    .unwrap()
}

#[test]
fn autoscalers_survive_the_way_to_v1_and_back() {
    let mut v1 = hpa_v2();
    convert("HorizontalPodAutoscaler", "autoscaling/v2", "autoscaling/v1", &mut v1).unwrap();
    assert_eq!(v1.int_at(&["spec", "targetCPUUtilizationPercentage"]), Some(70));
    assert_eq!(v1.int_at(&["status", "currentCPUUtilizationPercentage"]), Some(50));
    let annotation = |name: &str| {
        let full = format!("autoscaling.alpha.kubernetes.io/{name}");
        v1.str_at(&["metadata", "annotations", &full]).unwrap().to_owned()
    };
    assert_eq!(
        annotation("behavior"),
        r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":60}],"Tolerance":null}}"#
    );
    assert!(annotation("metrics").contains(
        r#"{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"0","averageValue":"5"}}"#
    ));
    assert_eq!(
        annotation("current-metrics"),
        r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":50,"currentAverageValue":"250m"}}]"#
    );
    convert("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2", &mut v1).unwrap();
    v1.remove(&["apiVersion"]);
    assert_eq!(json::write_to_string(&v1), json::write_to_string(&hpa_v2()));
}

#[test]
fn alpha_bindings_deny_without_parameters() {
    let kind = "MutatingAdmissionPolicyBinding";
    let (alpha, stored) = ("admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1");
    let binding = |reference: Value| value!({"kind": kind, "metadata": {}, "spec": {"policyName": "p", "paramRef": (reference)}});
    let given = binding(value!({"name": "n", "parameterNotFoundAction": "Allow"}));
    check(kind, alpha, &given, stored, &given);
    let absent = binding(value!({"name": "n"}));
    let denying = binding(value!({"name": "n", "parameterNotFoundAction": "Deny"}));
    check(kind, alpha, &absent, stored, &denying);
    check(kind, stored, &absent, alpha, &absent);
}
