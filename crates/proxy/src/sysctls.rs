//! How the kernel shall keep track of connections, as far as a configuration says so.

use std::path::Path;
use std::{fs, io};

use corten_net::namespace::Namespace;

use crate::config::Conntrack;

const ROOT: &str = "/proc/sys/net/netfilter";

/// The settings and their values.
fn wanted(conntrack: &Conntrack, cores: u32) -> Vec<(&'static str, u64)> {
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

/// Writes what is not so already. What cannot be written stays: a machine may have its reasons.
pub(crate) fn apply(conntrack: &Conntrack, namespace: &Namespace) {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    for (setting, value) in wanted(conntrack, cores) {
        if let Err(error) = namespace.run(|| set(setting, value)) {
            tracing::info!(setting, value, %error, "a setting for connections could not be written");
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
    fn the_default_is_upstreams() {
        let expected = [
            ("nf_conntrack_max", 131_072),
            ("nf_conntrack_tcp_timeout_established", 86_400),
            ("nf_conntrack_tcp_timeout_close_wait", 3_600),
        ];
        assert_eq!(wanted(&Config::default().conntrack, 2), expected);
        assert_eq!(wanted(&Config::default().conntrack, 8)[0], ("nf_conntrack_max", 262_144));
        let unlimited = Conntrack { max_per_core: 0, ..Conntrack::default() };
        assert!(wanted(&unlimited, 8).is_empty());
    }
}
