//! Devices: the device nodes of a container, and the rules of its devices cgroup.

use corten_sys::devices::Allowed;
use corten_sys::wire;

/// A rule of the devices cgroup: devices and permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    /// `c` or `b`.
    pub(crate) kind: char,
    /// `None` is any.
    pub(crate) major: Option<u32>,
    pub(crate) minor: Option<u32>,
    pub(crate) access: String,
}

const CHARACTER: u32 = 0o020000;
const BLOCK: u32 = 0o060000;

/// The devices that every container has.
const DEFAULT: [(&str, u32, u32); 6] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
    ("/dev/tty", 5, 0),
];

pub(crate) fn default_devices() -> Vec<wire::Device> {
    let device = |(path, major, minor): (&str, u32, u32)| wire::Device {
        path: path.to_owned(),
        mode: CHARACTER | 0o666,
        major,
        minor,
        uid: 0,
        gid: 0,
    };
    DEFAULT.map(device).into()
}

/// The default rules: creating nodes, the default devices and terminals.
pub(crate) fn default_rules() -> Vec<Rule> {
    let rule = |kind, major, minor, access: &str| Rule { kind, major, minor, access: access.to_owned() };
    let mut rules = vec![rule('c', None, None, "m"), rule('b', None, None, "m")];
    rules.extend(DEFAULT.map(|(_, major, minor)| rule('c', Some(major), Some(minor), "rwm")));
    // Terminals of any mount, and `/dev/ptmx`.
    rules.push(rule('c', Some(136), None, "rwm"));
    rules.push(rule('c', Some(5), Some(2), "rwm"));
    rules
}

pub(crate) fn rule_for(device: &wire::Device, access: &str) -> Rule {
    let kind = if device.mode & 0o170000 == BLOCK { 'b' } else { 'c' };
    Rule { kind, major: Some(device.major), minor: Some(device.minor), access: access.to_owned() }
}

impl Rule {
    /// The rule as input of the program of version 2.
    pub(crate) fn allowed(&self) -> Allowed {
        Allowed {
            block: self.kind == 'b',
            major: self.major,
            minor: self.minor,
            make: self.access.contains('m'),
            read: self.access.contains('r'),
            write: self.access.contains('w'),
        }
    }

    /// The rule as a line of version 1 of the devices cgroup.
    pub(crate) fn line(&self) -> String {
        let number = |number: Option<u32>| number.map_or("*".to_owned(), |number| number.to_string());
        format!("{} {}:{} {}", self.kind, number(self.major), number(self.minor), self.access)
    }
}
