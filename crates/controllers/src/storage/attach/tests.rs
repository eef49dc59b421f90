//! Tests of attaching and detaching.

use corten_api::value;
use corten_client::Patch;
use corten_reconcile::Action;

use super::node::Attached;
use super::*;
use crate::testing::{at, done};

const UNIQUE: &str = "kubernetes.io/csi/disk.example.com^h";

fn pod(namespace: &str, name: &str, node: &str) -> Value {
    value!({"metadata": {"namespace": namespace, "name": name}, "spec": {"nodeName": node}})
}

fn attachment(node: &str) -> Value {
    let name = format!("csi-{node}");
    value!({
        "metadata": {"name": name, "uid": node},
        "spec": {"attacher": "disk.example.com", "nodeName": node, "source": {"persistentVolumeName": "v"}},
        "status": {"attached": true},
    })
}

/// A ready node with the volume in its status, mounted or not.
fn node(name: &str, mounted: bool) -> Value {
    let in_use: Vec<Value> = mounted.then(|| UNIQUE.into()).into_iter().collect();
    value!({
        "metadata": {"name": name, "resourceVersion": "9"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "volumesInUse": in_use,
            "volumesAttached": [{"name": UNIQUE, "devicePath": ""}],
        },
    })
}

fn unready(mut node: Value) -> Value {
    node.set(&["status", "conditions"], value!([{"type": "Ready", "status": "Unknown"}]));
    node
}

fn tainted(mut node: Value) -> Value {
    node.set(
        &["spec", "taints"],
        value!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]),
    );
    node
}

fn world(pods: &[Value], attachments: &[Value], nodes: &[Value]) -> VolumeWorld {
    VolumeWorld {
        name: "v".into(),
        csi: ("disk.example.com".into(), "h".into()),
        attachable: true,
        pods: pods.to_vec(),
        attachments: attachments.to_vec(),
        nodes: nodes.iter().map(|node| (meta::name(node).into(), node.clone())).collect(),
        ..VolumeWorld::default()
    }
}

fn decide(world: &VolumeWorld, seconds: i64) -> (Plan, Memory) {
    world.decide(&AttachOptions::default(), at(seconds))
}

/// The actions and events of a plan.
fn words(plan: &Plan) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Create { object, .. } => format!("attach to {}", volume::node_of(object)),
        Action::Delete { key, .. } => format!("delete {}", key.name),
        Action::Patch { key, patch: Patch::Strategic(patch), subresource: "status", .. } => {
            let volumes = patch.items_at(&["status", "volumesAttached"]);
            let names: Vec<_> = volumes.iter().filter_map(|v| v.str_at(&["name"])).collect();
            format!("tell {} of [{}]", key.name, names.join(" "))
        }
        other => format!("{other:?}"),
    };
    let reported = |event: &corten_reconcile::Event| {
        format!("{} {}", event.about.str_at(&["name"]).unwrap_or_default(), event.message)
    };
    plan.actions().map(word).chain(plan.events.iter().map(reported)).collect()
}

#[track_caller]
fn check(why: &str, world: &VolumeWorld, expected: &[&str]) {
    assert_eq!(words(&decide(world, 0).0), expected, "{why}");
}

#[test]
fn volumes_are_attached_where_pods_need_them() {
    let needed = world(&[pod("n", "p", "one")], &[], &[]);
    check("needed", &needed, &["attach to one"]);
    let (plan, _) = decide(&needed, 0);
    let Some(Action::Create { object, .. }) = plan.actions().next() else { panic!("nothing is made") };
    assert_eq!(meta::name(object), "csi-29f0f8bf1842c03edc53023046aedfce27ee1294c92dbea45bbefc571e180e31");
    let spec = value!({
        "attacher": "disk.example.com", "nodeName": "one", "source": {"persistentVolumeName": "v"},
    });
    assert_eq!(object.get("spec"), Some(&spec));
    check("attached already", &world(&[pod("n", "p", "one")], &[attachment("one")], &[]), &[]);
    check("no pod needs it", &world(&[], &[], &[]), &[]);
    check("no need to attach", &VolumeWorld { attachable: false, ..needed }, &[]);
    let shared = VolumeWorld { shared: true, ..world(&[pod("n", "p", "two")], &[attachment("one")], &[]) };
    check("shared, and waiting for the other node", &shared, &["attach to two"]);
}

#[test]
fn volumes_are_detached_when_the_node_has_let_go() {
    let detached = ["tell one of []", "delete csi-one"];
    let alone = |node: Value| world(&[], &[attachment("one")], &[node]);
    check("let go", &alone(node("one", false)), &detached);
    check("still mounted", &alone(node("one", true)), &[]);
    check("out of service", &alone(tainted(node("one", true))), &detached);
    check("not ready, but not for long", &alone(unready(node("one", true))), &[]);
    let mut unreported = node("one", false);
    unreported.remove(&["status", "volumesAttached"]);
    check("not in the node status", &alone(unreported), &["delete csi-one"]);
    let mut going = attachment("one");
    going.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    check("being detached already", &world(&[], &[going], &[node("one", false)]), &[]);
    check("needed", &world(&[pod("n", "p", "one")], &[attachment("one")], &[node("one", false)]), &[]);
}

