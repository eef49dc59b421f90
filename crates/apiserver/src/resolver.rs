//! Addresses of host names, from the system's resolver.
//!
//! The system's resolver blocks, for minutes if a name's servers do not answer, and cannot be cancelled. Names are resolved
//! on few threads of their own, because the runtime's threads for blocking work also write files and handle large requests.
//! Lookups of one name share a thread, so that a slow name takes one.
//!
//! *Invariant:* a thread ends with its lookup; its place is free only then, also if nothing waits for the lookup any more.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower_service::Service;

/// The lookups that run at once.
const MOST: usize = 8;
/// The time after which a lookup that could not begin fails.
const WAIT: Duration = Duration::from_secs(30);

static RESOLVER: LazyLock<Arc<Resolver>> = LazyLock::new(|| Resolver::new(MOST, system));

/// The addresses of a host: of itself, if it is an address.
pub(crate) async fn lookup(host: &str) -> Result<Arc<[IpAddr]>, LookupError> {
    RESOLVER.lookup(host).await
}

/// A name that could not be resolved.
#[derive(Debug, Clone, thiserror::Error)]
#[error("dial tcp: lookup {host}: {why}")]
pub(crate) struct LookupError {
    host: String,
    why: String,
}

type Outcome = Result<Arc<[IpAddr]>, LookupError>;

struct Resolver {
    places: Arc<Semaphore>,
    /// The lookups that wait or run.
    running: Mutex<HashMap<String, watch::Receiver<Option<Outcome>>>>,
    system: fn(&str) -> io::Result<Vec<IpAddr>>,
}

/// A lookup of the resolver. It ends when it is dropped, at the latest.
struct Lookup {
    resolver: Arc<Resolver>,
    host: String,
    outcome: watch::Sender<Option<Outcome>>,
}

fn system(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl Resolver {
    fn new(places: usize, system: fn(&str) -> io::Result<Vec<IpAddr>>) -> Arc<Resolver> {
        Arc::new(Resolver { places: Arc::new(Semaphore::new(places)), running: Mutex::default(), system })
    }

    async fn lookup(self: &Arc<Resolver>, host: &str) -> Outcome {
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            return Ok([address].into());
        }
        let mut outcome = self.join(host);
        let found = match outcome.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        found.unwrap_or_else(|| Err(LookupError { host: host.to_owned(), why: "cancelled".to_owned() }))
    }

    /// The outcome of the lookup of a name, which begins if it does not run yet.
    fn join(self: &Arc<Resolver>, host: &str) -> watch::Receiver<Option<Outcome>> {
        let mut running = self.running.lock();
        if let Some(known) = running.get(host) {
            return known.clone();
        }
        let (sender, receiver) = watch::channel(None);
        running.insert(host.to_owned(), receiver.clone());
        drop(running);
        let lookup = Lookup { resolver: self.clone(), host: host.to_owned(), outcome: sender };
        tokio::spawn(lookup.run());
        receiver
    }
}

impl Lookup {
    /// Waits for a place and begins.
    async fn run(self) {
        let place = tokio::time::timeout(WAIT, self.resolver.places.clone().acquire_owned()).await;
        match place {
            Ok(Ok(place)) => self.begin(place),
            _ => self.end(Err("i/o timeout".to_owned())),
        }
    }

    fn begin(self, place: OwnedSemaphorePermit) {
        let thread = std::thread::Builder::new().name("resolver".to_owned());
        // If no thread can be created, the lookup is dropped, which ends it.
        let started = thread.spawn(move || {
            let found = (self.resolver.system)(&self.host);
            // Free before the outcome is known, so that the next lookup finds a place.
            drop(place);
            self.end(found.map_err(|error| reason(&error)));
        });
        if let Err(error) = started {
            tracing::warn!(err = %error, "cannot start a thread of the resolver; the lookup fails");
        }
    }

