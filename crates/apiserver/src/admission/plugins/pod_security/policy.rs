//! The policy in a namespace's labels: a level and a version for each of enforce, audit and warn.

use std::fmt;

use corten_api::Value;
use corten_api::status::ErrorList;

/// The levels, from the least to the most strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Result<Level, &'static str> {
        match text {
            "privileged" => Ok(Level::Privileged),
            "baseline" => Ok(Level::Baseline),
            "restricted" => Ok(Level::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// The Kubernetes version whose definition of a level applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    /// `v1.N`.
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Result<Version, &'static str> {
        if text == "latest" {
            return Ok(Version::Latest);
        }
        let number = text.strip_prefix("v1.").filter(|digits| {
            digits.bytes().all(|b| b.is_ascii_digit()) && (*digits == "0" || !digits.starts_with('0'))
        });
        let number = number.and_then(|digits| digits.parse().ok());
        number.map(Version::Minor).ok_or("must be \"latest\" or \"v1.x\"")
    }
}

/// A level as of a version: `restricted:v1.30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

impl LevelVersion {
    const PRIVILEGED: LevelVersion = LevelVersion { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Latest => write!(f, "{}:latest", self.level.name()),
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

impl Policy {
    pub(super) const PRIVILEGED: Policy = Policy {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };

    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }

    /// Parses labels, and returns their errors. An invalid level is enforced as `restricted`, but neither audited nor
    /// warned about.
    pub(super) fn read<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Policy, ErrorList) {
        let mut errors = ErrorList::new();
        let mut policy = Policy::PRIVILEGED;
        let mut named = [false; 3];
        let modes = [
            ("enforce", &mut policy.enforce, Level::Restricted),
            ("audit", &mut policy.audit, Level::Privileged),
            ("warn", &mut policy.warn, Level::Privileged),
        ];
        let mut versioned = [false; 3];
        for (i, (mode, target, fallback)) in modes.into_iter().enumerate() {
            let key = format!("pod-security.kubernetes.io/{mode}");
            if let Some(text) = label(&key) {
                let level = Level::parse(text);
                // An invalid level to enforce is not used for warnings.
                named[i] = mode == "warn" || level.is_ok();
                target.level = note(level, &key, text, &mut errors).unwrap_or(fallback);
            }
            let key = format!("{key}-version");
            if let Some(text) = label(&key) {
                versioned[i] = true;
                target.version =
                    note(Version::parse(text), &key, text, &mut errors).unwrap_or(Version::Latest);
            }
        }
        let [enforces, _, warns] = named;
        if !warns && enforces && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !versioned[2] {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

fn note<T>(outcome: Result<T, &'static str>, label: &str, text: &str, errors: &mut ErrorList) -> Option<T> {
    if let Err(why) = outcome {
        errors.invalid(format!("metadata.labels[{label}]"), &Value::from(text), why);
    }
    outcome.ok()
}
