//! The connection limits of a listener, in total and per address.
//!
//! A connection uses a descriptor and some memory before its client is authenticated. So that one machine cannot use all of
//! them, each address has a limit; connections beyond it are closed at once.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// The limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    pub per_address: usize,
}

impl ConnectionLimits {
    /// For a listener with few clients, such as one for health and metrics.
    pub const FEW: ConnectionLimits = ConnectionLimits { total: 512, per_address: 128 };

    /// For a listener that serves all clients of the cluster: most of the process' descriptors, and half of those for one address,
    /// behind which many clients may be.
    pub fn of_descriptors(descriptors: Option<u64>) -> ConnectionLimits {
        const MOST: u64 = 1 << 20;
        let descriptors = usize::try_from(descriptors.unwrap_or(MOST).min(MOST)).unwrap_or(usize::MAX);
        let total = descriptors / 4 * 3;
        ConnectionLimits { total, per_address: total / 2 }
    }
}

/// The open connections of a listener. Clones share them.
#[derive(Debug, Clone)]
pub struct Connections {
    limits: ConnectionLimits,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Connected {
    address: IpAddr,
    open: Arc<Mutex<Open>>,
}

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Connections {
        Connections { limits, open: Arc::default() }
    }

    /// Counts a connection from an address, if the limits allow it.
    pub fn enter(&self, address: IpAddr) -> Option<Connected> {
        let address = network_of(address);
        let mut open = self.open.lock();
        let own = open.by_address.get(&address).copied().unwrap_or_default();
        if open.total >= self.limits.total || own >= self.limits.per_address {
            return None;
        }
        open.total += 1;
        open.by_address.insert(address, own + 1);
        Some(Connected { address, open: self.open.clone() })
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        open.total -= 1;
        if let Some(own) = open.by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                open.by_address.remove(&self.address);
            }
        }
    }
}

/// The address that limits apply to: an IPv6 /64 network counts as one address, because a machine has all of its addresses.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            const HOST: u128 = (1 << 64) - 1;
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !HOST))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_use_all_connections() {
        let connections = Connections::new(ConnectionLimits { total: 5, per_address: 2 });
        let enter = |address: &str| connections.enter(address.parse().unwrap());
        let held: Vec<_> = ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2"].map(enter).into();
        assert!(held.iter().all(Option::is_some));
        assert!(enter("192.0.2.1").is_none() && enter("2001:db8::3").is_none(), "their shares are used up");
        let last = enter("2001:db8:0:1::1");
        assert!(last.is_some() && enter("192.0.2.9").is_none(), "there are no more than that");
        drop(held);
        assert!(enter("192.0.2.1").is_some());
        drop(last);
        assert_eq!(connections.open.lock().total, 0);
        assert!(connections.open.lock().by_address.is_empty());
    }

    #[test]
    fn most_descriptors_are_for_connections() {
        let limits = |descriptors| ConnectionLimits::of_descriptors(descriptors);
        assert_eq!(limits(Some(1024)), ConnectionLimits { total: 768, per_address: 384 });
        assert_eq!(limits(None), limits(Some(u64::MAX)));
    }
}
