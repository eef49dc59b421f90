//! Forwards queries that are not about the cluster to the node's own resolvers, and caches their responses.
//!
//! Every query is sent from a random port with a random ID, and only a response to the same question from the same server is
//! accepted: so an attacker off the path cannot inject one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use corten_base::Clock;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::cache::{Cache, Hit, Key};
use crate::message::{Query, Question, Record};
use crate::metrics::Metrics;
use crate::name::Name;
use crate::resolvers::Resolvers;
use crate::upstream::UpstreamResponse;

/// The timeout of one resolver.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The number of attempts with each resolver. Clients themselves time out after five seconds.
const ROUNDS: usize = 2;
const LARGEST: usize = 4096;
/// The limit of queries that wait for responses.
const MAX_PENDING: usize = 1000;

/// The transport of a query. It is forwarded over the transport that it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the node has no resolvers")]
    NoResolvers,
    #[error("too many pending DNS queries")]
    TooMany,
    #[error("no resolver responded")]
    Unanswered(#[source] io::Error),
}

pub(crate) struct Forwarder {
    resolvers: Resolvers,
    /// The index of the resolver that answered last.
    preferred: AtomicUsize,
    cache: Mutex<Cache>,
    pending: Semaphore,
    clock: Clock,
}

impl Forwarder {
    pub(crate) fn new(resolvers: Resolvers, clock: Clock) -> Forwarder {
        Forwarder {
            resolvers,
            preferred: AtomicUsize::new(0),
            cache: Mutex::default(),
            pending: Semaphore::new(MAX_PENDING),
            clock,
        }
    }

    pub(crate) fn cached(&self, query: &Query) -> Option<Hit> {
        self.cache.lock().get(&Key::of(query), self.clock.now())
    }

    pub(crate) fn cached_counts(&self) -> (usize, usize) {
        self.cache.lock().counts()
    }

    /// Forwards a query as it came. The ID of the returned response is not the client's.
    pub(crate) async fn forward(
        &self,
        query: &Query,
        message: &[u8],
        over: Over,
        metrics: &Metrics,
    ) -> Result<Vec<u8>, Error> {
        let (answer, upstream) = self.query_resolvers(&query.question, message, over, metrics).await?;
        self.cache.lock().put(Key::of(query), &answer, &upstream, self.clock.now());
        Ok(answer)
    }

    /// The records of a name outside the cluster; `None` if no resolver answers.
    pub(crate) async fn look_up(&self, name: &Name, kind: u16, metrics: &Metrics) -> Option<Vec<Record>> {
        let question = Question { name: name.lowered(), kind };
        let key = Key::plain(question.clone());
        let hit = self.cache.lock().get(&key, self.clock.now());
        if let Some(hit) = hit {
            return UpstreamResponse::read(&hit.message).map(|upstream| upstream.records);
        }
        let message = Query::encode_question(name, kind, 0);
        let response = match self.query_resolvers(&question, &message, Over::Udp, metrics).await {
            Ok((_, upstream)) if upstream.truncated => {
                self.query_resolvers(&question, &message, Over::Tcp, metrics).await
            }
            response => response,
        };
        let (answer, upstream) = response.ok()?;
        self.cache.lock().put(key, &answer, &upstream, self.clock.now());
        Some(upstream.records)
    }

    /// Queries one resolver after the other, beginning with the one that answered last.
    async fn query_resolvers(
        &self,
        question: &Question,
        message: &[u8],
        over: Over,
        metrics: &Metrics,
    ) -> Result<(Vec<u8>, UpstreamResponse), Error> {
        let _pending = self.pending.try_acquire().map_err(|_| Error::TooMany)?;
        let servers = self.resolvers.current();
        if servers.is_empty() {
            return Err(Error::NoResolvers);
        }
        let first = self.preferred.load(Ordering::Relaxed);
        let mut failure = io::Error::from(io::ErrorKind::TimedOut);
        let mut refused = None;
        for turn in 0..servers.len() * ROUNDS {
            let at = (first + turn) % servers.len();
            let began = Instant::now();
            let exchange = exchange(servers[at], question, message, over);
            match timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                // Another resolver may know; if none does, this is the response.
                Ok((answer, upstream)) if upstream.is_failure() && turn + 1 < servers.len() => {
                    metrics.forwarded(servers[at], upstream.code_name(), began.elapsed());
                    refused = Some((answer, upstream));
                }
                Ok((answer, upstream)) => {
                    metrics.forwarded(servers[at], upstream.code_name(), began.elapsed());
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok((answer, upstream));
                }
                Err(error) => {
                    metrics.forwarded(servers[at], "SERVFAIL", began.elapsed());
                    failure = error;
                }
            }
        }
        refused.ok_or(Error::Unanswered(failure))
    }
}

/// Sends a query to one resolver and returns its response.
async fn exchange(
    server: SocketAddr,
    question: &Question,
    message: &[u8],
    over: Over,
) -> io::Result<(Vec<u8>, UpstreamResponse)> {
    let id = random_id()?;
    let mut message = message.to_vec();
    message.get_mut(..2).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(&id);
    match over {
        Over::Udp => exchange_datagrams(server, question, &message).await,
        Over::Tcp => exchange_streamed(server, question, &message).await,
    }
}

async fn exchange_datagrams(
    server: SocketAddr,
    question: &Question,
    message: &[u8],
) -> io::Result<(Vec<u8>, UpstreamResponse)> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(message).await?;
    let mut buffer = vec![0; LARGEST];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(upstream) = response_to(question, message, &buffer[..length]) {
            buffer.truncate(length);
            return Ok((buffer, upstream));
        }
    }
}

async fn exchange_streamed(
    server: SocketAddr,
    question: &Question,
    message: &[u8],
) -> io::Result<(Vec<u8>, UpstreamResponse)> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    let upstream = response_to(question, message, &answer).ok_or(io::ErrorKind::InvalidData)?;
    Ok((answer, upstream))
}

/// Decodes a response, if it is one to this query: with its ID and its question.
fn response_to(question: &Question, query: &[u8], response: &[u8]) -> Option<UpstreamResponse> {
    let same_id = query.get(..2)? == response.get(..2)?;
    UpstreamResponse::read(response).filter(|upstream| same_id && upstream.question == *question)
}

fn random_id() -> io::Result<[u8; 2]> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(id)
}
