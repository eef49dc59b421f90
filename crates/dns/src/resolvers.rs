//! The node's own resolvers, as `resolv.conf` names them. Read again when the file changes: networks come and go.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

const PORT: u16 = 53;

pub(crate) struct Resolvers {
    file: PathBuf,
    /// Where this very server answers: asking there would go round in circles.
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
            *known = Known { changed, servers: named(&text, &self.own).into() };
        }
        known.servers.clone()
    }
}

/// The servers that a file names, in order. A port other than the usual one may follow after a `#`, as some write it.
fn named(text: &str, own: &[IpAddr]) -> Vec<SocketAddr> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let server = (words.next()? == "nameserver").then(|| words.next())??;
        let (address, port) = server.split_once('#').unwrap_or((server, ""));
        // A link that an address belongs to is not kept: it could not be told to the kernel here.
        let address: IpAddr = address.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(address, if port.is_empty() { PORT } else { port.parse().ok()? }))
    };
    text.lines().filter_map(of_line).filter(|server| !own.contains(&server.ip())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_in_order_and_never_ourselves() {
        let text = "# mine\nnameserver 192.0.2.1\nsearch a b\nnameserver 10.96.0.10\n nameserver 2001:db8::1\nnameserver\n\
                    nameserver 127.0.0.1#5353\nnameserver nonsense\n";
        let found: Vec<String> =
            named(text, &[[10, 96, 0, 10].into()]).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1:53", "[2001:db8::1]:53", "127.0.0.1:5353"]);
    }
}
