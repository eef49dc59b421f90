//! The names of archives: a set, and the time of the copy.
//!
//! Retention counts the archives of one set in one place. *Invariant:* only names that this module makes are ever removed.

use std::fmt;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

const EXTENSION: &str = ".backup";
const TIME: &str = "%Y%m%dT%H%M%S";
const MAX_SET: usize = 63;

/// The name of an archive, such as `nightly-20261119T213000.123Z.backup`. Ordered by set, then time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    set: String,
    pub created: Timestamp,
}

impl Name {
    /// A name in a set; a set has lower-case letters, digits and dashes.
    pub fn new(set: &str, created: Timestamp) -> Option<Name> {
        let milliseconds = Timestamp::from_millisecond(created.as_millisecond()).ok()?;
        is_set(set).then(|| Name { set: set.to_owned(), created: milliseconds })
    }

    pub fn parse(text: &str) -> Option<Name> {
        let (set, time) = text.strip_suffix(EXTENSION)?.rsplit_once('-')?;
        let (whole, milliseconds) = time.strip_suffix('Z')?.split_once('.')?;
        let at = strtime::parse(TIME, whole).ok()?.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?;
        let milliseconds: i64 = milliseconds.parse().ok().filter(|_| milliseconds.len() == 3)?;
        let created = Timestamp::from_millisecond(at.timestamp().as_millisecond() + milliseconds).ok()?;
        let name = Name::new(set, created)?;
        (name.to_string() == text).then_some(name)
    }

    pub fn set(&self) -> &str {
        &self.set
    }
}

/// True for the name of a set of archives.
fn is_set(set: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_SET).contains(&set.len()) && set.bytes().all(is_plain) && !set.starts_with('-')
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.created.as_millisecond().rem_euclid(1000);
        let whole = self.created.to_zoned(TimeZone::UTC);
        write!(f, "{}-{}.{milliseconds:03}Z{EXTENSION}", self.set, whole.strftime(TIME))
    }
}

/// The oldest names of a set beyond the newest `keep`.
pub fn surplus(names: &[Name], set: &str, keep: usize) -> Vec<Name> {
    let mut of_set: Vec<Name> = names.iter().filter(|name| name.set == set).cloned().collect();
    of_set.sort_unstable_by(|a, b| b.cmp(a));
    of_set.split_off(keep.min(of_set.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(set: &str, time: &str) -> Name {
        Name::new(set, time.parse().unwrap()).unwrap()
    }

    #[test]
    fn names_round_trip_and_others_are_not_ours() {
        let nightly = name("nightly-1", "2026-11-19T21:30:00.1239Z");
        assert_eq!(nightly.to_string(), "nightly-1-20261119T213000.123Z.backup");
        assert_eq!(Name::parse(&nightly.to_string()), Some(nightly));
        for other in [
            "",
            "x.backup",
            "nightly-20261119T213000.1Z.backup",
            "nightly-20261119T213000.123Z.backup.tmp",
            "-20261119T213000.123Z.backup",
            "a/../b-20261119T213000.123Z.backup",
            "Nightly-20261119T213000.123Z.backup",
            "nightly-20261319T213000.123Z.backup",
            "nightly-20261119T213000.+12Z.backup",
        ] {
            assert_eq!(Name::parse(other), None, "{other}");
        }
        for bad in ["", "-a", "a/b", "..", "A", &"a".repeat(64)] {
            assert!(!is_set(bad), "{bad}");
        }
    }

    #[test]
    fn retention_removes_the_oldest_of_its_own_set() {
        let names = [
            name("a", "2026-01-02T00:00:00Z"),
            name("b", "2020-01-01T00:00:00Z"),
            name("a", "2026-01-03T00:00:00Z"),
            name("a", "2026-01-01T00:00:00Z"),
        ];
        assert_eq!(surplus(&names, "a", 1), [names[0].clone(), names[3].clone()]);
        assert_eq!(surplus(&names, "a", 5), []);
        assert_eq!(surplus(&names, "c", 0), []);
    }
}
