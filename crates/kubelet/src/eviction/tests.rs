//! Tables of thresholds, rankings and messages.

use std::time::Duration;

use corten_api::quantity::Quantity;
use corten_api::{Value, value};
use corten_container::MemoryUsage;
use jiff::Timestamp;

use super::pressure::{self, Condition, Observation, Observations, Pressure};
use super::thresholds::{Amount, Options, Signal, Threshold, ThresholdError};
use super::{limits, message, ranking};
use crate::pod::{Pod, Source};
use crate::stats::{ContainerStats, FsStats, PodStats, VolumeStats};

const GIB: i64 = 1 << 30;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn options(configuration: &Value) -> Result<Options, ThresholdError> {
    Options::read(configuration, |_, default| default)
}

fn seen(signal: Signal, available: i64, capacity: i64, seconds: i64) -> Observations {
    Observations::from([(signal, Observation { available, capacity, at: at(seconds) })])
}

#[test]
fn thresholds_are_parsed() {
    let read = options(&value!({
        "evictionHard": {"memory.available": "150Mi", "nodefs.available": "10%", "imagefs.available": "0%"},
        "evictionSoft": {"memory.available": "300Mi"},
        "evictionSoftGracePeriod": {"memory.available": "30s"},
        "evictionMinimumReclaim": {"memory.available": "0", "nodefs.available": "5%"},
        "evictionMaxPodGracePeriod": 60,
    }))
    .unwrap();
    let quantity = |text: &str| Amount::Quantity(Quantity::parse(text).unwrap());
    let expected = [
        (Signal::MemoryAvailable, quantity("150Mi"), 0, Some(quantity("0"))),
        (Signal::NodeFsAvailable, Amount::Fraction(0.1), 0, Some(Amount::Fraction(0.05))),
        (Signal::MemoryAvailable, quantity("300Mi"), 30, Some(quantity("0"))),
        (Signal::AllocatableMemoryAvailable, quantity("150Mi"), 0, Some(quantity("0"))),
    ];
    let found: Vec<_> =
        read.thresholds.iter().map(|t| (t.signal, t.least, t.grace.as_secs(), t.reclaim)).collect();
    assert_eq!(found, expected);
    assert_eq!(read.most_grace, Duration::from_secs(60));
}

#[test]
fn invalid_thresholds_are_refused() {
    let cases = [
        (value!({"evictionHard": {"mem.available": "1"}}), "unsupported eviction signal mem.available"),
        (value!({"evictionHard": {"memory.available": "-1"}}), "must be positive"),
        (value!({"evictionHard": {"memory.available": "0"}}), "must be positive"),
        (value!({"evictionHard": {"memory.available": "-10%"}}), "must be >= 0%"),
        (value!({"evictionHard": {"memory.available": "110%"}}), "must be <= 100%"),
        (value!({"evictionSoft": {"memory.available": "1Gi"}}), "grace period must be specified"),
        (value!({"evictionMinimumReclaim": {"memory.available": "-1"}}), "negative eviction minimum reclaim"),
    ];
    for (configuration, expected) in cases {
        let err = options(&configuration).unwrap_err();
        assert!(err.to_string().contains(expected), "{err}");
    }
}

fn threshold(signal: Signal, least: &str, grace: u64, reclaim: Option<&str>) -> Threshold {
    let amount = |text: &str| Amount::Quantity(Quantity::parse(text).unwrap());
    Threshold {
        signal,
        least: amount(least),
        grace: Duration::from_secs(grace),
        reclaim: reclaim.map(amount),
    }
}

#[test]
fn a_hard_threshold_is_met_at_once_and_its_condition_outlasts_it() {
    let thresholds = [threshold(Signal::MemoryAvailable, "1Gi", 0, None)];
    let mut state = Pressure::default();
    let mut look = |available, seconds| {
        let seen = seen(Signal::MemoryAvailable, available, 4 * GIB, seconds);
        let acute = state.take(&thresholds, &seen, Duration::from_secs(300), at(seconds));
        (acute.len(), state.conditions.clone())
    };
    assert_eq!(look(2 * GIB, 0), (0, vec![]));
    assert_eq!(look(GIB, 10), (0, vec![]), "as much as the threshold is enough");
    assert_eq!(look(GIB - 1, 20), (1, vec![Condition::Memory]));
    assert_eq!(look(GIB - 1, 20), (0, vec![Condition::Memory]), "nothing new was seen");
    assert_eq!(look(2 * GIB, 30), (0, vec![Condition::Memory]));
    assert_eq!(look(2 * GIB, 319), (0, vec![Condition::Memory]));
    assert_eq!(look(2 * GIB, 320), (0, vec![]));
}

