//! `/metrics`: the kubelet's own metrics.

use corten_container::native::cgroup::Cgroups;
use corten_container::{ContainerFilter, ContainerState, PodSandboxFilter, PodSandboxState};
use corten_serving::metrics::{Exposition, Kind};

use crate::kubelet::Kubelet;
use crate::stats::{self, Detail, FsStats, Summary};

/// A value of a volume.
type OfVolume = fn(&FsStats) -> u64;

pub(super) async fn render(kubelet: &Kubelet) -> String {
    let mut text = Exposition::default();
    write_node(&mut text, kubelet);
    write_pods(&mut text, kubelet);
    write_running(&mut text, kubelet).await;
    write_gone(&mut text, kubelet);
    if let Ok(summary) = stats::summary(kubelet, Detail::Everything).await {
        write_volumes(&mut text, &summary);
        write_logs(&mut text, &summary);
    }
    write_process(&mut text);
    text.finish()
}

fn write_node(text: &mut Exposition, kubelet: &Kubelet) {
    text.family("kubelet_node_name", Kind::Gauge, "[ALPHA] The node's name. The count is always 1.");
    text.sample("kubelet_node_name", &[("node", &kubelet.api.node_name)], 1.0);
    let version = match kubelet.resources.cgroups.hierarchies() {
        Cgroups::V1(_) => 1.0,
        Cgroups::V2(_) => 2.0,
    };
    text.single("kubelet_cgroup_version", Kind::Gauge, "[ALPHA] cgroup version on the hosts.", version);
}

fn write_pods(text: &mut Exposition, kubelet: &Kubelet) {
    let pods = kubelet.pod_workers.pods();
    let (fixed, other) = pods.iter().partition::<Vec<_>, _>(|pod| pod.is_static());
    let counts = [("true", fixed.len()), ("", other.len())];
    for (name, help) in [
        ("kubelet_active_pods", "[ALPHA] The number of pods the kubelet considers active."),
        ("kubelet_desired_pods", "[ALPHA] The number of pods the kubelet is being instructed to run."),
    ] {
        text.family(name, Kind::Gauge, help);
        for (is_static, count) in counts {
            text.sample(name, &[("static", is_static)], count as f64);
        }
    }
}

async fn write_running(text: &mut Exposition, kubelet: &Kubelet) {
    let states = [
        (ContainerState::Created, "created"),
        (ContainerState::Running, "running"),
        (ContainerState::Exited, "exited"),
        (ContainerState::Unknown, "unknown"),
    ];
    if let Ok(containers) = kubelet.containers.runtime.list_containers(&ContainerFilter::default()).await {
        let name = "kubelet_running_containers";
        text.family(name, Kind::Gauge, "[ALPHA] Number of containers currently running");
        for (state, word) in states {
            let count = containers.iter().filter(|container| container.state == state).count();
            text.sample(name, &[("container_state", word)], count as f64);
        }
    }
    if let Ok(sandboxes) = kubelet.containers.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await {
        let ready = sandboxes.iter().filter(|sandbox| sandbox.state == PodSandboxState::Ready).count();
        let help = "[ALPHA] Number of pods that have a running pod sandbox";
        text.single("kubelet_running_pods", Kind::Gauge, help, ready as f64);
    }
}

/// Evicted, preempted and rejected pods, and removed images.
fn write_gone(text: &mut Exposition, kubelet: &Kubelet) {
    let families = [
        (
            "kubelet_evictions",
            "eviction_signal",
            "[ALPHA] Cumulative number of pod evictions by eviction signal",
            named(kubelet.eviction.counts()),
        ),
        (
            "kubelet_preemptions",
            "preemption_signal",
            "[ALPHA] Cumulative number of pod preemptions by preemption resource",
            kubelet.resources.admission.preempted(),
        ),
        (
            "kubelet_admission_rejections_total",
            "reason",
            "[ALPHA] Cumulative number pod admission rejections by the Kubelet.",
            kubelet.resources.admission.rejected(),
        ),
        (
            "kubelet_image_garbage_collected_total",
            "reason",
            "[ALPHA] Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
            named(kubelet.garbage_collection.collected()),
        ),
    ];
    for (name, label, help, counts) in families {
        if counts.is_empty() {
            continue;
        }
        text.family(name, Kind::Counter, help);
        for (value, count) in counts {
            text.sample(name, &[(label, &value)], count as f64);
        }
    }
}

fn named(counts: Vec<(&'static str, u64)>) -> Vec<(String, u64)> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// The volumes of claims.
fn write_volumes(text: &mut Exposition, summary: &Summary) {
    let metrics: [(&str, &str, OfVolume); 6] = [
        ("available_bytes", "Number of available bytes in the volume", |fs| fs.available),
        ("capacity_bytes", "Capacity in bytes of the volume", |fs| fs.capacity),
        ("inodes", "Maximum number of inodes in the volume", |fs| fs.inodes),
        ("inodes_free", "Number of free inodes in the volume", |fs| fs.inodes_free),
        ("inodes_used", "Number of used inodes in the volume", |fs| fs.inodes_used),
        ("used_bytes", "Number of used bytes in the volume", |fs| fs.used),
    ];
    let mut claims: Vec<(&str, &str, &FsStats)> = Vec::new();
    for pod in &summary.pods {
        let claimed = pod
            .volumes
            .iter()
            .filter_map(|volume| Some((pod.pod.namespace(), volume.claim.as_deref()?, &volume.fs)));
        claims.extend(claimed);
    }
    // Several pods may use the same claim.
    claims.sort_by_key(|(namespace, claim, _)| (*namespace, *claim));
    claims.dedup_by_key(|(namespace, claim, _)| (*namespace, *claim));
    for (suffix, help, value) in metrics.into_iter().filter(|_| !claims.is_empty()) {
        let name = format!("kubelet_volume_stats_{suffix}");
        text.family(&name, Kind::Gauge, &format!("[ALPHA] {help}"));
        for (namespace, claim, fs) in &claims {
            let labels = [("namespace", *namespace), ("persistentvolumeclaim", *claim)];
            text.sample(&name, &labels, value(fs) as f64);
        }
    }
}

fn write_logs(text: &mut Exposition, summary: &Summary) {
    let name = "kubelet_container_log_filesystem_used_bytes";
    text.family(name, Kind::Gauge, "[ALPHA] Bytes used by the container's logs on the filesystem.");
    for pod in &summary.pods {
        for container in &pod.containers {
            let Some(logs) = &container.logs else { continue };
            let labels = [
                ("container", container.name.as_str()),
                ("namespace", pod.pod.namespace()),
                ("pod", pod.pod.name()),
                ("uid", pod.pod.uid()),
            ];
            text.sample(name, &labels, logs.used as f64);
        }
    }
}

/// The metrics of this process.
fn write_process(text: &mut Exposition) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let status = read("/proc/self/status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
    };
    let values = [
        ("process_resident_memory_bytes", "Resident memory size in bytes.", field("VmRSS")),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes.", field("VmSize")),
    ];
    for (name, help, value) in values {
        if let Some(value) = value {
            text.single(name, Kind::Gauge, help, value);
        }
    }
    // Nanoseconds that the process has run on a CPU, with all its threads.
    let spent = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    let seconds = spent.sum::<f64>() / 1e9;
    text.single(
        "process_cpu_seconds_total",
        Kind::Counter,
        "Total user and system CPU time spent in seconds.",
        seconds,
    );
}
