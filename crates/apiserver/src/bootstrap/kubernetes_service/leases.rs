//! The records by which API servers that share a datastore know each other: upstream's keys below `/registry/masterleases/`,
//! each an Endpoints object with one server's address that a lease holds. So a kube-apiserver on the same etcd counts this
//! server, and this server counts it.
//!
//! Invariants: a server that does not renew its lease for [`TTL`] is not listed any longer; after [`OwnLease::end`] this server
//! is never listed again. Upstream's records name no port, because all servers of upstream have the same one.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use corten_api::{Value, json, value};
use corten_store::{Error, Expect, LeaseId, NewValue, Op, Store};
use tokio::sync::Mutex;

pub(super) const PREFIX: &str = "/registry/masterleases/";
/// The period of renewals, upstream's.
pub(super) const PERIOD: Duration = Duration::from_secs(10);
/// The time after which a server that does not renew its lease counts as gone, upstream's.
const TTL: Duration = Duration::from_secs(15);

/// The lease of this server's record.
#[derive(Default)]
pub(crate) struct OwnLease(Mutex<State>);

#[derive(Default, Clone, Copy)]
enum State {
    #[default]
    None,
    Held(LeaseId),
    Ended,
}

impl OwnLease {
    /// Renews the lease, and writes the record if it is missing or was written by another server with this address. Returns
    /// false if this server is not to be listed any longer.
    pub(super) async fn renew(&self, store: &Store, at: SocketAddr) -> Result<bool, Error> {
        let mut state = self.0.lock().await;
        let renewed = match *state {
            State::Ended => return Ok(false),
            State::None => Err(Error::UnknownLease),
            State::Held(lease) => store.keep_alive(lease).await.map(|()| lease),
        };
        let lease = match renewed {
            Err(Error::UnknownLease) => store.grant(TTL).await?,
            renewed => renewed?,
        };
        *state = State::Held(lease);
        let key = format!("{PREFIX}{}", at.ip());
        if store.get(&key).is_some_and(|entry| entry.lease == Some(lease)) {
            return Ok(true);
        }
        let value = NewValue::from(json::write_to_string(&record(at)).into_bytes());
        let op = Op::Put { key: key.into(), expect: Expect::Any, value, lease: Some(lease) };
        store.commit(op.into()).await.map(|_| true)
    }

    /// Removes the record, unless another server with this address has written it.
    pub(super) async fn end(&self, store: &Store) -> Result<(), Error> {
        let mut state = self.0.lock().await;
        match std::mem::replace(&mut *state, State::Ended) {
            State::Held(lease) => match store.revoke(lease).await {
                Err(Error::UnknownLease) => Ok(()),
                revoked => revoked,
            },
            State::None | State::Ended => Ok(()),
        }
    }
}

/// The addresses of the living servers. A record without a port has that of the first record with one, which is the same for
/// all servers, or this server's own.
pub(super) fn living(store: &Store, own_port: u16) -> Vec<SocketAddr> {
    let records = store.range(PREFIX, PREFIX, 0).entries;
    let records = records.iter().filter_map(|entry| json::parse(&entry.value).ok());
    let found: Vec<(IpAddr, Option<u16>)> = records.flat_map(|record| addresses(&record)).collect();
    let default = found.iter().find_map(|(_, port)| *port).unwrap_or(own_port);
    found.into_iter().map(|(ip, port)| SocketAddr::new(ip, port.unwrap_or(default))).collect()
}

fn record(at: SocketAddr) -> Value {
    let mut port = value!({"name": "https", "protocol": "TCP"});
    port.set(&["port"], i64::from(at.port()));
    value!({
        "kind": "Endpoints", "apiVersion": "v1", "metadata": {},
        "subsets": [{"addresses": [{"ip": (at.ip().to_string())}], "ports": [(port)]}],
    })
}

/// The addresses of a record, with their port if it has one.
fn addresses(record: &Value) -> Vec<(IpAddr, Option<u16>)> {
    let mut found = Vec::new();
    for subset in record.items_at(&["subsets"]) {
        let port = subset.items_at(&["ports"]).first().and_then(|port| port.int_at(&["port"]));
        let port = port.and_then(|port| u16::try_from(port).ok());
        let addresses = subset.items_at(&["addresses"]).iter();
        let addresses = addresses.filter_map(|address| address.str_at(&["ip"])?.parse::<IpAddr>().ok());
        found.extend(addresses.map(|address| (address, port)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_are_written_and_as_upstream_writes_them() {
        let at: SocketAddr = "192.0.2.1:7443".parse().unwrap();
        assert_eq!(addresses(&record(at)), [(at.ip(), Some(7443))]);
        let upstream = value!({"subsets": [{"addresses": [{"ip": "192.0.2.2"}]}]});
        assert_eq!(addresses(&upstream), [("192.0.2.2".parse().unwrap(), None)]);
        for broken in [
            Value::Null,
            value!({"subsets": [{"addresses": [{"ip": "host"}]}]}),
            value!({"subsets": [{"ports": [{"port": 1}]}]}),
        ] {
            assert!(addresses(&broken).is_empty(), "{broken:?}");
        }
    }

    #[tokio::test]
    async fn a_server_is_listed_until_it_ends_its_lease() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), corten_store::Options::default()).unwrap();
        let (one, other) = (OwnLease::default(), OwnLease::default());
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        assert!(one.renew(&store, at("192.0.2.1:6443")).await.unwrap());
        assert!(other.renew(&store, at("192.0.2.2:7443")).await.unwrap());
        assert_eq!(living(&store, 1), [at("192.0.2.1:6443"), at("192.0.2.2:7443")]);
        let written = store.revision();
        one.renew(&store, at("192.0.2.1:6443")).await.unwrap();
        assert_eq!(store.revision(), written, "a renewal writes nothing");
        other.end(&store).await.unwrap();
        assert_eq!(living(&store, 1), [at("192.0.2.1:6443")]);
        assert!(!other.renew(&store, at("192.0.2.2:7443")).await.unwrap());
        assert_eq!(living(&store, 1).len(), 1, "a server that ended is not listed again");
        // A server that was started again on the same address has the record: the end of the earlier one leaves it.
        let again = OwnLease::default();
        again.renew(&store, at("192.0.2.1:6443")).await.unwrap();
        one.end(&store).await.unwrap();
        assert_eq!(living(&store, 1).len(), 1, "a successor starts without a record");
        again.renew(&store, at("192.0.2.1:6443")).await.unwrap();
        assert_eq!(living(&store, 1), [at("192.0.2.1:6443")]);
    }
}
