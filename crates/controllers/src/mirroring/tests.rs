//! Tests of the slices that Endpoints are mirrored to.

use super::*;
use crate::testing::at;

fn endpoints(subsets: &[Value]) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "db", "namespace": "default", "uid": "e",
            "labels": {"team": "shop"},
            "annotations": {"mine": "kept", "endpoints.kubernetes.io/last-change-trigger-time": "now"},
        },
        "subsets": (subsets.to_vec()),
    })
}

fn subset(ready: &[&str], not_ready: &[&str], ports: &[i64]) -> Value {
    let addresses = |ips: &[&str]| -> Vec<Value> { ips.iter().map(|ip| value!({"ip": (*ip)})).collect() };
    let port = |n: &i64| value!({"name": (format!("p{n}")), "port": (*n), "protocol": "TCP"});
    let ports: Vec<Value> = ports.iter().map(port).collect();
    value!({"addresses": (addresses(ready)), "notReadyAddresses": (addresses(not_ready)), "ports": ports})
}

fn plan(endpoints: Option<&Value>, slices: &[Value]) -> Plan {
    let mirroring = Mirroring { options: MirroringOptions::default() };
    let world = World { endpoints: endpoints.cloned(), slices: slices.to_vec() };
    mirroring.plan(&Key::new("default", "db"), &world, at(0))
}

/// A slice as text.
fn describe(slice: &Value) -> String {
    let endpoint = |endpoint: &Value| {
        let mark = if endpoint.bool_at(&["conditions", "ready"]) == Some(true) { "" } else { "?" };
        format!("{}{mark}", endpoint.items_at(&["addresses"])[0].as_str().unwrap())
    };
    let endpoints: Vec<_> = slice.items_at(&["endpoints"]).iter().map(endpoint).collect();
    let ports: Vec<_> =
        slice.items_at(&["ports"]).iter().map(|p| p.int_at(&["port"]).unwrap().to_string()).collect();
    format!("{} {} : {}", slice.str_at(&["addressType"]).unwrap(), endpoints.join(" "), ports.join(" "))
}

fn words(plan: &Plan) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Create { object, .. } => format!("create {}", describe(object)),
        Action::Update { object, .. } => format!("update {} {}", meta::name(object), describe(object)),
        Action::Delete { key, .. } => format!("delete {}", key.name),
        other => panic!("{other:?}"),
    };
    plan.actions().map(word).collect()
}

/// The slices of Endpoints.
fn made(endpoints: &Value) -> Vec<Value> {
    let mut slices = Vec::new();
    for (n, action) in plan(Some(endpoints), &[]).actions().enumerate() {
        let Action::Create { object, .. } = action else { panic!("{action:?}") };
        let mut slice = object.clone();
        slice.set(&["metadata", "name"], format!("s{n}"));
        slices.push(slice);
    }
    assert_eq!(words(&plan(Some(endpoints), &slices)), [""; 0], "nothing is done twice");
    slices
}

#[test]
fn each_subset_and_family_has_a_slice() {
    for (case, subsets, expected) in [
        ("none", vec![], &[][..]),
        ("one", vec![subset(&["10.0.0.1"], &["10.0.0.2"], &[80])], &["create IPv4 10.0.0.1 10.0.0.2? : 80"]),
        ("no ports", vec![subset(&["10.0.0.1"], &[], &[])], &["create IPv4 10.0.0.1 : "]),
        (
            "both families",
            vec![subset(&["10.0.0.1", "fd00::1"], &[], &[80])],
            &["create IPv4 10.0.0.1 : 80", "create IPv6 fd00::1 : 80"],
        ),
        (
            "two subsets",
            vec![subset(&["10.0.0.1"], &[], &[80]), subset(&["10.0.0.2"], &[], &[81, 82])],
            &["create IPv4 10.0.0.1 : 80", "create IPv4 10.0.0.2 : 81 82"],
        ),
        (
            "the same ports twice",
            vec![subset(&["10.0.0.1"], &[], &[80]), subset(&["10.0.0.2"], &[], &[80])],
            &["create IPv4 10.0.0.1 10.0.0.2 : 80"],
        ),
    ] {
        let endpoints = endpoints(&subsets);
        assert_eq!(words(&plan(Some(&endpoints), &[])), expected, "{case}");
        made(&endpoints);
    }
}

