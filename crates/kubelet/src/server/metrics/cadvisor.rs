//! `/metrics/cadvisor`: the counters of cgroups and interfaces, by container. One line of the table for each metric.

use corten_container::native::usage::{Cpu, Io, Memory};
use corten_container::{PsiData, PsiStats};
use corten_serving::metrics::{Exposition, Kind};
use jiff::Timestamp;

use super::subjects::{self, Subject};
use crate::kubelet::Kubelet;
use crate::stats::Interface;

const NANOSECONDS: f64 = 1e9;

/// Values with the labels that distinguish them.
type Values = Vec<(Vec<(&'static str, String)>, f64)>;

struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    values: fn(&Subject) -> Values,
}

pub(super) async fn render(kubelet: &Kubelet) -> String {
    let mut text = Exposition::default();
    let now = kubelet.clock.now();
    let found = subjects::all(kubelet).await;
    let failed = found.is_err();
    match found {
        Ok(subjects) => write(&mut text, &subjects, now),
        Err(err) => tracing::warn!(%err, "cannot list containers for metrics"),
    }
    let help = "1 if there was an error while getting container metrics, 0 otherwise";
    text.single("container_scrape_error", Kind::Gauge, help, f64::from(u8::from(failed)));
    write_machine(&mut text, kubelet);
    text.finish()
}

fn write(text: &mut Exposition, subjects: &[Subject], now: Timestamp) {
    for metric in METRICS {
        let mut begun = false;
        for subject in subjects {
            for (extra, value) in (metric.values)(subject) {
                if !begun {
                    text.family(metric.name, metric.kind, metric.help);
                    begun = true;
                }
                let mut labels = subject.labels().to_vec();
                labels.extend(extra.iter().map(|(label, value)| (*label, value.as_str())));
                labels.sort_unstable();
                text.sample_at(metric.name, &labels, value, Some(now));
            }
        }
    }
}

/// The metrics of the machine itself.
fn write_machine(text: &mut Exposition, kubelet: &Kubelet) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let (id, uuid) = (read("/etc/machine-id"), read("/sys/class/dmi/id/product_uuid"));
    let boot = read("/proc/sys/kernel/random/boot_id");
    let labels = [("boot_id", boot.as_str()), ("machine_id", id.as_str()), ("system_uuid", uuid.as_str())];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let values = [
        ("machine_cpu_cores", "Number of logical CPU cores.", cores as f64),
        (
            "machine_memory_bytes",
            "Amount of memory installed on the machine.",
            kubelet.containers.config.memory as f64,
        ),
    ];
    for (name, help, value) in values {
        text.family(name, Kind::Gauge, help);
        text.sample(name, &labels, value);
    }
    text.single(
        "machine_scrape_error",
        Kind::Gauge,
        "1 if there was an error while getting machine metrics, 0 otherwise.",
        0.0,
    );
}

fn one(value: Option<f64>) -> Values {
    value.map(|value| (Vec::new(), value)).into_iter().collect()
}

fn cpu(subject: &Subject, of: fn(&Cpu) -> Option<u64>) -> Option<u64> {
    subject.usage.cpu.as_ref().and_then(of)
}

fn seconds(nanoseconds: Option<u64>) -> Values {
    one(nanoseconds.map(|nanoseconds| nanoseconds as f64 / NANOSECONDS))
}

fn count(number: Option<u64>) -> Values {
    one(number.map(|number| number as f64))
}

fn memory(subject: &Subject, of: fn(&Memory) -> Option<u64>) -> Values {
    count(subject.usage.memory.as_ref().and_then(of))
}

fn pressure(stats: Option<&PsiStats>, of: fn(&PsiStats) -> &PsiData) -> Values {
    seconds(stats.map(|stats| of(stats).total))
}

fn network(subject: &Subject, of: fn(&Interface) -> u64) -> Values {
    let value = |interface: &Interface| (vec![("interface", interface.name.clone())], of(interface) as f64);
    subject.interfaces.iter().map(value).collect()
}

