//! The response of `/stats/summary`. Names are upstream's.

use corten_api::{Map, Value, time, value};
use corten_container::{
    CpuUsage, IoUsage, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PsiData, PsiStats, SwapUsage,
};
use jiff::Timestamp;

use super::{ContainerStats, FsStats, NodeStats, PodStats, Processes, Summary, VolumeStats};

/// The whole summary of a node.
pub(crate) fn summary_tree(node: &str, summary: &Summary) -> Value {
    let pods: Vec<Value> = summary.pods.iter().map(pod).collect();
    value!({"node": (node_tree(node, &summary.node)), "pods": (pods)})
}

fn node_tree(name: &str, stats: &NodeStats) -> Value {
    let mut map = Map::new();
    map.insert("nodeName", name);
    if !stats.system.is_empty() {
        map.insert("systemContainers", stats.system.iter().map(container).collect::<Vec<_>>());
    }
    map.insert("startTime", at(stats.started));
    add(&mut map, "cpu", stats.cpu.as_ref().map(cpu));
    add(&mut map, "memory", stats.memory.as_ref().map(memory));
    add(&mut map, "io", stats.io.as_ref().map(io));
    add(&mut map, "network", stats.network.as_ref().map(network));
    add(&mut map, "fs", stats.fs.as_ref().map(fs));
    let mut runtime = Map::new();
    add(&mut runtime, "imageFs", stats.image_fs.as_ref().map(fs));
    add(&mut runtime, "containerFs", stats.container_fs.as_ref().map(fs));
    if !runtime.is_empty() {
        map.insert("runtime", runtime);
    }
    add(&mut map, "rlimit", stats.processes.as_ref().map(processes));
    add(&mut map, "swap", stats.swap.as_ref().map(swap));
    Value::Object(map)
}

fn pod(stats: &PodStats) -> Value {
    let mut map = Map::new();
    let pod = &stats.pod;
    map.insert("podRef", value!({"name": (pod.name()), "namespace": (pod.namespace()), "uid": (pod.uid())}));
    map.insert("startTime", at(stats.started));
    map.insert("containers", stats.containers.iter().map(container).collect::<Vec<_>>());
    add(&mut map, "cpu", stats.cpu.as_ref().map(cpu));
    add(&mut map, "memory", stats.memory.as_ref().map(memory));
    add(&mut map, "io", stats.io.as_ref().map(io));
    add(&mut map, "network", stats.network.as_ref().map(network));
    if !stats.volumes.is_empty() {
        let volumes = stats.volumes.iter().map(|v| volume(pod.namespace(), v));
        map.insert("volume", volumes.collect::<Vec<_>>());
    }
    add(&mut map, "ephemeral-storage", stats.ephemeral.as_ref().map(fs));
    add(&mut map, "process_stats", stats.processes.map(|count| value!({"process_count": (number(count))})));
    add(&mut map, "swap", stats.swap.as_ref().map(swap));
    Value::Object(map)
}

fn container(stats: &ContainerStats) -> Value {
    let mut map = Map::new();
    map.insert("name", stats.name.as_str());
    map.insert("startTime", at(stats.started));
    add(&mut map, "cpu", stats.cpu.as_ref().map(cpu));
    add(&mut map, "memory", stats.memory.as_ref().map(memory));
    add(&mut map, "io", stats.io.as_ref().map(io));
    add(&mut map, "rootfs", stats.rootfs.as_ref().map(fs));
    add(&mut map, "logs", stats.logs.as_ref().map(fs));
    add(&mut map, "swap", stats.swap.as_ref().map(swap));
    Value::Object(map)
}

fn volume(namespace: &str, stats: &VolumeStats) -> Value {
    let mut map = fs_map(&stats.fs);
    map.insert("name", stats.name.as_str());
    if let Some(claim) = &stats.claim {
        map.insert("pvcRef", value!({"name": (claim.as_str()), "namespace": (namespace)}));
    }
    Value::Object(map)
}

fn add(map: &mut Map, name: &'static str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(name, value);
    }
}

fn at(time: Timestamp) -> Value {
    Value::from(time::format(time))
}

/// A counter as a JSON number; larger ones than JSON's are cut.
fn number(count: u64) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn counted(time: Timestamp, counts: &[(&'static str, Option<u64>)]) -> Map {
    let mut map = Map::new();
    map.insert("time", at(time));
    for (name, count) in counts {
        add(&mut map, name, count.map(number));
    }
    map
}

fn with_pressure(mut map: Map, pressure: Option<&PsiStats>) -> Value {
    add(&mut map, "psi", pressure.map(psi));
    Value::Object(map)
}

fn cpu(usage: &CpuUsage) -> Value {
    let counts =
        [("usageNanoCores", usage.usage_nano_cores), ("usageCoreNanoSeconds", usage.usage_core_nano_seconds)];
    with_pressure(counted(usage.timestamp, &counts), usage.psi.as_ref())
}

fn memory(usage: &MemoryUsage) -> Value {
    let counts = [
        ("availableBytes", usage.available_bytes),
        ("usageBytes", usage.usage_bytes),
        ("workingSetBytes", usage.working_set_bytes),
        ("rssBytes", usage.rss_bytes),
        ("pageFaults", usage.page_faults),
        ("majorPageFaults", usage.major_page_faults),
    ];
    with_pressure(counted(usage.timestamp, &counts), usage.psi.as_ref())
}

fn io(usage: &IoUsage) -> Value {
    with_pressure(counted(usage.timestamp, &[]), usage.psi.as_ref())
}

fn swap(usage: &SwapUsage) -> Value {
    let counts = [("swapAvailableBytes", usage.available_bytes), ("swapUsageBytes", usage.usage_bytes)];
    Value::Object(counted(usage.timestamp, &counts))
}

fn psi(stats: &PsiStats) -> Value {
    let data = |data: &PsiData| {
        let PsiData { total, avg10, avg60, avg300 } = data;
        value!({"total": (number(*total)), "avg10": (*avg10), "avg60": (*avg60), "avg300": (*avg300)})
    };
    value!({"full": (data(&stats.full)), "some": (data(&stats.some))})
}

fn fs_map(stats: &FsStats) -> Map {
    let counts = [
        ("availableBytes", Some(stats.available)),
        ("capacityBytes", Some(stats.capacity)),
        ("usedBytes", Some(stats.used)),
        ("inodesFree", Some(stats.inodes_free)),
        ("inodes", Some(stats.inodes)),
        ("inodesUsed", Some(stats.inodes_used)),
    ];
    counted(stats.at, &counts)
}

fn fs(stats: &FsStats) -> Value {
    Value::Object(fs_map(stats))
}

fn network(usage: &NetworkUsage) -> Value {
    let mut map = counted(usage.timestamp, &[]);
    if let Some(Value::Object(first)) = usage.default_interface.as_ref().map(interface) {
        for (name, value) in first.iter() {
            map.insert(name.clone(), value.clone());
        }
    }
    map.insert("interfaces", usage.interfaces.iter().map(interface).collect::<Vec<_>>());
    Value::Object(map)
}

fn interface(usage: &NetworkInterfaceUsage) -> Value {
    let NetworkInterfaceUsage { name, rx_bytes, rx_errors, tx_bytes, tx_errors } = usage;
    value!({
        "name": (name.as_str()), "rxBytes": (number(*rx_bytes)), "rxErrors": (number(*rx_errors)),
        "txBytes": (number(*tx_bytes)), "txErrors": (number(*tx_errors)),
    })
}

fn processes(processes: &Processes) -> Value {
    value!({"time": (at(processes.at)), "maxpid": (processes.most), "curproc": (processes.running)})
}
