//! The requests of machines that join as further servers. They come before authentication, because such a machine has no
//! identity in the cluster yet; [`ServerJoins`] decides whether it may have the cluster's keys.
//!
//! Invariants: a request takes little memory and time, also from an attacker; an address that is refused again and again has to wait;
//! each answer is logged with the address, the others' reasons too.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;

use crate::respond::{self, Answer};

/// The path of these requests: GET returns the cluster's CA, POST the cluster's keys.
pub const SERVER_JOIN: &str = "/corten.io/v1/server-join";
const MAX_BODY: usize = 4 << 10;
const DEADLINE: Duration = Duration::from_secs(10);
/// The refusals of one address in a period.
const MAX_REFUSALS: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);
/// The addresses whose refusals are counted.
const MAX_ADDRESSES: usize = 1024;

/// Decides about machines that join as servers.
pub trait ServerJoins: Send + Sync {
    /// The cluster's CA in PEM, which is public.
    fn authority(&self) -> String;

    /// The response to a request, or the reason why it is refused, for the machine that asks.
    fn admit(&self, request: &[u8]) -> Result<Vec<u8>, String>;
}

/// The endpoint, with the refusals of the last minute.
pub(crate) struct JoinEndpoint {
    joins: Arc<dyn ServerJoins>,
    refusals: Mutex<Refusals>,
}

impl JoinEndpoint {
    pub(crate) fn new(joins: Arc<dyn ServerJoins>) -> JoinEndpoint {
        JoinEndpoint { joins, refusals: Mutex::default() }
    }

    pub(crate) async fn answer(&self, request: Request<Incoming>, remote: Option<IpAddr>) -> Answer {
        let Some(remote) = remote else { return respond::text(403, "the address is unknown\n") };
        match *request.method() {
            Method::GET => respond::bytes(200, "application/x-pem-file", self.joins.authority().into_bytes()),
            Method::POST => self.admit(request, remote).await,
            _ => respond::text(405, "method not allowed\n"),
        }
    }

    async fn admit(&self, request: Request<Incoming>, remote: IpAddr) -> Answer {
        if self.refusals.lock().is_over(remote, Instant::now()) {
            tracing::warn!(address = %remote, "too many refused requests to join as a server");
            return respond::text(429, "too many refused requests; try again in a minute\n");
        }
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body = match tokio::time::timeout(DEADLINE, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            _ => return respond::text(400, "the request cannot be read\n"),
        };
        let joins = self.joins.clone();
        // The keys are read from files.
        let admitted = tokio::task::spawn_blocking(move || joins.admit(&body)).await;
        match admitted {
            Ok(Ok(response)) => {
                tracing::warn!(address = %remote, "handed the cluster's keys to a machine that joins as a server");
                respond::bytes(200, "application/json", response)
            }
            Ok(Err(why)) => {
                self.refusals.lock().count(remote, Instant::now());
                tracing::warn!(address = %remote, reason = why, "refused a machine that joins as a server");
                respond::text(403, format!("{why}\n"))
            }
            Err(_) => respond::text(500, "the request could not be handled\n"),
        }
    }
}

/// The refusals of addresses, each since the first of its period.
#[derive(Default)]
struct Refusals(HashMap<IpAddr, (u32, Instant)>);

impl Refusals {
    /// True if an address has to wait. So have unknown ones while too many addresses are counted.
    fn is_over(&self, address: IpAddr, now: Instant) -> bool {
        match self.0.get(&network(address)) {
            Some((count, since)) => *count >= MAX_REFUSALS && now.duration_since(*since) < PERIOD,
            None => {
                self.0.len() >= MAX_ADDRESSES
                    && self.0.values().all(|(_, since)| now.duration_since(*since) < PERIOD)
            }
        }
    }

    fn count(&mut self, address: IpAddr, now: Instant) {
        self.0.retain(|_, (_, since)| now.duration_since(*since) < PERIOD);
        let counted = self.0.len();
        match self.0.get_mut(&network(address)) {
            Some((count, _)) => *count += 1,
            None if counted < MAX_ADDRESSES => drop(self.0.insert(network(address), (1, now))),
            None => {}
        }
    }
}

/// The part of an address that one client cannot change: 64 bits of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_waits_after_refusals() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let at = |text: &str| -> IpAddr { text.parse().unwrap() };
        for _ in 0..MAX_REFUSALS {
            assert!(!refusals.is_over(at("2001:db8::1"), start));
            refusals.count(at("2001:db8::1"), start);
        }
        assert!(refusals.is_over(at("2001:db8::2"), start), "the same network");
        assert!(!refusals.is_over(at("2001:db8:0:1::1"), start) && !refusals.is_over(at("192.0.2.1"), start));
        assert!(!refusals.is_over(at("2001:db8::1"), start + PERIOD));
    }

    #[test]
    fn the_addresses_are_bounded() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for number in 0..2 * MAX_ADDRESSES as u32 {
            refusals.count(IpAddr::from(number.to_be_bytes()), start);
        }
        assert_eq!(refusals.0.len(), MAX_ADDRESSES);
        let unknown: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(refusals.is_over(unknown, start));
        refusals.count(unknown, start + PERIOD);
        assert_eq!(refusals.0.len(), 1);
        assert!(!refusals.is_over(unknown, start + PERIOD));
    }
}