fn disk(subject: &Subject, of: fn(&Io) -> u64) -> Values {
    subject.usage.io.iter().map(|io| (vec![("device", device(&io.device))], of(io) as f64)).collect()
}

fn operations(subject: &Subject) -> Values {
    let each = |io: &Io| {
        let (major, minor) = io.device.split_once(':').unwrap_or((&io.device, ""));
        let labels = |operation: &str| {
            vec![
                ("device", device(&io.device)),
                ("major", major.to_owned()),
                ("minor", minor.to_owned()),
                ("operation", operation.to_owned()),
            ]
        };
        [(labels("Read"), io.read_bytes as f64), (labels("Write"), io.written_bytes as f64)]
    };
    subject.usage.io.iter().flat_map(each).collect()
}

/// The name of a device, by its numbers.
fn device(number: &str) -> String {
    let link = std::fs::read_link(format!("/sys/dev/block/{number}")).unwrap_or_default();
    link.file_name().map(|name| format!("/dev/{}", name.to_string_lossy())).unwrap_or_default()
}

fn faults(subject: &Subject) -> Values {
    let Some(memory) = &subject.usage.memory else { return Values::new() };
    let kinds = [("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)];
    let each = |(kind, number): (&str, Option<u64>)| {
        let labels = |scope: &str| vec![("failure_type", kind.to_owned()), ("scope", scope.to_owned())];
        let number = number?;
        Some(["container", "hierarchy"].map(|scope| (labels(scope), number as f64)))
    };
    kinds.into_iter().filter_map(each).flatten().collect()
}

const METRICS: &[Metric] = &[
    Metric {
        name: "container_blkio_device_usage_total",
        kind: Kind::Counter,
        help: "Bytes read from and written to block devices",
        values: operations,
    },
    Metric {
        name: "container_cpu_cfs_periods_total",
        kind: Kind::Counter,
        help: "Periods over which the CPU limit was enforced.",
        values: |s| count(cpu(s, |cpu| cpu.periods.filter(|_| cpu.quota.is_some()))),
    },
    Metric {
        name: "container_cpu_cfs_throttled_periods_total",
        kind: Kind::Counter,
        help: "Periods in which the CPU limit was reached.",
        values: |s| count(cpu(s, |cpu| cpu.throttled_periods.filter(|_| cpu.quota.is_some()))),
    },
    Metric {
        name: "container_cpu_cfs_throttled_seconds_total",
        kind: Kind::Counter,
        help: "Time for which the CPU limit kept the container from running.",
        values: |s| seconds(cpu(s, |cpu| cpu.throttled.filter(|_| cpu.quota.is_some()))),
    },
    Metric {
        name: "container_cpu_system_seconds_total",
        kind: Kind::Counter,
        help: "CPU time spent in the kernel.",
        values: |s| seconds(cpu(s, |cpu| cpu.system)),
    },
    Metric {
        name: "container_cpu_usage_seconds_total",
        kind: Kind::Counter,
        help: "CPU time spent.",
        values: |s| {
            let total = cpu(s, |cpu| Some(cpu.total)).map(|total| total as f64 / NANOSECONDS);
            total.map(|total| (vec![("cpu", "total".to_owned())], total)).into_iter().collect()
        },
    },
    Metric {
        name: "container_cpu_user_seconds_total",
        kind: Kind::Counter,
        help: "CPU time spent outside the kernel.",
        values: |s| seconds(cpu(s, |cpu| cpu.user)),
    },
    Metric {
        name: "container_fs_reads_bytes_total",
        kind: Kind::Counter,
        help: "Bytes read",
        values: |s| disk(s, |io| io.read_bytes),
    },
    Metric {
        name: "container_fs_reads_total",
        kind: Kind::Counter,
        help: "Reads completed",
        values: |s| disk(s, |io| io.reads),
    },
    Metric {
        name: "container_fs_writes_bytes_total",
        kind: Kind::Counter,
        help: "Bytes written",
        values: |s| disk(s, |io| io.written_bytes),
    },
    Metric {
        name: "container_fs_writes_total",
        kind: Kind::Counter,
        help: "Writes completed",
        values: |s| disk(s, |io| io.writes),
    },
    Metric {
        name: "container_memory_cache",
        kind: Kind::Gauge,
        help: "Bytes of page cache.",
        values: |s| memory(s, |memory| memory.cache),
    },
    Metric {
        name: "container_memory_failcnt",
        kind: Kind::Counter,
        help: "How often the memory limit was reached",
        values: |s| memory(s, |memory| memory.failures),
    },
    Metric {
        name: "container_memory_failures_total",
        kind: Kind::Counter,
        help: "Page faults.",
        values: faults,
    },
    Metric {
        name: "container_memory_kernel_usage",
        kind: Kind::Gauge,
        help: "Bytes of kernel memory.",
        values: |s| memory(s, |memory| memory.kernel),
    },
    Metric {
        name: "container_memory_mapped_file",
        kind: Kind::Gauge,
        help: "Bytes of mapped files.",
        values: |s| memory(s, |memory| memory.mapped_file),
    },
    Metric {
        name: "container_memory_max_usage_bytes",
        kind: Kind::Gauge,
        help: "The most memory that was used at any time",
        values: |s| memory(s, |memory| memory.max_usage),
    },
    Metric {
        name: "container_memory_rss",
        kind: Kind::Gauge,
        help: "Bytes of anonymous memory.",
        values: |s| memory(s, |memory| memory.rss),
    },
    Metric {
        name: "container_memory_swap",
        kind: Kind::Gauge,
        help: "Bytes of swap in use.",
        values: |s| memory(s, |memory| memory.swap),
    },
    Metric {
        name: "container_memory_total_active_file_bytes",
        kind: Kind::Gauge,
        help: "Bytes of file cache in use.",
        values: |s| memory(s, |memory| memory.active_file),
    },
    Metric {
        name: "container_memory_total_inactive_file_bytes",
        kind: Kind::Gauge,
        help: "Bytes of file cache that could be given back.",
        values: |s| memory(s, |memory| memory.inactive_file),
    },
    Metric {
        name: "container_memory_usage_bytes",
        kind: Kind::Gauge,
        help: "Bytes of memory in use, whenever they were used last",
        values: |s| memory(s, |memory| Some(memory.usage)),
    },
    Metric {
        name: "container_memory_working_set_bytes",
        kind: Kind::Gauge,
        help: "Bytes of memory that cannot be given back at once.",
        values: |s| memory(s, |memory| Some(memory.working_set())),
    },
    Metric {
        name: "container_network_receive_bytes_total",
        kind: Kind::Counter,
        help: "Bytes received",
        values: |s| network(s, |interface| interface.received.bytes),
    },
    Metric {
        name: "container_network_receive_errors_total",
        kind: Kind::Counter,
        help: "Errors while receiving",
        values: |s| network(s, |interface| interface.received.errors),
    },
    Metric {
        name: "container_network_receive_packets_dropped_total",
        kind: Kind::Counter,
        help: "Packets dropped while receiving",
        values: |s| network(s, |interface| interface.received.dropped),
    },
    Metric {
        name: "container_network_receive_packets_total",
        kind: Kind::Counter,
        help: "Packets received",
        values: |s| network(s, |interface| interface.received.packets),
    },
    Metric {
        name: "container_network_transmit_bytes_total",
        kind: Kind::Counter,
        help: "Bytes sent",
        values: |s| network(s, |interface| interface.sent.bytes),
    },
    Metric {
        name: "container_network_transmit_errors_total",
        kind: Kind::Counter,
        help: "Errors while sending",
        values: |s| network(s, |interface| interface.sent.errors),
    },
    Metric {
        name: "container_network_transmit_packets_dropped_total",
        kind: Kind::Counter,
        help: "Packets dropped while sending",
        values: |s| network(s, |interface| interface.sent.dropped),
    },
    Metric {
        name: "container_network_transmit_packets_total",
        kind: Kind::Counter,
        help: "Packets sent",
        values: |s| network(s, |interface| interface.sent.packets),
    },
    Metric {
        name: "container_oom_events_total",
        kind: Kind::Counter,
        help: "Processes that were killed for want of memory",
        values: |s| memory(s, |memory| memory.oom_kills),
    },
    Metric {
        name: "container_pressure_cpu_stalled_seconds_total",
        kind: Kind::Counter,
        help: "Total time duration no tasks in the container could make progress due to CPU congestion.",
        values: |s| pressure(s.usage.cpu_pressure.as_ref(), |psi| &psi.full),
    },
    Metric {
        name: "container_pressure_cpu_waiting_seconds_total",
        kind: Kind::Counter,
        help: "Total time duration tasks in the container have waited due to CPU congestion.",
        values: |s| pressure(s.usage.cpu_pressure.as_ref(), |psi| &psi.some),
    },
    Metric {
        name: "container_pressure_io_stalled_seconds_total",
        kind: Kind::Counter,
        help: "Total time duration no tasks in the container could make progress due to IO congestion.",
        values: |s| pressure(s.usage.io_pressure.as_ref(), |psi| &psi.full),
    },
    Metric {
        name: "container_pressure_io_waiting_seconds_total",
        kind: Kind::Counter,
        help: "Total time duration tasks in the container have waited due to IO congestion.",
        values: |s| pressure(s.usage.io_pressure.as_ref(), |psi| &psi.some),
    },
    Metric {
        name: "container_pressure_memory_stalled_seconds_total",
        kind: Kind::Counter,
        help: "Total time duration no tasks in the container could make progress due to memory congestion.",
        values: |s| pressure(s.usage.memory_pressure.as_ref(), |psi| &psi.full),
    },
    Metric {
        name: "container_pressure_memory_waiting_seconds_total",
        kind: Kind::Counter,
        help: "Total time duration tasks in the container have waited due to memory congestion.",
        values: |s| pressure(s.usage.memory_pressure.as_ref(), |psi| &psi.some),
    },
    Metric {
        name: "container_processes",
        kind: Kind::Gauge,
        help: "Processes in the container.",
        values: |s| count(s.usage.processes),
    },
    Metric {
        name: "container_spec_cpu_period",
        kind: Kind::Gauge,
        help: "CPU period of the container.",
        values: |s| count(cpu(s, |cpu| cpu.period)),
    },
    Metric {
        name: "container_spec_cpu_quota",
        kind: Kind::Gauge,
        help: "CPU quota of the container.",
        values: |s| count(cpu(s, |cpu| cpu.quota)),
    },
    Metric {
        name: "container_spec_cpu_shares",
        kind: Kind::Gauge,
        help: "CPU share of the container.",
        values: |s| count(cpu(s, |cpu| cpu.shares)),
    },
    Metric {
        name: "container_spec_memory_limit_bytes",
        kind: Kind::Gauge,
        help: "Memory limit for the container; 0 without one.",
        values: |s| memory(s, |memory| Some(memory.limit.unwrap_or(0))),
    },
    Metric {
        name: "container_spec_memory_reservation_limit_bytes",
        kind: Kind::Gauge,
        help: "Memory reservation for the container; 0 without one.",
        values: |s| memory(s, |memory| Some(memory.reservation.unwrap_or(0))),
    },
    Metric {
        name: "container_spec_memory_swap_limit_bytes",
        kind: Kind::Gauge,
        help: "Memory swap limit for the container; 0 without one.",
        values: |s| memory(s, |memory| Some(memory.swap_limit.unwrap_or(0))),
    },
    Metric {
        name: "container_start_time_seconds",
        kind: Kind::Gauge,
        help: "When the container was made, in seconds since 1970.",
        values: |s| one(Some(s.started.as_second() as f64)),
    },
    Metric {
        name: "container_threads_max",
        kind: Kind::Gauge,
        help: "The most threads that may be in the container; 0 without a limit",
        values: |s| count(Some(s.usage.most_processes.unwrap_or(0))),
    },
];
