//! Eviction signals and their thresholds. Pure.

use std::time::Duration;

use corten_api::quantity::{Format, Quantity};
use corten_api::{Map, Value};

use crate::housekeeping::{InvalidDuration, go_duration};

/// An eviction signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signal {
    MemoryAvailable,
    /// The available memory of the cgroup of all pods.
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

    /// The resource that pods request to use it.
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

    fn parse(name: &str) -> Result<Signal, ThresholdError> {
        let found = SIGNALS.into_iter().find(|signal| signal.name() == name);
        found.ok_or_else(|| ThresholdError::Signal(name.to_owned()))
    }
}

/// A threshold of the configuration that cannot be used; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ThresholdError {
    #[error("unsupported eviction signal {0}")]
    Signal(String),
    #[error("{0:?} is not a percentage")]
    Percentage(String),
    #[error("{0}")]
    Quantity(String),
    #[error("grace period must be specified for the soft eviction threshold {0}")]
    NoGracePeriod(&'static str),
    #[error(transparent)]
    GracePeriod(#[from] InvalidDuration),
    #[error("negative eviction minimum reclaim specified for {0}")]
    NegativeReclaim(String),
    #[error("eviction percentage threshold {0} must be >= 0%: {1}")]
    BelowZero(String, String),
    #[error("eviction percentage threshold {0} must be <= 100%: {1}")]
    AboveAll(String, String),
    #[error("eviction threshold {0} must be positive: {1}")]
    NotPositive(String, String),
}

/// An amount, absolute or as a fraction of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Quantity(Quantity),
    Fraction(f64),
}

impl Amount {
    fn parse(text: &str) -> Result<Amount, ThresholdError> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.parse().map_err(|_| ThresholdError::Percentage(text.to_owned()))?;
            return Ok(Amount::Fraction(percent / 100.0));
        }
        Quantity::parse(text).map(Amount::Quantity).map_err(|err| ThresholdError::Quantity(err.to_string()))
    }

    /// The amount for a capacity.
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

/// A threshold: it is met when less than this is available.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Threshold {
    pub(crate) signal: Signal,
    pub(crate) least: Amount,
    /// The time that the threshold must be met before pods are evicted; zero for a hard threshold.
    pub(crate) grace: Duration,
    /// The amount above the threshold that resolves it (`evictionMinimumReclaim`).
    pub(crate) reclaim: Option<Amount>,
}

/// The settings of eviction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    pub(crate) thresholds: Vec<Threshold>,
    /// The time that a condition is reported after its threshold was last met.
    pub(crate) transition: Duration,
    /// The longest grace period of pods that are evicted for a soft threshold.
    pub(crate) most_grace: Duration,
}

/// The default hard thresholds.
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
    ) -> Result<Options, ThresholdError> {
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
            let text = text.ok_or(ThresholdError::NoGracePeriod(name))?;
            threshold.grace = go_duration(text)?;
            thresholds.push(threshold);
        }
        for (name, text) in reclaims {
            let (signal, amount) = (Signal::parse(name)?, Amount::parse(text)?);
            if amount.is_negative() {
                return Err(ThresholdError::NegativeReclaim(name.to_owned()));
            }
            let same = thresholds.iter_mut().filter(|threshold| threshold.signal == signal);
            same.for_each(|threshold| threshold.reclaim = Some(amount));
        }
        // The cgroup of all pods must not run out of memory either.
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

fn statements(map: &[(&str, &str)]) -> Result<Vec<Threshold>, ThresholdError> {
    let mut thresholds = Vec::new();
    for (name, text) in map {
        let signal = Signal::parse(name)?;
        let (name, text) = ((*name).to_owned(), (*text).to_owned());
        // These values disable a threshold.
        if matches!(text.as_str(), "0%" | "100%") {
            continue;
        }
        let least = Amount::parse(&text)?;
        match least {
            Amount::Fraction(fraction) if fraction < 0.0 => {
                return Err(ThresholdError::BelowZero(name, text));
            }
            Amount::Fraction(fraction) if fraction > 1.0 => {
                return Err(ThresholdError::AboveAll(name, text));
            }
            Amount::Quantity(quantity) if quantity.is_negative() || quantity.is_zero() => {
                return Err(ThresholdError::NotPositive(name, text));
            }
            _ => {}
        }
        thresholds.push(Threshold { signal, least, grace: Duration::ZERO, reclaim: None });
    }
    Ok(thresholds)
}
