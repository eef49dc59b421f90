//! Tests of matching.

use super::*;
use crate::storage::binder::matching::best;

#[track_caller]
fn check(why: &str, claim: &Value, volumes: &[Value], expected: &str) {
    let volumes: Vec<_> = volumes.iter().map(cached).collect();
    let found = best(claim, &volumes, false);
    assert_eq!(found.map_or(String::new(), |volume| volume.key.name.to_string()), expected, "{why}");
}

fn sized(name: &str, size: &str) -> Value {
    with(volume(name), &["spec", "capacity", "storage"], size)
}

fn moded(name: &str, modes: &[&str]) -> Value {
    let modes: Vec<Value> = modes.iter().map(|mode| Value::from(*mode)).collect();
    with(volume(name), &["spec", "accessModes"], modes)
}

#[test]
fn the_smallest_that_does() {
    let volumes =
        [sized("small", "512Mi"), sized("large", "10Gi"), sized("exact", "1Gi"), sized("next", "2Gi")];
    check("exact", &claim(), &volumes, "exact");
    let asks = with(claim(), &["spec", "resources", "requests", "storage"], "1500Mi");
    check("next", &asks, &volumes, "next");
    let asks = with(claim(), &["spec", "resources", "requests", "storage"], "1Ti");
    check("none", &asks, &volumes, "");
}

#[test]
fn as_few_access_modes_as_do() {
    let all = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"];
    let volumes =
        [moded("many", &all), with(moded("two", &all[..2]), &["spec", "capacity", "storage"], "5Gi")];
    check("fewest modes before smallest size", &claim(), &volumes, "two");
    let asks = with(claim(), &["spec", "accessModes"], value!(["ReadWriteMany"]));
    check("all that are asked for", &asks, &volumes, "many");
    let asks = with(claim(), &["spec", "accessModes"], value!(["ReadWriteOncePod"]));
    check("no volume offers it", &asks, &volumes, "");
}

#[test]
fn only_matching_volumes_are_chosen() {
    let cases = [
        ("another class", with(volume("v"), &["spec", "storageClassName"], "gold")),
        ("a block device", with(volume("v"), &["spec", "volumeMode"], "Block")),
        ("other attributes", with(volume("v"), &["spec", "volumeAttributesClassName"], "fast")),
        ("not available yet", phase(volume("v"), "Pending")),
        ("released", phase(volume("v"), "Released")),
        ("going", with(volume("v"), &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")),
        ("bound to another claim", claimed(volume("v"), "other")),
        ("too small, though meant for it", claimed(sized("v", "1Mi"), "")),
    ];
    for (why, volume) in cases {
        check(why, &claim(), &[volume], "");
    }
    let gold = with(claim(), &["spec", "storageClassName"], "gold");
    check("its class", &gold, &[with(volume("v"), &["spec", "storageClassName"], "gold")], "v");
    let legacy = "volume.beta.kubernetes.io/storage-class";
    let gold = with(claim(), &["metadata", "annotations", legacy], "gold");
    check(
        "its class by annotation",
        &gold,
        &[with(volume("v"), &["metadata", "annotations", legacy], "gold")],
        "v",
    );
    let block = with(claim(), &["spec", "volumeMode"], "Block");
    check(
        "a block device for a block device",
        &block,
        &[with(volume("v"), &["spec", "volumeMode"], "Block")],
        "v",
    );
}

#[test]
fn selectors_restrict_volumes() {
    let labelled =
        |name: &str, speed: &str| with(sized(name, "4Gi"), &["metadata", "labels", "speed"], speed);
    let volumes = [volume("plain"), labelled("slow", "slow"), labelled("fast", "fast")];
    let selects = |selector: Value| with(claim(), &["spec", "selector"], selector);
    check("labels", &selects(value!({"matchLabels": {"speed": "fast"}})), &volumes, "fast");
    let expression =
        value!({"matchExpressions": [{"key": "speed", "operator": "NotIn", "values": ["fast"]}]});
    check("expressions", &selects(expression), &volumes, "plain");
    check("none", &selects(value!({"matchLabels": {"speed": "warp"}})), &volumes, "");
}

#[test]
fn a_pre_bound_volume_comes_first() {
    let meant = claimed(sized("meant", "10Gi"), "");
    check("by name", &claim(), &[volume("v"), meant.clone()], "meant");
    check("by uid", &claim(), &[volume("v"), claimed(sized("meant", "10Gi"), "claim")], "meant");
    let unlike = with(phase(meant.clone(), "Pending"), &["spec", "storageClassName"], "gold");
    check("whatever its class, labels and phase", &claim(), &[unlike], "meant");
    let volumes = [cached(&volume("v")), cached(&meant)];
    let found = best(&claim(), &volumes[..1], true);
    assert!(found.is_none(), "a claim that waits for its consumer is not given just any volume");
    assert_eq!(best(&claim(), &volumes, true).unwrap().key.name, "meant");
}