    /// Removes the lookup before its outcome is known, so that no later one is given an old outcome.
    fn end(self, found: Result<Vec<IpAddr>, String>) {
        let outcome = match found {
            Ok(found) if !found.is_empty() => Ok(found.into()),
            Ok(_) => Err("no such host".to_owned()),
            Err(why) => Err(why),
        };
        let outcome = outcome.map_err(|why| LookupError { host: self.host.clone(), why });
        let sender = self.outcome.clone();
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        self.resolver.running.lock().remove(&self.host);
    }
}

/// The reason of a failed lookup, as a Go client words it.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    match text {
        "Name or service not known" | "No address associated with hostname" => "no such host".to_owned(),
        "Temporary failure in name resolution" => "server misbehaving".to_owned(),
        other => other.to_owned(),
    }
}

/// The resolver of HTTP clients.
#[derive(Debug, Clone)]
pub(crate) struct Names;

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LookupError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(async move {
            let found = lookup(name.as_str()).await?;
            let addresses: Vec<SocketAddr> =
                found.iter().map(|address| SocketAddr::new(*address, 0)).collect();
            Ok(addresses.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex as StdMutex};

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;

    /// Lookups of these tests, and a gate that those of `slow` names wait at.
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    static GATE: (StdMutex<bool>, Condvar) = (StdMutex::new(false), Condvar::new());

    fn gated(host: &str) -> io::Result<Vec<IpAddr>> {
        if host.starts_with("slow") {
            LOOKUPS.fetch_add(1, Ordering::SeqCst);
            let is_open = GATE.0.lock().unwrap();
            drop(GATE.1.wait_while(is_open, |is_open| !*is_open).unwrap());
        }
        match host {
            "none" => {
                Err(io::Error::other("failed to lookup address information: Name or service not known"))
            }
            "empty" => Ok(Vec::new()),
            _ => Ok(vec![IpAddr::from([192, 0, 2, 1])]),
        }
    }

    #[tokio::test]
    async fn names_without_addresses_are_errors() {
        let resolver = Resolver::new(1, gated);
        for host in ["none", "empty"] {
            let error = resolver.lookup(host).await.unwrap_err();
            assert_eq!(error.to_string(), format!("dial tcp: lookup {host}: no such host"));
        }
        assert_eq!(*resolver.lookup("name").await.unwrap(), [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(resolver.lookup("[::1]").await.unwrap()[0].to_string(), "::1");
        assert!(resolver.running.lock().is_empty());
    }

    /// An attack: names whose servers never answer, asked for again and again.
    #[tokio::test]
    async fn slow_names_take_few_threads_and_none_of_the_runtime() {
        let resolver = Resolver::new(2, gated);
        let mut waiting = Vec::new();
        for round in 0..50 {
            for host in ["slow-a", "slow-b", "slow-c"] {
                let mut lookup = Box::pin({
                    let resolver = resolver.clone();
                    async move { resolver.lookup(host).await }
                });
                assert!(lookup.as_mut().now_or_never().is_none(), "{round}");
                waiting.push(lookup);
            }
        }
        assert_eq!(resolver.running.lock().len(), 3, "one for each name");
        while LOOKUPS.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        // All callers give up, and others ask: still no further thread.
        waiting.clear();
        let again = timeout(Duration::from_millis(1), resolver.lookup("slow-a")).await;
        assert!(again.is_err() && resolver.places.available_permits() == 0);
        assert_eq!(LOOKUPS.load(Ordering::SeqCst), 2, "the third waits for a place");
        // The runtime's own threads are free.
        assert_eq!(tokio::task::spawn_blocking(|| 1).await.unwrap(), 1);
        *GATE.0.lock().unwrap() = true;
        GATE.1.notify_all();
        for host in ["slow-a", "slow-b", "slow-c", "other"] {
            assert_eq!(resolver.lookup(host).await.unwrap().len(), 1, "{host}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_that_finds_no_place_fails() {
        let resolver = Resolver::new(0, gated);
        let error = resolver.lookup("name").await.unwrap_err();
        assert_eq!(error.to_string(), "dial tcp: lookup name: i/o timeout");
        assert!(resolver.running.lock().is_empty());
    }
}
