//! The node's own resolvers, from `resolv.conf`. Read again when the file changes.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

const PORT: u16 = 53;

pub(crate) struct Resolvers {
    file: PathBuf,
    /// The addresses of this server: forwarding to them would loop.
    own: Vec<IpAddr>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    changed: Option<SystemTime>,
    servers: Arc<[SocketAddr]>,
}

impl Resolvers {
    pub(crate) fn new(file: PathBuf, own: Vec<IpAddr>) -> Resolvers {
        Resolvers { file, own, known: Mutex::default() }
    }

    pub(crate) fn current(&self) -> Arc<[SocketAddr]> {
        let changed = std::fs::metadata(&self.file).and_then(|file| file.modified()).ok();
        let mut known = self.known.lock();
        if known.changed != changed || changed.is_none() {
            let text = std::fs::read_to_string(&self.file).unwrap_or_default();
            *known = Known { changed, servers: parse(&text, &self.own).into() };
        }
        known.servers.clone()
    }
}

/// Parses the resolvers of a file, in order. A port other than 53 may follow after a `#`, as in dnsmasq's syntax.
pub(crate) fn parse(text: &str, own: &[IpAddr]) -> Vec<SocketAddr> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let server = (words.next()? == "nameserver").then(|| words.next())??;
        let (address, port) = server.split_once('#').unwrap_or((server, ""));
        // The zone of a link-local address is ignored: it cannot be passed to the kernel here.
        let address: IpAddr = address.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address, if port.is_empty() { PORT } else { port.parse().ok()? }))
    };
    text.lines().filter_map(of_line).filter(|server| !own.contains(&server.ip())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_in_order_without_this_server() {
        let text = "# mine\nnameserver 192.0.2.1\nsearch a b\nnameserver 10.96.0.10\n nameserver 2001:db8::1\nnameserver\n\
                    nameserver 127.0.0.1#5353\nnameserver nonsense\n";
        let found: Vec<String> =
            parse(text, &[[10, 96, 0, 10].into()]).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53", "127.0.0.1:5353"]);
    }
}