#[test]
fn the_node_is_read_before_a_volume_is_detached() {
    let asks = |world: &VolumeWorld| world.questions().len();
    assert_eq!(asks(&world(&[], &[attachment("one")], &[node("one", false)])), 1);
    assert_eq!(asks(&world(&[], &[attachment("one")], &[node("one", true)])), 0);
    let attacher = Attacher { options: AttachOptions::default(), memory: Mutex::default() };
    let mut seen = World::Volume(Box::new(world(&[], &[attachment("one")], &[node("one", false)])));
    assert_eq!(attacher.ask(&seen), ["/api/v1/nodes/one"]);
    attacher.learn(&mut seen, "", Ok(node("one", true)));
    assert!(attacher.ask(&seen).is_empty());
    assert!(attacher.plan(&volume_key("v"), &seen, at(0)).actions().next().is_none(), "it began to mount it");
}

#[test]
fn nodes_that_are_not_ready_are_waited_for_six_minutes() {
    for (why, nodes) in [("not ready", vec![unready(node("one", true))]), ("gone", vec![])] {
        let mut world = world(&[], &[attachment("one")], &nodes);
        let (plan, memory) = decide(&world, 0);
        assert_eq!(plan, Plan::done().requeue_after(Duration::from_secs(360)), "{why}");
        assert_eq!(memory.waits.get("one"), Some(&at(0)), "{why}");
        world.memory = memory;
        let (plan, memory) = decide(&world, 100);
        assert_eq!(plan, Plan::done().requeue_after(Duration::from_secs(260)), "{why}");
        assert_eq!(memory.waits.get("one"), Some(&at(0)), "{why}");
        let (plan, memory) = decide(&world, 360);
        assert!(words(&plan).contains(&"delete csi-one".to_owned()), "{why}");
        assert_eq!(memory, Memory::default(), "{why}");
        let patient = AttachOptions { disable_force_detach_on_timeout: true, ..AttachOptions::default() };
        assert!(world.decide(&patient, at(360)).0.is_done(), "{why}");
    }
    let mut ready = world(&[], &[attachment("one")], &[node("one", true)]);
    ready.memory.waits.insert("one".into(), at(0));
    assert!(decide(&ready, 4000).0.is_done(), "a node that is ready is waited for");
}

#[test]
fn a_volume_attached_elsewhere_is_reported_once() {
    let here = pod("n", "here", "two");
    let wait = "here Waiting for detach for volume \"v\" Volume is already";
    let exclusively =
        "exclusively attached to one node, waiting on detach before it can be attached to another node";
    for (others, why) in [
        (vec![], exclusively),
        (vec![pod("n", "a", "one"), pod("n", "b", "one")], "used by pod(s) a, b"),
        (vec![pod("m", "a", "one")], "used by 1 pod(s) in different namespaces"),
        (
            vec![pod("n", "a", "one"), pod("m", "b", "one")],
            "used by pod(s) a and 1 pod(s) in different namespaces",
        ),
    ] {
        let pods: Vec<Value> = others.into_iter().chain([here.clone()]).collect();
        let mut world = world(&pods, &[attachment("one")], &[node("one", true)]);
        let (plan, memory) = decide(&world, 0);
        assert_eq!(words(&plan), [format!("{wait} {why}")]);
        world.memory = memory;
        assert!(decide(&world, 1).0.events.is_empty());
    }
}

#[test]
fn attach_errors_are_reported_on_pods() {
    let mut failed = attachment("one");
    failed.set(&["status"], value!({"attached": false, "attachError": {"message": "no such disk"}}));
    let reported = "p AttachVolume.Attach failed for volume \"v\" : no such disk";
    check("failed", &world(&[pod("n", "p", "one")], &[failed], &[]), &[reported]);
}

#[test]
fn attached_volumes_are_written_to_node_statuses() {
    let attached = |pods: &[Value]| Attached { name: UNIQUE.into(), volume: "v".into(), pods: pods.to_vec() };
    let world = |listed: Value, attached: Vec<Attached>| {
        let mut node = node("one", false);
        node.set(&["status", "volumesAttached"], listed);
        NodeWorld { node, attached }
    };
    let entry = |name: &str| value!({"name": name, "devicePath": ""});
    let user = [pod("n", "p", "one")];
    let fresh = world(value!([]), vec![attached(&user)]);
    assert_eq!(words(&fresh.plan()), [format!("tell one of [{UNIQUE}]")]);
    let reported = fresh.conclude(&done(&fresh.plan()));
    assert_eq!(words(&reported), ["p AttachVolume.Attach succeeded for volume \"v\" "]);
    let known = world(value!([(entry(UNIQUE))]), vec![attached(&user)]);
    assert!(known.plan().is_done() && known.conclude(&Report::default()).is_done());
    assert!(world(value!([]), vec![attached(&[])]).plan().is_done(), "an unneeded volume is being detached");
    assert!(world(value!([(entry(UNIQUE))]), vec![attached(&[])]).plan().is_done());
    let gone = world(value!([(entry("other/plugin/x")), (entry(UNIQUE))]), vec![]);
    assert_eq!(words(&gone.plan()), ["tell one of [other/plugin/x]"]);
}
