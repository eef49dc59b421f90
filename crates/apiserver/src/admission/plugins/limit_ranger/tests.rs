//! Tables of limit ranges, pods and claims.

use corten_api::{json, value};

use super::*;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn range(limit: &str) -> Value {
    value!({"spec": {"limits": [(tree(limit))]}})
}

fn pod(resources: &str) -> Value {
    value!({"spec": {"containers": [{"name": "c", "resources": (tree(resources))}]}})
}

#[test]
fn defaults_are_set_and_recorded_in_an_annotation() {
    let range = range(
        r#"{"type":"Container","default":{"cpu":"1","memory":"512Mi"},"defaultRequest":{"cpu":"100m"}}"#,
    );
    let mut pod = value!({"spec": {
        "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
    }});
    set_defaults(&range, &mut pod).unwrap();
    assert_eq!(
        pod::annotation(&pod, ANNOTATION),
        Some(
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
             cpu request for container b; cpu, memory limit for init container i"
        )
    );
    assert_eq!(
        json::write_to_string(pod.items_at(&["spec", "containers"])[0].get("resources").unwrap()),
        r#"{"limits":{"cpu":"1","memory":"512Mi"},"requests":{"cpu":"100m"}}"#
    );
    let untouched = pod.clone();
    set_defaults(&range, &mut pod).unwrap();
    assert_eq!(pod, untouched, "what is there is not given again");
}

#[track_caller]
fn check_pod(limit: &str, resources: &str, expected: &[&str]) {
    assert_eq!(pod_errors(&range(limit), &pod(resources)), expected, "{limit} {resources}");
}

#[test]
fn containers_and_pods_stay_in_range() {
    let least = r#"{"type":"Container","min":{"cpu":"50m"}}"#;
    check_pod(least, r#"{"requests":{"cpu":"50m"}}"#, &[]);
    check_pod(least, "{}", &["minimum cpu usage per Container is 50m.  No request is specified"]);
    check_pod(
        least,
        r#"{"requests":{"cpu":"40m"}}"#,
        &["minimum cpu usage per Container is 50m, but request is 40m"],
    );
    check_pod(
        least,
        r#"{"requests":{"cpu":"60m"},"limits":{"cpu":"45m"}}"#,
        &["minimum cpu usage per Container is 50m, but limit is 45m"],
    );
    let most = r#"{"type":"Pod","max":{"memory":"1Gi"}}"#;
    check_pod(most, r#"{"limits":{"memory":"1024Mi"}}"#, &[]);
    check_pod(most, "{}", &["maximum memory usage per Pod is 1Gi.  No limit is specified"]);
    check_pod(
        most,
        r#"{"limits":{"memory":"2Gi"}}"#,
        &["maximum memory usage per Pod is 1Gi, but limit is 2Gi"],
    );
    check_pod(
        most,
        r#"{"limits":{"memory":"1Gi"},"requests":{"memory":"3Gi"}}"#,
        &["maximum memory usage per Pod is 1Gi, but request is 3Gi"],
    );
}

#[test]
fn ratios_are_bounded() {
    let ratio = r#"{"type":"Container","maxLimitRequestRatio":{"cpu":"1500m"}}"#;
    check_pod(ratio, r#"{"requests":{"cpu":"2"},"limits":{"cpu":"3"}}"#, &[]);
    check_pod(
        ratio,
        r#"{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}"#,
        &["cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000"],
    );
    check_pod(
        ratio,
        r#"{"limits":{"cpu":"2"}}"#,
        &[
            "cpu max limit to request ratio per Container is 1500m, but no request is specified or request is 0",
        ],
    );
    check_pod(
        ratio,
        r#"{"requests":{"cpu":"1"}}"#,
        &["cpu max limit to request ratio per Container is 1500m, but no limit is specified or limit is 0"],
    );
}

#[test]
fn pod_level_resources_take_precedence() {
    let limit = range(r#"{"type":"Pod","max":{"cpu":"2"}}"#);
    let pod = value!({"spec": {
        "resources": {"limits": {"cpu": "3"}},
        "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
    }});
    assert_eq!(pod_errors(&limit, &pod), ["maximum cpu usage per Pod is 2, but limit is 3"]);
}

#[test]
fn claims_stay_in_range() {
    let limit = range(r#"{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"10Gi"}}"#);
    let claim = |size: &str| value!({"spec": {"resources": {"requests": {"storage": (size)}}}});
    assert!(claim_errors(&limit, &claim("5Gi")).is_empty());
    let small = "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi";
    assert_eq!(claim_errors(&limit, &claim("1Mi")), [small]);
    let large = "maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi";
    assert_eq!(claim_errors(&limit, &claim("11Gi")), [large]);
}

#[test]
fn errors_are_aggregated() {
    assert_eq!(aggregate(&[]), None);
    assert_eq!(aggregate(&["a".into()]).as_deref(), Some("a"));
    assert_eq!(aggregate(&["a".into(), "b".into(), "a".into()]).as_deref(), Some("[a, b]"));
}
