//! The sysctls of connection tracking, where the configuration sets them.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use corten_net::namespace::Namespace;

use crate::config::Conntrack;

const ROOT: &str = "/proc/sys/net/netfilter";

/// The desired sysctls and their values.
fn desired(conntrack: &Conntrack, cores: u32) -> Vec<(&'static str, u64)> {
    let most = match conntrack.max_per_core {
        0 => 0,
        each => each.saturating_mul(cores).max(conntrack.min),
    };
    let all = [
        ("nf_conntrack_max", u64::from(most)),
        ("nf_conntrack_tcp_timeout_established", conntrack.tcp_established.as_secs()),
        ("nf_conntrack_tcp_timeout_close_wait", conntrack.tcp_close_wait.as_secs()),
        ("nf_conntrack_tcp_be_liberal", conntrack.tcp_be_liberal.into()),
        ("nf_conntrack_udp_timeout", conntrack.udp.as_secs()),
        ("nf_conntrack_udp_timeout_stream", conntrack.udp_stream.as_secs()),
    ];
    all.into_iter().filter(|(_, value)| *value > 0).collect()
}

/// Loads the conntrack module, without which its sysctls do not exist. The kernel loads it by itself only with the first rule
/// that uses it.
fn load_conntrack() {
    if Path::new(ROOT).join("nf_conntrack_max").exists() {
        return;
    }
    let loaded = Command::new("modprobe").args(["-q", "nf_conntrack"]).status();
    if !loaded.is_ok_and(|status| status.success()) {
        tracing::debug!("cannot load the kernel module nf_conntrack");
    }
}

/// Writes sysctls that differ. A sysctl that cannot be written keeps its value, because the proxy works without it.
pub(crate) fn apply(conntrack: &Conntrack, namespace: &Namespace) {
    load_conntrack();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    for (setting, value) in desired(conntrack, cores) {
        if let Err(err) = namespace.run(|| set(setting, value)) {
            tracing::info!(sysctl = setting, value, %err, "cannot set sysctl");
        }
    }
}

fn set(setting: &str, value: u64) -> io::Result<()> {
    let path = Path::new(ROOT).join(setting);
    let value = value.to_string();
    if fs::read_to_string(&path)?.trim_end() == value { Ok(()) } else { fs::write(&path, value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn the_defaults_are_upstreams() {
        let expected = [
            ("nf_conntrack_max", 131_072),
            ("nf_conntrack_tcp_timeout_established", 86_400),
            ("nf_conntrack_tcp_timeout_close_wait", 3_600),
        ];
        assert_eq!(desired(&Config::default().conntrack, 2), expected);
        assert_eq!(desired(&Config::default().conntrack, 8)[0], ("nf_conntrack_max", 262_144));
        let unlimited = Conntrack { max_per_core: 0, ..Conntrack::default() };
        assert!(desired(&unlimited, 8).is_empty());
    }
}
