//! The capacity of the node, and its allocatable resources. Pure but for `Capacity::measure`.

use std::collections::BTreeMap;
use std::path::Path;

use corten_api::quantity::{Format, Quantity};
use corten_api::{Map, Value};
use corten_container::LinuxContainerResources;

use crate::eviction::{Signal, Threshold};
use crate::resources;

/// Quantities by resource.
type Amounts = BTreeMap<String, Quantity>;

/// The resources that can be reserved.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// The capacity of the node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Capacity(Amounts);

impl Capacity {
    /// Measures the machine; `root` is the kubelet's root directory, with the volumes and logs of pods.
    pub(super) fn measure(memory: i64, most_pods: i64, pods_per_core: i64, root: &Path) -> Capacity {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = i64::try_from(cpus).unwrap_or(i64::MAX);
        let pods =
            if pods_per_core > 0 { most_pods.min(cpus.saturating_mul(pods_per_core)) } else { most_pods };
        let disk = rustix::fs::statvfs(root).map_or(0, |stat| stat.f_blocks * stat.f_frsize / 1024 * 1024);
        let mut amounts = Amounts::from([
            ("cpu".to_owned(), Quantity::new(cpus, Format::DecimalSi)),
            ("memory".to_owned(), Quantity::new(memory / 1024 * 1024, Format::BinarySi)),
            (
                "ephemeral-storage".to_owned(),
                Quantity::new(i64::try_from(disk).unwrap_or(i64::MAX), Format::BinarySi),
            ),
            ("pods".to_owned(), Quantity::new(pods, Format::DecimalSi)),
        ]);
        amounts.extend(huge_pages());
        Capacity(amounts)
    }

    /// The allocatable resources: without reservations and hard eviction thresholds.
    pub(super) fn allocatable(&self, reserved: &Reserved, hard: &[Threshold]) -> Capacity {
        let mut left = self.without(reserved);
        for threshold in hard.iter().filter(|threshold| threshold.grace.is_zero()) {
            let resource = match threshold.signal {
                Signal::MemoryAvailable => "memory",
                Signal::NodeFsAvailable => "ephemeral-storage",
                _ => continue,
            };
            let all = self.0.get(resource).map_or(0, Quantity::value);
            left.take(resource, threshold.least.of(all, Format::BinarySi));
        }
        let huge: Vec<Quantity> = self
            .0
            .iter()
            .filter(|(name, _)| name.starts_with(HUGE_PAGES))
            .map(|(_, amount)| *amount)
            .collect();
        huge.into_iter().for_each(|amount| left.take("memory", amount));
        left
    }

    /// The limits of the cgroup of all pods.
    pub(super) fn limits(&self, reserved: &Reserved) -> LinuxContainerResources {
        let left = if reserved.enforced { self.without(reserved) } else { self.clone() };
        let amount = |resource: &str| left.0.get(resource);
        LinuxContainerResources {
            cpu_shares: resources::shares(amount("cpu").map_or(0, Quantity::milli_value)),
            memory_limit_in_bytes: amount("memory").map_or(0, Quantity::value),
            ..LinuxContainerResources::default()
        }
    }

    pub(super) fn written(&self) -> Value {
        let entries =
            self.0.iter().map(|(name, amount)| (name.as_str().into(), Value::from(amount.to_str())));
        Value::Object(entries.collect::<Map>())
    }

    fn without(&self, reserved: &Reserved) -> Capacity {
        let mut left = self.clone();
        reserved.amounts.iter().for_each(|(resource, amount)| left.take(resource, *amount));
        left
    }

    fn take(&mut self, resource: &str, amount: Quantity) {
        if let Some(left) = self.0.get_mut(resource) {
            left.sub(amount);
            if left.is_negative() {
                *left = Quantity::new(0, left.format());
            }
        }
    }
}

const HUGE_PAGES: &str = "hugepages-";

/// The memory in huge pages, by page size.
fn huge_pages() -> Vec<(String, Quantity)> {
    let sizes = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let pages = sizes.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let size: i64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count: i64 =
            std::fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        let called = Quantity::new(size * 1024, Format::BinarySi).to_str();
        Some((format!("{HUGE_PAGES}{called}"), Quantity::new(size * 1024 * count, Format::BinarySi)))
    });
    pages.collect()
}

/// The resources that are reserved for the system and Kubernetes (`systemReserved`, `kubeReserved`).
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reserved {
    amounts: Amounts,
    /// True if the cgroup of all pods enforces the reservation.
    enforced: bool,
}