#[test]
fn a_slice_is_labelled_with_its_service() {
    let mut one = subset(&["10.0.0.1"], &[], &[80]);
    let address = value!({
        "ip": "10.0.0.1", "hostname": "h", "nodeName": "n",
        "targetRef": {"kind": "Pod", "name": "p", "namespace": "default", "resourceVersion": "7"},
    });
    one.set(&["addresses"], vec![address]);
    let slices = made(&endpoints(&[one]));
    let expected = value!({
        "addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hostname": "h", "nodeName": "n",
        "targetRef": {"kind": "Pod", "name": "p", "namespace": "default", "resourceVersion": "7"},
    });
    assert_eq!(slices[0].items_at(&["endpoints"]), [expected]);
    let labels = value!({
        "team": "shop", "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    });
    assert_eq!(slices[0].at(&["metadata", "labels"]), Some(&labels));
    assert_eq!(slices[0].at(&["metadata", "annotations"]), Some(&value!({"mine": "kept"})));
    assert_eq!(slices[0].str_at(&["metadata", "generateName"]), Some("db-"));
    assert_eq!(slices[0].items_at(&["metadata", "ownerReferences"])[0].str_at(&["kind"]), Some("Endpoints"));
}

#[test]
fn slices_follow() {
    let before = endpoints(&[subset(&["10.0.0.1"], &[], &[80])]);
    let slices = made(&before);
    let after = |subsets: &[Value]| words(&plan(Some(&endpoints(subsets)), &slices));
    assert_eq!(after(&[subset(&[], &["10.0.0.1"], &[80])]), ["update s0 IPv4 10.0.0.1? : 80"]);
    assert_eq!(after(&[subset(&["10.0.0.3"], &[], &[80])]), ["update s0 IPv4 10.0.0.3 : 80"]);
    assert_eq!(after(&[subset(&["10.0.0.1"], &[], &[90])]), ["update s0 IPv4 10.0.0.1 : 90"], "used again");
    assert_eq!(after(&[subset(&["fd00::1"], &[], &[80])]), ["create IPv6 fd00::1 : 80", "delete s0"]);
    assert_eq!(after(&[]), ["delete s0"]);
    assert_eq!(words(&plan(None, &slices)), ["delete s0"], "nothing to mirror any more");
    for (path, value) in [
        (&["metadata", "labels", "team"][..], "other"),
        (&["metadata", "annotations", "mine"], "other"),
        (&["metadata", "uid"], "new"),
    ] {
        let mut changed = before.clone();
        changed.set(path, value);
        assert_eq!(words(&plan(Some(&changed), &slices)), ["update s0 IPv4 10.0.0.1 : 80"], "{path:?}");
    }
    let mut going = endpoints(&[subset(&["10.0.0.1"], &[], &[80])]);
    going.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert!(plan(Some(&going), &[]).is_done(), "nothing is made for what is going");
}

#[test]
fn skipped_addresses_are_reported() {
    let invalid = plan(Some(&endpoints(&[subset(&["10.0.0.1", "nowhere"], &[], &[80])])), &[]);
    assert_eq!(words(&invalid), ["create IPv4 10.0.0.1 : 80"]);
    assert_eq!(invalid.events[0].message, "Skipped 1 invalid IP addresses when mirroring to EndpointSlices");
    let many: Vec<_> = (0..1005).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let truncated = plan(Some(&endpoints(&[subset(&many, &[], &[80])])), &[]);
    let [Action::Create { object, .. }] = truncated.actions().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(object.items_at(&["endpoints"]).len(), 1000);
    assert_eq!(
        truncated.events[0].message,
        "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 5 addresses were skipped"
    );
}

#[test]
fn some_endpoints_are_not_mirrored() {
    let plain = endpoints(&[]);
    assert!(is_mirrored(&plain));
    for (path, value) in [(["metadata", "labels", SKIP], "true"), (["metadata", "annotations", LEADER], "{}")]
    {
        let mut skipped = plain.clone();
        skipped.set(&path, value);
        assert!(!is_mirrored(&skipped), "{path:?}");
    }
}
