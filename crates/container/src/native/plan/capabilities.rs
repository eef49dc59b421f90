//! Capabilities by name.

use crate::{Capabilities, Error, Result};

/// By number.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// The default capabilities of containers.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

pub(crate) const ALL: u64 = (1 << NAMES.len()) - 1;

/// The requested set: all, or the default with added and without dropped capabilities.
pub(crate) fn set(asked: &Capabilities, privileged: bool) -> Result<u64> {
    if privileged {
        return Ok(ALL);
    }
    let has_all = |names: &[String]| names.iter().any(|name| name.eq_ignore_ascii_case("ALL"));
    let mut set = match (has_all(&asked.add), has_all(&asked.drop)) {
        (true, _) => ALL,
        (false, true) => 0,
        (false, false) => bits(DEFAULT.iter().copied())?,
    };
    // A capability that is added by name stays, even if all are dropped.
    set |= bits(named(&asked.add))?;
    set &= !bits(named(&asked.drop))?;
    Ok(set)
}

pub(crate) fn bits<'a>(names: impl Iterator<Item = &'a str>) -> Result<u64> {
    names.map(bit).sum_bits()
}

/// The names of the capabilities in a set.
pub(crate) fn names(set: u64) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().enumerate().filter(move |(number, _)| set & 1 << number != 0).map(|(_, name)| name)
}

fn named(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str).filter(|name| !name.eq_ignore_ascii_case("ALL"))
}

fn bit(name: &str) -> Result<u64> {
    let plain = name.to_ascii_uppercase();
    let plain = plain.strip_prefix("CAP_").unwrap_or(&plain);
    let number = NAMES.iter().position(|known| *known == plain);
    number
        .map(|number| 1 << number)
        .ok_or_else(|| Error::InvalidArgument(format!("unknown capability {name:?}")))
}

trait SumBits {
    fn sum_bits(self) -> Result<u64>;
}

impl<I: Iterator<Item = Result<u64>>> SumBits for I {
    fn sum_bits(mut self) -> Result<u64> {
        self.try_fold(0, |set, bit| Ok(set | bit?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(add: &[&str], drop: &[&str], expected: u64) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let asked = Capabilities { add: owned(add), drop: owned(drop), add_ambient: Vec::new() };
        assert_eq!(set(&asked, false).unwrap(), expected, "+{add:?} -{drop:?}");
    }

    #[test]
    fn sets_are_added_up() {
        let default = 0xa804_25fb;
        check(&[], &[], default);
        check(&["NET_ADMIN"], &[], default | 1 << 12);
        check(&["CAP_SYS_TIME"], &["kill"], (default | 1 << 25) & !(1 << 5));
        check(&["CHOWN"], &["ALL"], 1);
        check(&["ALL"], &["CHOWN"], ALL & !1);
        let unknown = Capabilities { add: vec!["FLY".to_owned()], ..Capabilities::default() };
        assert_eq!(set(&unknown, false).unwrap_err().to_string(), "unknown capability \"FLY\"");
    }
}
