//! Semantic versions: `semver`, `isSemver` and the comparisons, as upstream's library parses and orders them.

use std::any::Any;
use std::cmp::Ordering;

use corten_api::status::quoted;

use super::arguments::{declare, opaque, text};
use crate::declare::{Declaration, Library};
use crate::error::{Error, Result};
use crate::value::{Opaque, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("semver", "string_to_semver", "(string) kubernetes.Semver", semver),
    declare("semver", "string_bool_to_semver", "(string, bool) kubernetes.Semver", semver),
    declare("isSemver", "is_semver_string", "(string) bool", is_semver),
    declare("isSemver", "is_semver_string_bool", "(string, bool) bool", is_semver),
    declare("major", "semver_major", "kubernetes.Semver.() int", major),
    declare("minor", "semver_minor", "kubernetes.Semver.() int", minor),
    declare("patch", "semver_patch", "kubernetes.Semver.() int", patch),
    declare(
        "isGreaterThan",
        "semver_is_greater_than",
        "kubernetes.Semver.(kubernetes.Semver) bool",
        is_greater,
    ),
    declare("isLessThan", "semver_is_less_than", "kubernetes.Semver.(kubernetes.Semver) bool", is_less),
    declare("compareTo", "semver_compare_to", "kubernetes.Semver.(kubernetes.Semver) int", compare_to),
];

/// A version. Equality and order ignore build metadata, so that is checked and dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pre_release: PreRelease,
}

/// A version without identifiers is newer than all with some.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PreRelease(Vec<Identifier>);

/// Numbers are older than names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Name(String),
}

impl Opaque for Version {
    fn type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        (other as &dyn Any).downcast_ref().map(|other| self == other)
    }
}

impl PartialOrd for PreRelease {
    fn partial_cmp(&self, other: &PreRelease) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PreRelease {
    fn cmp(&self, other: &PreRelease) -> Ordering {
        match (self.0.is_empty(), other.0.is_empty()) {
            (false, false) => self.0.cmp(&other.0),
            (mine, other) => mine.cmp(&other),
        }
    }
}

impl Version {
    /// Parses `major.minor.patch-pre+build`.
    pub fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "Major")?;
        let minor = number(minor, "Minor")?;
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number(patch, "Patch")?;
        let identifiers = pre.into_iter().flat_map(|pre| pre.split('.')).map(identifier);
        let pre_release = PreRelease(identifiers.collect::<Result<_, _>>()?);
        for part in build.into_iter().flat_map(|build| build.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_alphanumeric(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", quoted(part)));
            }
        }
        Ok(Version { major, minor, patch, pre_release })
    }

    /// Parses a version that may begin with `v`, have leading zeros, and lack its minor and patch numbers.
    pub fn parse_tolerant(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|part| part.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Version::parse(&parts.join("."))
    }
}

fn without_leading_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let trimmed = part.trim_start_matches('0');
    let zero = if trimmed.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    format!("{zero}{trimmed}")
}

fn is_alphanumeric(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// One of the three numbers.
fn number(text: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        let name = name.to_ascii_lowercase();
        return Err(format!("Invalid character(s) found in {name} number {}", quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {}", quoted(text)));
    }
    digits(text)
}

/// Digits as a number; Go's error if they are none or too many.
fn digits(text: &str) -> Result<u64, String> {
    let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {reason}", quoted(text)))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let message = "Numeric PreRelease version must not contain leading zeroes";
            return Err(format!("{message} {}", quoted(text)));
        }
        return digits(text).map(Identifier::Number);
    }
    if !is_alphanumeric(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", quoted(text)));
    }
    Ok(Identifier::Name(text.to_owned()))
}

fn parse(arguments: &[Value<'_>]) -> Result<Version> {
    let text = text(arguments, 0)?;
    let version = match arguments.get(1) {
        None | Some(Value::Bool(false)) => Version::parse(text),
        Some(Value::Bool(true)) => Version::parse_tolerant(text),
        Some(_) => return Err(Error::no_such_overload()),
    };
    Ok(version?)
}

fn semver<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    parse(arguments).map(Value::opaque)
}

fn is_semver<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(parse(arguments).is_ok().into())
}

/// Numbers above the range of integers wrap, as upstream's do.
fn major<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(opaque::<Version>(arguments, 0)?.major.cast_signed()))
}

fn minor<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(opaque::<Version>(arguments, 0)?.minor.cast_signed()))
}

fn patch<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(opaque::<Version>(arguments, 0)?.patch.cast_signed()))
}

fn order(arguments: &[Value<'_>]) -> Result<Ordering> {
    Ok(opaque::<Version>(arguments, 0)?.cmp(opaque(arguments, 1)?))
}

fn is_greater<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(order(arguments)?.is_gt().into())
}

fn is_less<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(order(arguments)?.is_lt().into())
}

fn compare_to<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(order(arguments)? as i64))
}