#[test]
fn a_soft_threshold_has_a_grace_period() {
    let thresholds = [threshold(Signal::MemoryAvailable, "2Gi", 120, None)];
    let mut state = Pressure::default();
    let mut look = |available, seconds| {
        let seen = seen(Signal::MemoryAvailable, available, 4 * GIB, seconds);
        let acute = state.take(&thresholds, &seen, Duration::from_secs(300), at(seconds));
        (acute.len(), state.conditions.len())
    };
    assert_eq!(look(GIB, 0), (0, 1), "the node says so at once");
    assert_eq!(look(GIB, 119), (0, 1));
    assert_eq!(look(3 * GIB, 120), (0, 1), "it was enough in between");
    assert_eq!(look(GIB, 130), (0, 1));
    assert_eq!(look(GIB, 250), (1, 1));
}

#[test]
fn a_threshold_is_resolved_after_its_minimum_reclaim() {
    let thresholds = [threshold(Signal::NodeFsAvailable, "1Gi", 0, Some("500Mi"))];
    let mut state = Pressure::default();
    let mut look = |available, seconds| {
        let seen = seen(Signal::NodeFsAvailable, available, 100 * GIB, seconds);
        state.take(&thresholds, &seen, Duration::ZERO, at(seconds)).len()
    };
    assert_eq!(look(GIB - 1, 0), 1);
    assert_eq!(look(GIB + 1, 10), 1);
    assert_eq!(look(GIB + (500 << 20), 20), 0);
    assert_eq!(look(GIB + 1, 30), 0);
}

#[test]
fn memory_comes_first() {
    let disk = threshold(Signal::NodeFsAvailable, "1", 0, None);
    let memory = threshold(Signal::AllocatableMemoryAvailable, "1", 0, None);
    assert_eq!(pressure::most_urgent(&[disk, memory]), Some(&memory));
    assert_eq!(pressure::most_urgent(&[disk]), Some(&disk));
    assert_eq!(pressure::most_urgent(&[]), None);
}

fn pod(name: &str, priority: i64, requests: Value) -> Pod {
    let tree = value!({
        "metadata": {"name": (name), "namespace": "n", "uid": (name)},
        "spec": {"priority": (priority), "containers": [{"name": "c", "resources": {"requests": (requests)}}]},
    });
    Pod::new(tree, Source::Api)
}

fn fs(used: u64) -> Option<FsStats> {
    Some(FsStats { used, inodes_used: used, ..FsStats::default() })
}

fn used(pod: &Pod, memory: u64, rootfs: u64, logs: u64) -> PodStats {
    let memory = MemoryUsage { working_set_bytes: Some(memory), ..MemoryUsage::default() };
    let container = ContainerStats {
        name: "c".to_owned(),
        memory: Some(memory.clone()),
        rootfs: fs(rootfs),
        logs: fs(logs),
        ..ContainerStats::default()
    };
    PodStats {
        pod: pod.clone(),
        sandbox_id: String::new(),
        started: at(0),
        containers: vec![container],
        cpu: None,
        memory: Some(memory),
        swap: None,
        io: None,
        network: None,
        volumes: Vec::new(),
        ephemeral: fs(rootfs + logs),
        processes: Some(rootfs),
    }
}

#[track_caller]
fn check(
    signal: Signal,
    has_dedicated_image_fs: bool,
    stats: &[PodStats],
    unknown: &[Pod],
    expected: &[&str],
) {
    let mut pods: Vec<Pod> =
        stats.iter().map(|stats| stats.pod.clone()).chain(unknown.iter().cloned()).collect();
    ranking::rank(&mut pods, signal, has_dedicated_image_fs, stats);
    let found: Vec<&str> = pods.iter().map(Pod::name).collect();
    assert_eq!(found, expected);
}

#[test]
fn pods_are_ranked_for_memory() {
    let stats = [
        used(&pod("below-low", 0, value!({"memory": "1Gi"})), 900 << 20, 0, 0),
        used(&pod("below-high", 100, value!({"memory": "1Gi"})), 100 << 20, 0, 0),
        used(&pod("above-high", 100, value!({"memory": "100Mi"})), 900 << 20, 0, 0),
        used(&pod("above-low-little", 0, value!({"memory": "100Mi"})), 101 << 20, 0, 0),
        used(&pod("above-low-much", 0, value!({})), 200 << 20, 0, 0),
    ];
    let expected = ["above-low-much", "above-low-little", "above-high", "below-low", "below-high"];
    check(Signal::MemoryAvailable, false, &stats, &[], &expected);
    let unknown = [pod("unknown", 1000, value!({}))];
    let mut with = vec!["unknown"];
    with.extend(expected);
    check(Signal::AllocatableMemoryAvailable, false, &stats, &unknown, &with);
}

#[test]
fn pods_are_ranked_for_disks_by_what_is_on_them() {
    let stats = [
        used(&pod("logs", 0, value!({})), 0, 1, 100),
        used(&pod("layers", 0, value!({})), 0, 50, 1),
        used(&pod("asked", 0, value!({"ephemeral-storage": "1Gi"})), 0, 500, 500),
    ];
    check(Signal::NodeFsAvailable, false, &stats, &[], &["logs", "layers", "asked"]);
    check(Signal::ImageFsAvailable, true, &stats, &[], &["layers", "logs", "asked"]);
    check(Signal::NodeFsAvailable, true, &stats, &[], &["logs", "layers", "asked"]);
    check(Signal::NodeFsInodesFree, false, &stats, &[], &["asked", "logs", "layers"]);
}

