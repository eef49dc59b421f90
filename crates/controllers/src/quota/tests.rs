//! Tests of the usage of quotas, and of when it is written.

use corten_api::{json, value};
use corten_quota::DeviceClasses;

use super::*;
use crate::testing::{at, at_text, cached};

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// A quota with limits, and the limits and usage in its status.
fn quota(hard: &str, status_hard: &str, used: &str) -> Value {
    let mut quota = value!({
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": (tree(hard))},
        "status": {},
    });
    for (key, text) in [("hard", status_hard), ("used", used)] {
        if !text.is_empty() {
            quota.set(&["status", key], tree(text));
        }
    }
    quota
}

fn pod(name: &str, cpu: &str, phase: &str) -> Value {
    value!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        "status": {"phase": phase, "qosClass": "Burstable"},
    })
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

fn objects(group: &str, resource: &str, trees: &[Value]) -> (Measure, Vec<Arc<Object>>) {
    (Measure::of(group, resource, DeviceClasses::default), trees.iter().map(cached).collect())
}

fn world(quota: Value, objects: Vec<(Measure, Vec<Arc<Object>>)>) -> World {
    World { quota: Some(quota), objects, charges: Vec::new(), is_behind: false }
}

fn plan(world: &World) -> Plan {
    world.plan(QuotaOptions::default().sync_period, at(0))
}

/// The usage that is written; `None` if none is.
fn used(world: &World) -> Option<String> {
    let plan = plan(world);
    let Some(Action::Update { object, subresource: "status", .. }) = plan.actions().next() else {
        return None;
    };
    assert_eq!(object.at(&["status", "hard"]), object.at(&["spec", "hard"]));
    object.at(&["status", "used"]).map(json::write_to_string)
}