/// A reservation of the configuration that cannot be used; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReservedError {
    #[error("cannot reserve {0:?} resource")]
    Resource(String),
    #[error("failed to parse quantity {text:?} for {resource:?} resource: {err}")]
    Quantity { text: String, resource: String, err: String },
    #[error("resource quantity for {0:?} cannot be negative: {1}")]
    Negative(String, String),
}

impl Reserved {
    /// Reads the fields of a `KubeletConfiguration`.
    pub(crate) fn read(configuration: &Value) -> Result<Reserved, ReservedError> {
        let mut amounts = Amounts::new();
        for field in ["systemReserved", "kubeReserved"] {
            let entries = configuration.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
            for (name, text) in entries {
                if !RESERVABLE.contains(&name.as_str()) {
                    return Err(ReservedError::Resource(name.to_string()));
                }
                let text = text.as_str().unwrap_or_default();
                let amount = Quantity::parse(text).map_err(|err| ReservedError::Quantity {
                    text: text.to_owned(),
                    resource: name.to_string(),
                    err: err.to_string(),
                })?;
                if amount.is_negative() {
                    return Err(ReservedError::Negative(name.to_string(), text.to_owned()));
                }
                match amounts.get_mut(name.as_str()) {
                    Some(sum) => sum.add(amount),
                    None => drop(amounts.insert(name.to_string(), amount)),
                }
            }
        }
        let enforced = match configuration.get("enforceNodeAllocatable") {
            None | Some(Value::Null) => true,
            Some(list) => {
                list.as_array().unwrap_or_default().iter().any(|item| item.as_str() == Some("pods"))
            }
        };
        Ok(Reserved { amounts, enforced })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corten_api::value;

    use super::*;
    use crate::eviction::Options;

    fn capacity() -> Capacity {
        let amounts = [
            ("cpu", "4"),
            ("memory", "8Gi"),
            ("ephemeral-storage", "100Gi"),
            ("pods", "110"),
            ("hugepages-2Mi", "1Gi"),
        ];
        Capacity(amounts.map(|(name, text)| (name.to_owned(), Quantity::parse(text).unwrap())).into())
    }

    fn hard(thresholds: Value) -> Vec<Threshold> {
        let configuration = value!({"evictionHard": (thresholds)});
        Options::read(&configuration, |_, default: Duration| default).unwrap().thresholds
    }

    #[test]
    fn reservations_and_thresholds_are_not_allocatable() {
        let reserved = Reserved::read(&value!({
            "systemReserved": {"cpu": "100m", "memory": "512Mi"}, "kubeReserved": {"cpu": "400m", "ephemeral-storage": "1Gi"},
        }));
        let reserved = reserved.unwrap();
        let hard = hard(
            value!({"memory.available": "512Mi", "nodefs.available": "10%", "imagefs.available": "50%"}),
        );
        let left = capacity().allocatable(&reserved, &hard).written();
        assert_eq!(
            left,
            value!({
                "cpu": "3500m", "ephemeral-storage": "89Gi", "hugepages-2Mi": "1Gi", "memory": "6Gi", "pods": "110",
            })
        );
        let limits = capacity().limits(&reserved);
        assert_eq!((limits.cpu_shares, limits.memory_limit_in_bytes), (3584, (8 << 30) - (512 << 20)));
        let lenient = Reserved { enforced: false, ..reserved };
        assert_eq!(capacity().limits(&lenient).memory_limit_in_bytes, 8 << 30);
    }

    #[test]
    fn allocatable_is_never_negative() {
        let reserved = Reserved::read(&value!({"systemReserved": {"cpu": "5"}})).unwrap();
        assert_eq!(capacity().allocatable(&reserved, &[]).written().str_at(&["cpu"]), Some("0"));
    }

    #[test]
    fn invalid_reservations_are_refused() {
        for (amounts, words) in [
            (value!({"pods": "1"}), "cannot reserve \"pods\" resource"),
            (value!({"cpu": "-1"}), "resource quantity for \"cpu\" cannot be negative: -1"),
        ] {
            let read = Reserved::read(&value!({"kubeReserved": (amounts)}));
            assert_eq!(read.map_err(|err| err.to_string()), Err(words.to_owned()));
        }
        assert!(Reserved::read(&value!({"kubeReserved": {"cpu": "much"}})).is_err());
    }
}
