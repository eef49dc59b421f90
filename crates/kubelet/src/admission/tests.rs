//! Tables of rejections and preemptions.

use corten_api::{Value, value};

use super::*;
use crate::pod::Source;

const CRITICAL: i64 = 2_000_000_000;

/// A pod with members of its spec.
fn pod(uid: &str, class: &str, spec: Value) -> Pod {
    let tree = value!({
        "metadata": {"name": (uid), "namespace": "default", "uid": (uid)}, "spec": (spec),
        "status": {"qosClass": (class)},
    });
    Pod::new(tree, Source::Api)
}

fn asking(uid: &str, class: &str, cpu: &str, memory: &str) -> Pod {
    let requests = value!({"requests": {"cpu": (cpu), "memory": (memory)}});
    pod(uid, class, value!({"containers": [{"name": "a", "resources": (requests)}]}))
}

fn critical(cpu: &str, memory: &str) -> Pod {
    let requests = value!({"requests": {"cpu": (cpu), "memory": (memory)}});
    let spec = value!({"priority": (CRITICAL), "containers": [{"name": "a", "resources": (requests)}]});
    pod("critical", "Burstable", spec)
}

fn node() -> Value {
    value!({
        "metadata": {"name": "n1", "labels": {"disk": "ssd"}},
        "spec": {"taints": [{"key": "off", "effect": "NoExecute"}, {"key": "new", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "4"}},
    })
}

fn tolerant(mut spec: Value) -> Value {
    spec.set(&["tolerations"], value!([{"key": "off", "operator": "Exists"}]));
    spec
}

#[track_caller]
fn check(spec: Value, expected: Option<(&str, &str)>) {
    let taken = value!({"containers": [{"name": "a", "ports": [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
        {"containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.1"},
    ]}]});
    let found =
        select_victims(&pod("new", "BestEffort", spec), &[pod("other", "BestEffort", taken)], &node());
    let found = found.err().map(|refusal| (refusal.reason, refusal.message));
    assert_eq!(found.as_ref().map(|(reason, message)| (reason.as_str(), message.as_str())), expected);
}

#[test]
fn a_pod_has_to_match_its_node() {
    check(tolerant(value!({"nodeSelector": {"disk": "ssd"}, "nodeName": "n1"})), None);
    let affinity = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
    check(tolerant(value!({"nodeSelector": {"disk": "hdd"}})), Some(("NodeAffinity", affinity)));
    let name = "Predicate NodeName failed: node(s) didn't match the requested node name";
    check(tolerant(value!({"nodeName": "n2"})), Some(("NodeName", name)));
    let taints = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    check(value!({}), Some(("TaintToleration", taints)));
}

#[test]
fn a_host_port_is_used_once() {
    let with = |port: Value| tolerant(value!({"containers": [{"name": "a", "ports": [(port)]}]}));
    let taken = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
    let taken = Some(("NodePorts", taken));
    check(with(value!({"containerPort": 8080, "hostPort": 80})), taken);
    check(with(value!({"containerPort": 8080, "hostPort": 80, "hostIP": "10.0.0.2"})), taken);
    check(with(value!({"containerPort": 8080, "hostPort": 80, "protocol": "UDP"})), None);
    check(with(value!({"containerPort": 80})), None);
    check(with(value!({"containerPort": 81, "hostPort": 81})), taken);
    check(with(value!({"containerPort": 81, "hostPort": 81, "hostIP": "10.0.0.2"})), None);
}

#[test]
fn static_pods_tolerate_all_taints() {
    let tree = value!({"metadata": {"name": "s", "uid": "s"}, "spec": {"containers": []}});
    assert!(
        select_victims(&Pod::new(tree, Source::File), &[], &node()).is_ok_and(|room| room.victims.is_empty())
    );
}

#[test]
fn pods_that_can_never_run_are_rejected() {
    let reason = |pod: Value| {
        predicates::impossible(&Pod::new(pod, Source::Api), &node()).map(|refusal| refusal.reason)
    };
    assert_eq!(reason(value!({"spec": {"os": {"name": "linux"}}})), None);
    assert_eq!(reason(value!({"spec": {"os": {"name": "windows"}}})).as_deref(), Some("PodOSNotSupported"));
    let labelled = value!({"metadata": {"labels": {"kubernetes.io/os": "windows"}}});
    assert_eq!(reason(labelled).as_deref(), Some("PodOSSelectorNodeLabelDoesNotMatch"));
    let strict = value!({"spec": {"securityContext": {"supplementalGroupsPolicy": "Strict"}}});
    assert_eq!(reason(strict).as_deref(), Some("SupplementalGroupsPolicyNotSupported"));
}

#[track_caller]
fn check_victims(asked: (&str, &str), others: &[Pod], expected: Result<&[&str], &str>) {
    let mut node = node();
    node.remove(&["spec", "taints"]);
    let found = select_victims(&critical(asked.0, asked.1), others, &node);
    let found = found.map(|room| room.victims.iter().map(|pod| pod.uid().to_owned()).collect::<Vec<_>>());
    match (found, expected) {
        (Ok(found), Ok(expected)) => assert_eq!(found, expected),
        (Err(refusal), Err(words)) => {
            assert_eq!(refusal.reason, "UnexpectedAdmissionError");
            assert!(refusal.message.ends_with(words), "{}", refusal.message);
        }
        (found, expected) => panic!("found {found:?}, expected {expected:?}"),
    }
}

#[test]
fn the_lowest_qos_class_is_preempted_first() {
    let others = || {
        vec![
            asking("guaranteed", "Guaranteed", "400m", "400Mi"),
            asking("burstable", "Burstable", "300m", "300Mi"),
            asking("small", "Burstable", "100m", "100Mi"),
        ]
    };
    check_victims(("200m", "100Mi"), &others(), Ok(&[]));
    check_victims(("300m", "100Mi"), &others(), Ok(&["small"]));
    check_victims(("400m", "100Mi"), &others(), Ok(&["burstable"]));
    check_victims(("700m", "100Mi"), &others(), Ok(&["small", "guaranteed"]));
    check_victims(("1500m", "1Mi"), &others(), Err("[(res: cpu, q: 500), ]"));
}

#[test]
fn a_pod_count_can_be_freed() {
    let none = |uid: &str| pod(uid, "BestEffort", value!({"containers": [{"name": "a"}]}));
    let mut others =
        vec![none("a"), asking("b", "Burstable", "100m", "1Mi"), critical("1m", "1Mi"), none("c")];
    check_victims(("1m", "1Mi"), &others, Ok(&["c"]));
    others = (0..4).map(|_| critical("1m", "1Mi")).collect();
    check_victims(("1m", "1Mi"), &others, Err("[(res: pods, q: 1), ]"));
}

#[test]
fn no_pod_is_preempted_for_a_mismatch() {
    let requests = value!({"requests": {"cpu": "2"}});
    let spec = value!({
        "priority": (CRITICAL), "nodeSelector": {"disk": "hdd"}, "containers": [{"name": "a", "resources": (requests)}],
    });
    let refusal = select_victims(&pod("new", "Burstable", tolerant(spec)), &[], &node()).unwrap_err();
    assert_eq!(refusal.reason, "NodeAffinity");
}

#[test]
fn app_armor_profiles_are_detected() {
    let asks = |pod: Value| has_app_armor_profile(&pod);
    assert!(!asks(value!({"spec": {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}})));
    assert!(asks(value!({"spec": {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}})));
    let container = value!({"securityContext": {"appArmorProfile": {"type": "Localhost"}}});
    assert!(asks(value!({"spec": {"containers": [(container)]}})));
    let annotated = |profile: &str| {
        asks(
            value!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": (profile)}}}),
        )
    };
    assert!(annotated("localhost/x") && !annotated("unconfined"));
}