#[test]
fn everything_is_counted_by_its_rules() {
    let pods = || {
        objects(
            "",
            "pods",
            &[pod("a", "500m", "Running"), pod("b", "1500m", "Pending"), pod("c", "1", "Succeeded")],
        )
    };
    let service =
        |kind: &str| value!({"metadata": {"name": kind}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    let claim = value!({"metadata": {"name": "c"}, "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "5Gi"}}}});
    let widget = value!({"metadata": {"name": "w"}});
    for (case, hard, objects, expected) in [
        (
            "pods",
            r#"{"count/pods":"9","limits.cpu":"9","pods":"9","requests.cpu":"9","requests.memory":"9Gi"}"#,
            pods(),
            r#"{"count/pods":"3","limits.cpu":"0","pods":"2","requests.cpu":"2","requests.memory":"2Gi"}"#,
        ),
        (
            "services",
            r#"{"services":"9","services.loadbalancers":"9","services.nodeports":"9"}"#,
            objects("", "services", &[service("ClusterIP"), service("NodePort"), service("LoadBalancer")]),
            r#"{"services":"3","services.loadbalancers":"1","services.nodeports":"2"}"#,
        ),
        (
            "volume claims",
            r#"{"gold.storageclass.storage.k8s.io/requests.storage":"9Gi","persistentvolumeclaims":"9","silver.storageclass.storage.k8s.io/requests.storage":"9Gi"}"#,
            objects("", "persistentvolumeclaims", &[claim]),
            r#"{"gold.storageclass.storage.k8s.io/requests.storage":"5Gi","persistentvolumeclaims":"1","silver.storageclass.storage.k8s.io/requests.storage":"0"}"#,
        ),
        (
            "anything",
            r#"{"count/widgets.example.com":"9"}"#,
            objects("example.com", "widgets", std::slice::from_ref(&widget)),
            r#"{"count/widgets.example.com":"1"}"#,
        ),
        (
            "by its plain name",
            r#"{"count/secrets":"9","secrets":"9"}"#,
            objects("", "secrets", &[widget.clone(), widget]),
            r#"{"count/secrets":"2","secrets":"2"}"#,
        ),
        ("nothing", r#"{"pods":"9"}"#, objects("", "pods", &[]), r#"{"pods":"0"}"#),
    ] {
        let counted = used(&world(quota(hard, "", ""), vec![objects]));
        assert_eq!(counted.as_deref(), Some(expected), "{case}");
    }
}

#[test]
fn scopes_restrict_the_counted_objects() {
    let ended = with(pod("d", "1", "Running"), &["spec", "activeDeadlineSeconds"], 5);
    let best_effort = with(pod("e", "1", "Running"), &["status", "qosClass"], "BestEffort");
    let high = with(pod("h", "1", "Running"), &["spec", "priorityClassName"], "high");
    let term =
        value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}});
    let crossing = with(pod("x", "1", "Running"), &["spec", "affinity"], term);
    let pods = [pod("p", "1", "Running"), ended, best_effort, high, crossing];
    let scoped = |scope: &str| {
        let quota = quota(r#"{"pods":"9","services":"9"}"#, "", "");
        with(quota, &["spec", "scopes"], vec![Value::from(scope)])
    };
    let selected =
        value!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    let selected =
        with(quota(r#"{"pods":"9","services":"9"}"#, "", ""), &["spec", "scopeSelector"], selected);
    for (case, quota, expected) in [
        ("terminating", scoped("Terminating"), 1),
        ("not terminating", scoped("NotTerminating"), 4),
        ("best effort", scoped("BestEffort"), 1),
        ("not best effort", scoped("NotBestEffort"), 4),
        ("across namespaces", scoped("CrossNamespacePodAffinity"), 1),
        ("by priority class", selected, 1),
    ] {
        let services = objects("", "services", &[value!({"metadata": {"name": "s"}})]);
        let counted = used(&world(quota, vec![objects("", "pods", &pods), services]));
        let expected = format!(r#"{{"pods":"{expected}","services":"0"}}"#);
        assert_eq!(counted, Some(expected), "{case}: what has no scope does not count");
    }
    let claim = value!({"metadata": {"name": "c"}, "spec": {"volumeAttributesClassName": "gold"}});
    let by_class = value!({"matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}]});
    let by_class =
        with(quota(r#"{"persistentvolumeclaims":"9"}"#, "", ""), &["spec", "scopeSelector"], by_class);
    let other = with(claim.clone(), &["spec", "volumeAttributesClassName"], "silver");
    let counted = used(&world(by_class, vec![objects("", "persistentvolumeclaims", &[claim, other])]));
    assert_eq!(counted.as_deref(), Some(r#"{"persistentvolumeclaims":"1"}"#));
}

#[test]
fn only_changes_are_written() {
    let one = || vec![objects("", "pods", &[pod("a", "1", "Running")])];
    let hard = r#"{"pods":"9","requests.cpu":"2000m"}"#;
    let same = world(
        quota(hard, r#"{"pods":"9","requests.cpu":"2"}"#, r#"{"pods":"1","requests.cpu":"1000m"}"#),
        one(),
    );
    assert_eq!(used(&same), None, "however it is written");
    assert_eq!(plan(&same).requeue_after, Some(Duration::from_secs(300)));
    for (case, status, known) in [
        ("other limits", r#"{"pods":"8","requests.cpu":"2"}"#, r#"{"pods":"1","requests.cpu":"1"}"#),
        ("less used", hard, r#"{"pods":"5","requests.cpu":"1"}"#),
        ("more used", hard, r#"{"pods":"0","requests.cpu":"1"}"#),
        ("not all counted", hard, r#"{"pods":"1"}"#),
        ("too much counted", hard, r#"{"pods":"1","requests.cpu":"1","services":"7"}"#),
    ] {
        let counted = used(&world(quota(hard, status, known), one()));
        assert_eq!(counted.as_deref(), Some(r#"{"pods":"1","requests.cpu":"1"}"#), "{case}");
    }
}

#[test]
fn usage_of_unknown_resources_is_kept() {
    let hard = r#"{"count/unknown.example.com":"9","pods":"9"}"#;
    let counted = |known: &str| used(&world(quota(hard, "", known), vec![objects("", "pods", &[])]));
    assert_eq!(counted("").as_deref(), Some(r#"{"pods":"0"}"#));
    let known = r#"{"count/unknown.example.com":"3","pods":"1"}"#;
    assert_eq!(counted(known).as_deref(), Some(r#"{"count/unknown.example.com":"3","pods":"0"}"#));
}

#[test]
fn recent_charges_are_not_released() {
    let hard = r#"{"pods":"9"}"#;
    let one = || vec![objects("", "pods", &[pod("a", "1", "Running")])];
    let charge = |pods: &str, milliseconds| Charge {
        at: at(0) - jiff::SignedDuration::from_millis(milliseconds),
        amounts: resource_list::read(Some(&value!({"pods": pods}))),
    };
    // Three are charged, and one exists.
    let charged = |charges| World { charges, ..world(quota(hard, hard, r#"{"pods":"3"}"#), one()) };
    for (case, charges, expected) in [
        ("none of late", vec![], Some("1")),
        ("one of late", vec![charge("1", 300)], Some("2")),
        ("both of late", vec![charge("1", 300), charge("1", 900)], None),
        ("more than there are", vec![charge("7", 300)], None),
        ("one long ago", vec![charge("1", 300), charge("1", 1000)], Some("2")),
    ] {
        let expected = expected.map(|count| format!(r#"{{"pods":"{count}"}}"#));
        assert_eq!(used(&charged(charges)), expected, "{case}");
    }
    let later = plan(&charged(vec![charge("1", 900), charge("1", 300)]));
    assert_eq!(later.requeue_after, Some(Duration::from_millis(700)), "when all is there");
    let mut other = charged(vec![charge("2", 300)]);
    other.quota = Some(quota(r#"{"pods":"7","secrets":"5"}"#, hard, r#"{"pods":"3"}"#));
    other.objects.push(objects("", "secrets", &[]));
    assert_eq!(used(&other).as_deref(), Some(r#"{"pods":"3","secrets":"0"}"#), "new limits do not wait");
}

#[test]
fn nothing_is_counted_before_the_caches_have_synced() {
    let behind = World { is_behind: true, ..world(quota(r#"{"pods":"9"}"#, "", ""), Vec::new()) };
    assert!(plan(&behind).retry);
    assert!(plan(&World::default()).is_done());
}

#[test]
fn which_changes_free_something() {
    let frees = |resource: &str, old: &Value, new: &Value| {
        counted::frees(&Measure::of("", resource, DeviceClasses::default), old, new, at(0))
    };
    let running = pod("a", "1", "Running");
    assert!(!frees("pods", &running, &with(running.clone(), &["metadata", "labels", "a"], "b")));
    assert!(frees("pods", &running, &pod("a", "1", "Failed")));
    assert!(frees("pods", &running, &pod("a", "500m", "Running")));
    assert!(frees("pods", &running, &with(running.clone(), &["spec", "activeDeadlineSeconds"], 5)));
    let deleted = with(running.clone(), &["metadata", "deletionTimestamp"], at_text(-60));
    assert!(frees("pods", &running, &with(deleted, &["metadata", "deletionGracePeriodSeconds"], 30)));
    let service = |kind: &str| value!({"spec": {"type": kind, "ports": [{"port": 80}]}});
    assert!(frees("services", &service("NodePort"), &service("ClusterIP")));
    let claim = |size: &str| value!({"spec": {"resources": {"requests": {"storage": size}}}});
    assert!(frees("persistentvolumeclaims", &claim("2Gi"), &claim("1Gi")));
    assert!(!frees("persistentvolumeclaims", &claim("1Gi"), &claim("1024Mi")));
}
