//! Tests of the slices of services, and of which of them are written.

use corten_api::{Status, value};

use super::*;
use crate::claims;
use crate::testing::{at, at_text, cached, done, failed};

fn service() -> Value {
    value!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "default", "uid": "service",
            "creationTimestamp": (at_text(-100)), "labels": {"team": "shop"},
        },
        "spec": {
            "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

/// The n-th pod, running and ready.
fn pod(n: usize) -> Value {
    value!({
        "metadata": {
            "name": (format!("p{n:04}")), "namespace": "default", "uid": (format!("uid{n}")),
            "labels": {"app": "web"},
        },
        "spec": {"nodeName": (if n.is_multiple_of(2) { "even" } else { "odd" })},
        "status": {
            "phase": "Running", "podIPs": [{"ip": (format!("10.1.{}.{}", n / 250, n % 250))}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": (at_text(-10))}],
        },
    })
}

fn not_ready(pod: Value) -> Value {
    with(pod, &["status", "conditions"], vec![value!({"type": "Ready", "status": "False"})])
}

fn pods(numbers: impl IntoIterator<Item = usize>) -> Vec<Value> {
    numbers.into_iter().map(pod).collect()
}

fn world(service: &Value, pods: &[Value], slices: &[Value]) -> World {
    let nodes = [("even", "a"), ("odd", "b")];
    let triggers = Triggers::default();
    let pods: Vec<_> = pods.iter().map(cached).map(Pod::from).collect();
    World {
        trigger: triggers.since_last_reconcile(&key(), service, &pods),
        object: cached(service),
        service: service.clone(),
        pods,
        slices: slices.iter().map(cached).map(Slice::from).collect(),
        nodes: nodes.into_iter().map(|(node, zone)| (node.into(), Some(zone.into()))).collect(),
        shares: None,
        was_by_capacity: false,
    }
}

fn key() -> Key {
    Key::new("default", "web")
}

fn plan(world: World) -> Plan {
    EndpointSlices::new(EndpointSliceOptions::default()).plan(&key(), &Some(world), at(0))
}

/// The actions of a plan, with the number of endpoints of each slice it writes.
fn words(plan: &Plan) -> Vec<String> {
    let count = |object: &Value| object.items_at(&["endpoints"]).len();
    let word = |action: &Action| match action {
        Action::Create { object, .. } => format!("create {}", count(object)),
        Action::Update { object, .. } => format!("update {} {}", meta::name(object), count(object)),
        Action::Delete { key, .. } => format!("delete {}", key.name),
        other => panic!("{other:?}"),
    };
    plan.actions().map(word).collect()
}

/// The slices after a plan, given those before.
fn after(slices: &[Value], plan: &Plan) -> Vec<Value> {
    let mut slices = slices.to_vec();
    let mut created = slices.len();
    for action in plan.actions() {
        match action {
            Action::Create { object, .. } => {
                created += 1;
                let name = format!("s{created}");
                let object = with(object.clone(), &["metadata", "uid"], name.clone());
                slices.push(with(object, &["metadata", "name"], name));
            }
            Action::Update { object, .. } => {
                let slice = slices.iter_mut().find(|slice| meta::name(slice) == meta::name(object)).unwrap();
                *slice = object.clone();
            }
            Action::Delete { key, .. } => slices.retain(|slice| meta::name(slice) != key.name),
            other => panic!("{other:?}"),
        }
    }
    slices
}

/// The slices of a service with these pods.
fn made(service: &Value, pods: &[Value]) -> Vec<Value> {
    let slices = after(&[], &plan(world(service, pods, &[])));
    assert_eq!(words(&plan(world(service, pods, &slices))), [""; 0], "nothing is done twice");
    slices
}

#[test]
fn a_service_without_pods_has_an_empty_slice() {
    let slices = made(&service(), &[]);
    let [slice] = &slices[..] else { panic!("{slices:?}") };
    assert_eq!(slice.get("endpoints"), Some(&Value::Null));
    assert_eq!(slice.get("ports"), Some(&Value::Null));
    assert_eq!(slice.str_at(&["addressType"]), Some("IPv4"));
    assert_eq!(slice.str_at(&["metadata", "generateName"]), Some("web-"));
    let labels = value!({
        "team": "shop", "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    assert_eq!(slice.at(&["metadata", "labels"]), Some(&labels));
    assert_eq!(slice.items_at(&["metadata", "ownerReferences"]), [claims::reference(&service())]);
    assert_eq!(slice.str_at(&["metadata", "annotations", services::TRIGGER_TIME]), Some(&*at_text(-100)));
    let first = plan(world(&service(), &[pod(1)], &slices));
    assert_eq!(words(&first), ["update s1 1"], "it is used for the first endpoint");
    let last = plan(world(&service(), &[], &after(&slices, &first)));
    assert_eq!(words(&last), ["update s1 0"], "and when there are none again");
    let headless = with(service(), &["spec", "clusterIP"], "None");
    assert_eq!(made(&headless, &[])[0].str_at(&["metadata", "labels", services::HEADLESS]), Some(""));
}

#[test]
fn an_endpoint_says_all_about_its_pod() {
    let named = with(with(pod(1), &["spec", "hostname"], "one"), &["spec", "subdomain"], "web");
    let slices = made(&service(), &[named]);
    let endpoint = value!({
        "addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
        "hostname": "one", "nodeName": "odd", "zone": "b",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "p0001", "uid": "uid1"},
    });
    assert_eq!(slices[0].items_at(&["endpoints"]), [endpoint]);
    let port = value!({"name": "http", "port": 8080, "protocol": "TCP"});
    assert_eq!(slices[0].items_at(&["ports"]), [port]);
}

#[test]
fn conditions_follow_readiness_and_deletion() {
    let deleting = |pod| with(pod, &["metadata", "deletionTimestamp"], at_text(0));
    let publishing = with(service(), &["spec", "publishNotReadyAddresses"], true);
    for (case, service, pod, expected) in [
        ("ready", service(), pod(1), (true, true, false)),
        ("not ready", service(), not_ready(pod(1)), (false, false, false)),
        ("going", service(), deleting(pod(1)), (false, true, true)),
        ("going and not ready", service(), deleting(not_ready(pod(1))), (false, false, true)),
        ("not ready, published", publishing.clone(), not_ready(pod(1)), (true, false, false)),
        ("going, published", publishing, deleting(pod(1)), (true, true, true)),
    ] {
        let slices = made(&service, &[pod]);
        let holds =
            |kind: &str| slices[0].items_at(&["endpoints"])[0].bool_at(&["conditions", kind]).unwrap();
        assert_eq!((holds("ready"), holds("serving"), holds("terminating")), expected, "{case}");
    }
}

#[test]
fn some_pods_are_no_endpoints() {
    let mut without_ip = pod(1);
    without_ip.remove(&["status", "podIPs"]);
    let phase = |phase: &str| with(pod(1), &["status", "phase"], phase);
    let ipv6 = with(pod(1), &["status", "podIPs"], vec![value!({"ip": "fd00::1"})]);
    for (case, pod) in [
        ("no address", without_ip),
        ("succeeded", phase("Succeeded")),
        ("failed", phase("Failed")),
        ("other family", ipv6),
    ] {
        assert_eq!(made(&service(), &[pod])[0].items_at(&["endpoints"]), [], "{case}");
    }
}

#[test]
fn a_pod_of_a_missing_node_waits() {
    let lost = with(pod(1), &["spec", "nodeName"], "gone");
    let plan = plan(world(&service(), &[lost.clone(), pod(2)], &[]));
    assert_eq!(words(&plan), ["create 1"]);
    assert!(plan.retry);
    assert_eq!(
        plan.events[0].message,
        "Error updating Endpoint Slices for Service default/web: skipping Pod p0001 for Service default/web: \
         Node gone Not Found"
    );
    let publishing = with(service(), &["spec", "publishNotReadyAddresses"], true);
    assert_eq!(made(&publishing, &[lost])[0].items_at(&["endpoints"]).len(), 1);
}

#[test]
fn slices_are_filled_and_few_are_written() {
    let all = pods(0..250);
    let slices = made(&service(), &all);
    let sizes: Vec<_> = slices.iter().map(|s| s.items_at(&["endpoints"]).len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    let check = |case: &str, pods: &[Value], expected: &[&str]| {
        assert_eq!(words(&plan(world(&service(), pods, &slices))), expected, "{case}");
    };
    let mut changed = all.clone();
    changed[7] = not_ready(pod(7));
    check("one changes", &changed, &["update s1 100"]);
    check("some come and fit one", &pods(0..290), &["update s3 90"]);
    check("more come than fit one", &pods(0..305), &["create 55"]);
    check("many come", &pods(0..500), &["create 100", "create 100", "update s3 100"][..]);
    check("one goes", &pods(1..250), &["update s1 99"]);
    check("one goes, one comes", &pods(1..251), &["update s1 100"]);
    check("a slice empties", &pods(0..200), &["delete s3"]);
    check("all go", &[], &["update s1 0", "delete s2", "delete s3"]);
    let renamed = with(service(), &["metadata", "labels", "team"], "mine");
    assert_eq!(plan(world(&renamed, &all, &slices)).actions().count(), 3, "labels follow the service's");
}

#[test]
fn one_of_thousands_costs_one_write() {
    let mut all = pods(0..5000);
    let slices = made(&service(), &all);
    assert_eq!(slices.len(), 50);
    all[4321] = not_ready(pod(4321));
    assert_eq!(words(&plan(world(&service(), &all, &slices))), ["update s44 100"]);
}

#[test]
fn pods_with_other_ports_have_other_slices() {
    let named =
        with(service(), &["spec", "ports"], vec![value!({"name": "http", "port": 80, "targetPort": "web"})]);
    let listening = |n, port: i64| {
        let ports = vec![value!({"ports": [{"name": "web", "containerPort": port}]})];
        with(pod(n), &["spec", "containers"], ports)
    };
    let sidecar =
        vec![value!({"restartPolicy": "Always", "ports": [{"name": "web", "containerPort": 3000}]})];
    let sidecar = with(pod(4), &["spec", "initContainers"], sidecar);
    let slices = made(&named, &[listening(1, 8080), listening(2, 8080), listening(3, 9090), sidecar, pod(5)]);
    let found: Vec<_> = slices
        .iter()
        .map(|s| {
            (
                s.items_at(&["ports"]).first().and_then(|p| p.int_at(&["port"])),
                s.items_at(&["endpoints"]).len(),
            )
        })
        .collect();
    assert_eq!(found, [(None, 1), (Some(3000), 1), (Some(8080), 2), (Some(9090), 1)]);
    let gone = plan(world(&named, &[listening(3, 9090)], &slices));
    assert_eq!(words(&gone), ["delete s1", "delete s2", "delete s3"]);
    let changed = plan(world(&named, &[listening(3, 9091)], &slices[3..]));
    assert_eq!(words(&changed), ["update s4 1"], "a slice that would go is used again");
}

#[test]
fn families_have_their_own_slices() {
    let both = with(service(), &["spec", "ipFamilies"], vec![Value::from("IPv4"), Value::from("IPv6")]);
    let ips = vec![value!({"ip": "010.1.0.001"}), value!({"ip": "fd00:0:0::1"})];
    let dual = with(pod(1), &["status", "podIPs"], ips);
    let slices = made(&both, std::slice::from_ref(&dual));
    let reported: Vec<_> = slices
        .iter()
        .map(|s| {
            (
                s.str_at(&["addressType"]).unwrap(),
                s.items_at(&["endpoints"])[0].items_at(&["addresses"])[0].clone(),
            )
        })
        .collect();
    assert_eq!(reported, [("IPv4", Value::from("10.1.0.1")), ("IPv6", Value::from("fd00::1"))]);
    assert_eq!(words(&plan(world(&service(), &[dual], &slices))), ["delete s2"], "it has IPv4 only now");
    let unsaid =
        with(with(service(), &["spec", "ipFamilies"], Value::Null), &["spec", "clusterIP"], "fd00::9");
    assert_eq!(address_types(&unsaid), ["IPv6"]);
    let headless = with(unsaid, &["spec", "clusterIP"], "None");
    assert_eq!(address_types(&headless), ["IPv4", "IPv6"]);
}

#[test]
fn slices_of_a_former_service_go() {
    let mut slices = made(&service(), &[pod(1)]);
    let other = with(service(), &["metadata", "uid"], "new");
    assert_eq!(words(&plan(world(&other, &[pod(1)], &slices))), ["create 1", "delete s1"]);
    let going = with(service(), &["metadata", "deletionTimestamp"], at_text(0));
    assert_eq!(words(&plan(world(&going, &[], &[]))), [""; 0], "nothing is made for what is going");
    slices[0].set(&["metadata", "labels", "mine"], "too");
    assert_eq!(words(&plan(world(&service(), &[pod(1)], &slices))), ["update s1 1"], "labels are put right");
}

#[test]
fn hints_follow_the_traffic_distribution() {
    let hints = |slices: &[Value]| slices[0].items_at(&["endpoints"])[0].get("hints").cloned();
    let zone = value!({"forZones": [{"name": "b"}]});
    for (distribution, expected) in [
        ("PreferClose", Some(zone.clone())),
        ("PreferSameZone", Some(zone.clone())),
        ("PreferSameNode", Some(value!({"forZones": [{"name": "b"}], "forNodes": [{"name": "odd"}]}))),
        ("Strange", None),
    ] {
        let service = with(service(), &["spec", "trafficDistribution"], distribution);
        assert_eq!(hints(&made(&service, &[pod(1)])), expected, "{distribution}");
        assert_eq!(hints(&made(&service, &[not_ready(pod(1))])), None, "{distribution}, not ready");
    }
    let close = with(service(), &["spec", "trafficDistribution"], "PreferClose");
    let slices = made(&close, &[pod(1)]);
    let over = plan(world(&service(), &[pod(1)], &slices));
    assert_eq!(words(&over), ["update s1 1"]);
    assert_eq!(hints(&after(&slices, &over)), None);
    assert_eq!(over.events, [], "the service wants no topology hints");
}

/// A service with topology hints, given the zones' CPUs.
fn by_capacity(world: World, processors: &[(&str, i64)]) -> World {
    let processors = processors.iter().map(|(zone, count)| (Str::new(zone), *count)).collect();
    World { shares: topology::of_processors(&processors), was_by_capacity: true, ..world }
}

#[test]
fn hints_by_capacity_give_each_zone_its_share() {
    let auto = with(service(), &["metadata", "annotations", "service.kubernetes.io/topology-mode"], "Auto");
    let hinted = |slices: &[Value]| {
        let mut counts = BTreeMap::new();
        for endpoint in slices.iter().flat_map(|slice| slice.items_at(&["endpoints"])) {
            let zone = endpoint.items_at(&["hints", "forZones"]).first().and_then(|z| z.str_at(&["name"]));
            *counts.entry(zone.unwrap_or("-").to_owned()).or_insert(0) += 1;
        }
        counts.into_iter().map(|(zone, count)| format!("{zone}{count}")).collect::<Vec<_>>().join(" ")
    };
    // Half of the pods are in zone a, half in zone b.
    for (pods_count, processors, expected, event) in [
        (
            10,
            &[("a", 1000), ("b", 1000)][..],
            "a5 b5",
            "Topology Aware Hints has been enabled, addressType: IPv4",
        ),
        (
            10,
            &[("a", 1000), ("b", 3000)],
            "a3 b7",
            "Topology Aware Hints has been enabled, addressType: IPv4",
        ),
        (
            10,
            &[("a", 1000)],
            "-10",
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4",
        ),
        (
            1,
            &[("a", 1000), ("b", 1000)],
            "-1",
            "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4",
        ),
        (
            3,
            &[("a", 1000), ("b", 1000)],
            "-3",
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (3 endpoints, 2 zones), addressType: IPv4",
        ),
    ] {
        let all = pods(0..pods_count);
        let made = plan(by_capacity(world(&auto, &all, &[]), processors));
        assert_eq!(hinted(&after(&[], &made)), expected);
        assert_eq!(made.events[0].message, event);
        let again = plan(by_capacity(world(&auto, &all, &after(&[], &made)), processors));
        assert_eq!(words(&again), [""; 0], "{expected}: nothing is done twice");
    }
    let nowhere = World {
        nodes: [("even".into(), None), ("odd".into(), None)].into(),
        ..world(&auto, &pods(0..4), &[])
    };
    let plan_nowhere = plan(by_capacity(nowhere, &[("a", 1000), ("b", 1000)]));
    assert_eq!(
        plan_nowhere.events[0].message,
        "One or more endpoints do not have a zone specified, addressType: IPv4"
    );
    let slices = after(&[], &plan(by_capacity(world(&auto, &pods(0..4), &[]), &[("a", 1000), ("b", 1000)])));
    let over = plan(World { was_by_capacity: true, ..world(&service(), &pods(0..4), &slices) });
    assert_eq!(over.events[0].message, "Topology Aware Hints has been disabled, addressType: IPv4");
    assert_eq!(hinted(&after(&slices, &over)), "-4");
}

#[test]
fn changes_tell_since_when_they_were_due() {
    let triggers = Triggers::default();
    let look = |pods: &[Value]| {
        let pods: Vec<_> = pods.iter().map(cached).map(Pod::from).collect();
        triggers.since_last_reconcile(&key(), &service(), &pods)
    };
    let since = |n, seconds| {
        let condition = value!({"type": "Ready", "status": "True", "lastTransitionTime": (at_text(seconds))});
        with(pod(n), &["status", "conditions"], vec![condition])
    };
    assert_eq!(look(&[pod(1)]), Some(at(-100)), "the service itself");
    assert_eq!(look(&[pod(1)]), None, "the time is unknown");
    assert_eq!(look(&[since(1, -5), since(2, -3)]), Some(at(-5)), "the first of several");
    assert_eq!(look(&[since(1, -5), since(2, -3), since(3, -4)]), Some(at(-4)));
    assert_eq!(look(&[since(1, -5)]), None);
    triggers.forget(&key());
    assert_eq!(look(&[since(1, -5)]), Some(at(-100)));
}

#[test]
fn failures_are_reported() {
    let world = Some(world(&service(), &[pod(1)], &[]));
    let controller = EndpointSlices::new(EndpointSliceOptions::default());
    let plan = controller.plan(&key(), &world, at(0));
    assert!(controller.conclude(&key(), &world, &done(&plan), at(0)).is_done());
    let refused = failed(&plan, Status::bad_request("no"));
    let reported = controller.conclude(&key(), &world, &refused, at(0));
    assert_eq!(reported.events[0].reason, "FailedToUpdateEndpointSlices");
    assert_eq!(
        reported.events[0].message,
        "Error updating Endpoint Slices for Service default/web: failed to create EndpointSlice for Service \
         default/web: no"
    );
}
