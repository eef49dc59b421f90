//! When the node is short of something: signals, and how much of each has to be left. Pure.

use std::time::Duration;

use corten_api::quantity::{Format, Quantity};
use corten_api::{Map, Value};

/// Something the node can run out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    MemoryAvailable,
    /// What is left of the memory that all pods together may have.
    AllocatableMemoryAvailable,
    NodeFsAvailable,
    NodeFsInodesFree,
    ImageFsAvailable,
    ImageFsInodesFree,
    ContainerFsAvailable,
    ContainerFsInodesFree,
    PidAvailable,
}

const SIGNALS: [Signal; 9] = [
    Signal::MemoryAvailable,
    Signal::AllocatableMemoryAvailable,
    Signal::NodeFsAvailable,
    Signal::NodeFsInodesFree,
    Signal::ImageFsAvailable,
    Signal::ImageFsInodesFree,
    Signal::ContainerFsAvailable,
    Signal::ContainerFsInodesFree,
    Signal::PidAvailable,
];

impl Signal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::MemoryAvailable => "memory.available",
            Signal::AllocatableMemoryAvailable => "allocatableMemory.available",
            Signal::NodeFsAvailable => "nodefs.available",
            Signal::NodeFsInodesFree => "nodefs.inodesFree",
            Signal::ImageFsAvailable => "imagefs.available",
            Signal::ImageFsInodesFree => "imagefs.inodesFree",
            Signal::ContainerFsAvailable => "containerfs.available",
            Signal::ContainerFsInodesFree => "containerfs.inodesFree",
            Signal::PidAvailable => "pid.available",
        }
    }

    /// What pods use of it, as they ask for it.
    pub(crate) fn resource(self) -> &'static str {
        match self {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => "memory",
            Signal::NodeFsAvailable | Signal::ImageFsAvailable | Signal::ContainerFsAvailable => {
                "ephemeral-storage"
            }
            Signal::NodeFsInodesFree | Signal::ImageFsInodesFree | Signal::ContainerFsInodesFree => "inodes",
            Signal::PidAvailable => "pids",
        }
    }

    pub(crate) fn is_of_disk(self) -> bool {
        matches!(self.resource(), "ephemeral-storage" | "inodes")
    }

    pub(crate) fn is_of_node_fs(self) -> bool {
        matches!(self, Signal::NodeFsAvailable | Signal::NodeFsInodesFree)
    }

    fn parse(name: &str) -> Result<Signal, String> {
        let found = SIGNALS.into_iter().find(|signal| signal.name() == name);
        found.ok_or_else(|| format!("unsupported eviction signal {name}"))
    }
}

/// So much, or so much of all there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Quantity(Quantity),
    Fraction(f64),
}

impl Amount {
    fn parse(text: &str) -> Result<Amount, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| format!("{text:?} is no percentage"))?;
            return Ok(Amount::Fraction(percent / 100.0));
        }
        Quantity::parse(text).map(Amount::Quantity).map_err(|error| error.to_string())
    }

    /// Of a capacity.
    pub(crate) fn of(self, capacity: i64, format: Format) -> Quantity {
        match self {
            Amount::Quantity(quantity) => quantity,
            Amount::Fraction(fraction) => Quantity::new((capacity as f64 * fraction) as i64, format),
        }
    }

    fn is_negative(self) -> bool {
        match self {
            Amount::Quantity(quantity) => quantity.is_negative(),
            Amount::Fraction(fraction) => fraction < 0.0,
        }
    }
}

/// Less than this of something is too little.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Threshold {
    pub(crate) signal: Signal,
    pub(crate) least: Amount,
    /// For how long before anything is done; none at all for a hard one.
    pub(crate) grace: Duration,
    /// How much more there has to be before it is enough again.
    pub(crate) reclaim: Option<Amount>,
}

/// How eviction is set up.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    pub(crate) thresholds: Vec<Threshold>,
    /// How long the node is said to be short of something after it was last.
    pub(crate) transition: Duration,
    /// How long pods are given at most where there is time.
    pub(crate) most_grace: Duration,
}

/// What holds if nobody says anything.
const HARD: [(&str, &str); 5] = [
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
];

impl Options {
    /// Reads the fields of a `KubeletConfiguration`.
    pub(crate) fn read(
        configuration: &Value,
        duration: impl Fn(&str, Duration) -> Duration,
    ) -> Result<Options, String> {
        let map = |field: &str| -> Vec<(&str, &str)> {
            let entries = configuration.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter);
            entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
        };
        let mut hard = map("evictionHard");
        if hard.is_empty() {
            hard = HARD.to_vec();
        }
        let seconds = configuration.int_at(&["evictionMaxPodGracePeriod"]).unwrap_or(0);
        let reclaims = map("evictionMinimumReclaim");
        let graces = map("evictionSoftGracePeriod");
        let mut thresholds = statements(&hard)?;
        for mut threshold in statements(&map("evictionSoft"))? {
            let name = threshold.signal.name();
            let text = graces.iter().find(|(signal, _)| *signal == name).map(|(_, text)| *text);
            let text = text.ok_or_else(|| {
                format!("grace period must be specified for the soft eviction threshold {name}")
            })?;
            threshold.grace = crate::housekeeping::go_duration(text)?;
            thresholds.push(threshold);
        }
        for (name, text) in reclaims {
            let (signal, amount) = (Signal::parse(name)?, Amount::parse(text)?);
            if amount.is_negative() {
                return Err(format!("negative eviction minimum reclaim specified for {name}"));
            }
            let same = thresholds.iter_mut().filter(|threshold| threshold.signal == signal);
            same.for_each(|threshold| threshold.reclaim = Some(amount));
        }
        // What all pods together may have must not run out either.
        let memory = thresholds.iter().filter(|t| t.signal == Signal::MemoryAvailable && t.grace.is_zero());
        let pods: Vec<Threshold> =
            memory.map(|t| Threshold { signal: Signal::AllocatableMemoryAvailable, ..*t }).collect();
        thresholds.extend(pods);
        Ok(Options {
            thresholds,
            transition: duration("evictionPressureTransitionPeriod", Duration::from_secs(300)),
            most_grace: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
        })
    }
}

fn statements(map: &[(&str, &str)]) -> Result<Vec<Threshold>, String> {
    let mut thresholds = Vec::new();
    for (name, text) in map {
        let signal = Signal::parse(name)?;
        // As good as none.
        if matches!(*text, "0%" | "100%") {
            continue;
        }
        let least = Amount::parse(text)?;
        match least {
            Amount::Fraction(fraction) if fraction < 0.0 => {
                return Err(format!("eviction percentage threshold {name} must be >= 0%: {text}"));
            }
            Amount::Fraction(fraction) if fraction > 1.0 => {
                return Err(format!("eviction percentage threshold {name} must be <= 100%: {text}"));
            }
            Amount::Quantity(quantity) if quantity.is_negative() || quantity.is_zero() => {
                return Err(format!("eviction threshold {name} must be positive: {text}"));
            }
            _ => {}
        }
        thresholds.push(Threshold { signal, least, grace: Duration::ZERO, reclaim: None });
    }
    Ok(thresholds)
}
