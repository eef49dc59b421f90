//! What the machine has, and what of it is there for pods. Pure but for `Capacity::measure`.

use std::collections::BTreeMap;
use std::path::Path;

use corten_api::quantity::{Format, Quantity};
use corten_api::{Map, Value};
use corten_container::LinuxContainerResources;

use crate::eviction::{Signal, Threshold};
use crate::resources;

/// Amounts by what they are of.
type Amounts = BTreeMap<String, Quantity>;

/// What can be kept back from pods.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Everything of which there is only so much.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Capacity(Amounts);

impl Capacity {
    pub(super) fn measure(memory: i64, most_pods: i64, pods_per_core: i64) -> Capacity {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = i64::try_from(cpus).unwrap_or(i64::MAX);
        let pods =
            if pods_per_core > 0 { most_pods.min(cpus.saturating_mul(pods_per_core)) } else { most_pods };
        let disk =
            rustix::fs::statvfs(Path::new("/")).map_or(0, |stat| stat.f_blocks * stat.f_frsize / 1024 * 1024);
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

    /// What is there for pods: what is neither reserved nor so little that pods would have to go.
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

    /// What all pods together are limited to.
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

/// Memory that was set apart in large pages, by their size.
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

/// What is kept back from pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reserved {
    amounts: Amounts,
    /// Whether pods are kept from using it, not only from asking for it.
    enforced: bool,
}

impl Reserved {
    /// Reads the fields of a `KubeletConfiguration`.
    pub(crate) fn read(configuration: &Value) -> Result<Reserved, String> {
        let mut amounts = Amounts::new();
        for field in ["systemReserved", "kubeReserved"] {
            let entries = configuration.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
            for (name, text) in entries {
                if !RESERVABLE.contains(&name.as_str()) {
                    return Err(format!("cannot reserve {name:?} resource"));
                }
                let text = text.as_str().unwrap_or_default();
                let amount = Quantity::parse(text).map_err(|error| {
                    format!("failed to parse quantity {text:?} for {name:?} resource: {error}")
                })?;
                if amount.is_negative() {
                    return Err(format!("resource quantity for {name:?} cannot be negative: {text}"));
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
    fn what_is_kept_back_is_not_there_for_pods() {
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
    fn nobody_has_less_than_nothing() {
        let reserved = Reserved::read(&value!({"systemReserved": {"cpu": "5"}})).unwrap();
        assert_eq!(capacity().allocatable(&reserved, &[]).written().str_at(&["cpu"]), Some("0"));
    }

    #[test]
    fn what_cannot_be_reserved_is_said() {
        for (amounts, words) in [
            (value!({"pods": "1"}), "cannot reserve \"pods\" resource"),
            (value!({"cpu": "-1"}), "resource quantity for \"cpu\" cannot be negative: -1"),
        ] {
            assert_eq!(Reserved::read(&value!({"kubeReserved": (amounts)})), Err(words.to_owned()));
        }
        assert!(Reserved::read(&value!({"kubeReserved": {"cpu": "much"}})).is_err());
    }
}