#[test]
fn pods_are_ranked_for_processes() {
    let stats = [
        used(&pod("few", 0, value!({})), 0, 1, 0),
        used(&pod("many", 0, value!({})), 0, 9, 0),
        used(&pod("important", 5, value!({})), 0, 99, 0),
    ];
    check(Signal::PidAvailable, false, &stats, &[], &["many", "few", "important"]);
}

#[test]
fn messages_name_resource_and_containers() {
    let pod = pod("p", 0, value!({"memory": "100Mi"}));
    let stats = used(&pod, 150 << 20, 0, 0);
    let thresholds = [threshold(Signal::MemoryAvailable, "1Gi", 0, None)];
    let seen = seen(Signal::MemoryAvailable, 512 << 20, 4 * GIB, 0);
    let found = message::of_pressure("memory", &pod, Some(&stats), &thresholds, &seen);
    let expected = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. Container c was using \
                    150Mi, request is 100Mi, has larger consumption of memory. ";
    assert_eq!(found, expected);
    let conditions = [Condition::Memory, Condition::Disk];
    assert_eq!(
        message::of_conditions(&conditions),
        "The node had condition: [MemoryPressure DiskPressure]. "
    );
}

fn limited(volumes: Value, limits: Value) -> Pod {
    let tree = value!({
        "metadata": {"name": "p", "namespace": "n", "uid": "p"},
        "spec": {"volumes": (volumes), "containers": [{"name": "c", "resources": {"limits": (limits)}}]},
    });
    Pod::new(tree, Source::Api)
}

#[test]
fn exceeded_limits_are_found() {
    let volume = |medium: &str| value!([{"name": "v", "emptyDir": {"sizeLimit": "1Mi", "medium": (medium)}}]);
    let holds = |pod: &Pod, used_bytes: u64, rootfs, logs| {
        let mut stats = used(pod, 0, rootfs, logs);
        let fs = fs(used_bytes).unwrap();
        stats.volumes = vec![VolumeStats { name: "v".to_owned(), claim: None, ephemeral: true, fs }];
        limits::exceeded(&stats, false)
    };
    let sized = limited(volume(""), value!({}));
    assert!(limits::has_any(&sized) && !limits::has_any(&limited(value!([]), value!({"cpu": "1"}))));
    assert_eq!(holds(&sized, 1 << 20, 9, 9), None);
    let text = "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ".to_owned();
    assert_eq!(holds(&sized, (1 << 20) + 1, 0, 0), Some(("emptydirfs.limit", text)));
    assert_eq!(holds(&limited(volume("Memory"), value!({})), 2 << 20, 0, 0), None);
    let stored = limited(value!([]), value!({"ephemeral-storage": "1Mi"}));
    assert_eq!(holds(&stored, 0, 1 << 20, 0), None);
    let text = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ".to_owned();
    assert_eq!(holds(&stored, 0, 1 << 20, 1), Some(("ephemeralpodfs.limit", text)));
    let mut stats = used(&stored, 0, 1 << 20, 1);
    stats.ephemeral = fs(0);
    let text = "Container c exceeded its local ephemeral storage limit \"1Mi\". ".to_owned();
    assert_eq!(limits::exceeded(&stats, false), Some(("ephemeralcontainerfs.limit", text)));
    assert_eq!(limits::exceeded(&stats, true), None);
}

#[test]
fn admission_under_pressure_depends_on_qos_and_tolerations() {
    let evictions = super::EvictionManager::new(options(&value!({})).unwrap());
    let best_effort = |spec: Value| {
        let tree = value!({"metadata": {"uid": "u"}, "spec": (spec), "status": {"qosClass": "BestEffort"}});
        Pod::new(tree, Source::Api)
    };
    let plain = best_effort(value!({}));
    assert_eq!(evictions.admits(&plain), Ok(()));
    evictions.pressure.lock().conditions = vec![Condition::Memory];
    let refusal = evictions.admits(&plain).unwrap_err();
    assert_eq!(refusal.message, "The node had condition: [MemoryPressure]. ");
    let tolerant = |key: &str| {
        best_effort(value!({"tolerations": [{"key": (key), "operator": "Exists", "effect": "NoSchedule"}]}))
    };
    assert_eq!(evictions.admits(&tolerant("node.kubernetes.io/memory-pressure")), Ok(()));
    assert!(evictions.admits(&tolerant("node.kubernetes.io/disk-pressure")).is_err());
    let burstable = value!({"metadata": {"uid": "u"}, "status": {"qosClass": "Burstable"}});
    let burstable = Pod::new(burstable, Source::Api);
    assert_eq!(evictions.admits(&burstable), Ok(()));
    assert_eq!(evictions.admits(&best_effort(value!({"priority": 2_000_000_000}))), Ok(()));
    evictions.pressure.lock().conditions = vec![Condition::Memory, Condition::Disk];
    assert!(evictions.admits(&burstable).is_err());
}
