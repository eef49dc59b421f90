//! The limit of requests in flight. A request beyond it gets a `429`, rather than slowing down all others.
//!
//! Long-running requests (watches, logs, sessions) are not counted, and members of `system:masters` are never limited. Fair
//! queuing can replace [`Lanes::enter`]: it decides at the same point about the same request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corten_auth::{MASTERS, User};

use crate::request::RequestInfo;

/// The request limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests that only read; zero for no limit.
    pub read_only: usize,
    /// Requests that change something; zero for no limit.
    pub mutating: usize,
    /// The timeout of requests that are not long-running.
    pub request_timeout: Duration,
    /// The minimum duration of a watch.
    pub min_request_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            read_only: 400,
            mutating: 200,
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
        }
    }
}

/// The requests of one kind: read-only or mutating.
struct Lane {
    limit: usize,
    running: AtomicUsize,
    refused: AtomicUsize,
}

pub(crate) struct Lanes {
    read_only: Lane,
    mutating: Lane,
}

/// A request in flight, counted until it is dropped.
#[must_use]
pub(crate) struct Place<'a>(Option<&'a Lane>);

/// The limit is reached.
#[derive(Debug)]
pub(crate) struct Full;

impl Lane {
    fn new(limit: usize) -> Lane {
        Lane { limit, running: AtomicUsize::new(0), refused: AtomicUsize::new(0) }
    }

    fn enter(&self) -> bool {
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let next = |running: usize| (running < limit).then_some(running + 1);
        self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Lanes {
    pub(crate) fn new(limits: &Limits) -> Lanes {
        Lanes { read_only: Lane::new(limits.read_only), mutating: Lane::new(limits.mutating) }
    }

    /// Counts a request as in flight, if the limit allows it.
    pub(crate) fn enter(&self, user: &User, info: &RequestInfo) -> Result<Place<'_>, Full> {
        if is_long_running(info) {
            return Ok(Place(None));
        }
        let lane =
            if matches!(info.verb, "get" | "list" | "watch") { &self.read_only } else { &self.mutating };
        if lane.enter() {
            return Ok(Place(Some(lane)));
        }
        if user.is_in(MASTERS) {
            return Ok(Place(None));
        }
        lane.refused.fetch_add(1, Ordering::Relaxed);
        Err(Full)
    }

    /// Per kind: its name, the requests in flight, and the requests that were rejected.
    pub(crate) fn counts(&self) -> [(&'static str, usize, usize); 2] {
        [("mutating", &self.mutating), ("readOnly", &self.read_only)].map(|(name, lane)| {
            (name, lane.running.load(Ordering::Relaxed), lane.refused.load(Ordering::Relaxed))
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.0 {
            lane.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// True for long-running requests, which last as long as their client wants.
pub(crate) fn is_long_running(info: &RequestInfo) -> bool {
    let subresource = info.resource.as_ref().map_or("", |at| at.subresource.as_str());
    matches!(info.verb, "watch" | "proxy")
        || matches!(subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::request;

    fn info(method: &Method, path: &str) -> RequestInfo {
        request::parse(method, path, path.ends_with("watch")).unwrap()
    }

    #[test]
    fn places() {
        let lanes = Lanes::new(&Limits { read_only: 2, mutating: 1, ..Limits::default() });
        let (alice, admin) = (User::default(), User { groups: vec![MASTERS.into()], ..User::default() });
        let get = info(&Method::GET, "/api/v1/namespaces/n/pods/p");
        let post = info(&Method::POST, "/api/v1/namespaces/n/pods");
        let first = lanes.enter(&alice, &get).ok();
        let second = lanes.enter(&alice, &info(&Method::GET, "/healthz")).ok();
        assert!(first.is_some() && second.is_some());
        assert!(lanes.enter(&alice, &get).is_err(), "a third reader");
        assert!(lanes.enter(&admin, &get).is_ok(), "masters always get an answer");
        let log = info(&Method::GET, "/api/v1/namespaces/n/pods/p/log");
        assert!(lanes.enter(&alice, &log).is_ok(), "sessions are not counted");
        let writer = lanes.enter(&alice, &post).ok();
        assert!(writer.is_some() && lanes.enter(&alice, &post).is_err(), "writers have their own");
        assert_eq!(lanes.counts(), [("mutating", 1, 1), ("readOnly", 2, 1)]);
        drop(first);
        assert!(lanes.enter(&alice, &get).is_ok(), "a place is given back");
    }

    #[test]
    fn no_limit() {
        let lanes = Lanes::new(&Limits { read_only: 0, mutating: 0, ..Limits::default() });
        let get = info(&Method::GET, "/version");
        let places: Vec<_> = (0..1000).map(|_| lanes.enter(&User::default(), &get).ok()).collect();
        assert!(places.iter().all(Option::is_some));
    }
}
