//! Asks the node's own resolvers what is not the cluster's, and remembers what they said.
//!
//! Every question goes out from a port of its own under a number of its own, both by chance, and only an answer to that very
//! question from that very server is taken: so nobody else can slip one in.

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
use crate::passed::Passed;
use crate::resolvers::Resolvers;

/// How long one server has to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often all servers are asked. Askers themselves wait for five seconds.
const ROUNDS: usize = 2;
const LARGEST: usize = 4096;
/// How many questions may be waiting for answers.
const MOST_WAITING: usize = 1000;

/// Over what a question is passed on: what it came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Udp,
    Tcp,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("this node has no resolvers")]
    NoResolvers,
    #[error("too many questions are waiting")]
    TooMany,
    #[error("no resolver answered")]
    Unanswered(#[source] io::Error),
}

pub(crate) struct Forwarder {
    resolvers: Resolvers,
    /// Which of them answered last.
    preferred: AtomicUsize,
    cache: Mutex<Cache>,
    waiting: Semaphore,
    clock: Clock,
}

impl Forwarder {
    pub(crate) fn new(resolvers: Resolvers, clock: Clock) -> Forwarder {
        Forwarder {
            resolvers,
            preferred: AtomicUsize::new(0),
            cache: Mutex::default(),
            waiting: Semaphore::new(MOST_WAITING),
            clock,
        }
    }

    pub(crate) fn cached(&self, query: &Query) -> Option<Hit> {
        self.cache.lock().get(&Key::of(query), self.clock.now())
    }

    pub(crate) fn cached_counts(&self) -> (usize, usize) {
        self.cache.lock().counts()
    }

    /// Passes a question on as it came; the answer, under a number that is not the asker's.
    pub(crate) async fn forward(
        &self,
        query: &Query,
        message: &[u8],
        over: Over,
        metrics: &Metrics,
    ) -> Result<Vec<u8>, Failed> {
        let (answer, passed) = self.ask(&query.question, message, over, metrics).await?;
        self.cache.lock().put(Key::of(query), &answer, &passed, self.clock.now());
        Ok(answer)
    }

    /// What a name elsewhere leads to; nothing if nobody knows.
    pub(crate) async fn look_up(&self, name: &Name, kind: u16, metrics: &Metrics) -> Option<Vec<Record>> {
        let question = Question { name: name.lowered(), kind };
        let key = Key::plain(question.clone());
        let hit = self.cache.lock().get(&key, self.clock.now());
        if let Some(hit) = hit {
            return Passed::read(&hit.message).map(|passed| passed.records);
        }
        let message = Query::question_of(name, kind, 0);
        let asked = match self.ask(&question, &message, Over::Udp, metrics).await {
            Ok((_, passed)) if passed.truncated => self.ask(&question, &message, Over::Tcp, metrics).await,
            asked => asked,
        };
        let (answer, passed) = asked.ok()?;
        self.cache.lock().put(key, &answer, &passed, self.clock.now());
        Some(passed.records)
    }

    /// Asks one server after the other, the one that answered last first.
    async fn ask(
        &self,
        question: &Question,
        message: &[u8],
        over: Over,
        metrics: &Metrics,
    ) -> Result<(Vec<u8>, Passed), Failed> {
        let _waiting = self.waiting.try_acquire().map_err(|_| Failed::TooMany)?;
        let servers = self.resolvers.current();
        if servers.is_empty() {
            return Err(Failed::NoResolvers);
        }
        let first = self.preferred.load(Ordering::Relaxed);
        let mut failure = io::Error::from(io::ErrorKind::TimedOut);
        let mut refused = None;
        for turn in 0..servers.len() * ROUNDS {
            let at = (first + turn) % servers.len();
            let began = Instant::now();
            let asked = exchange(servers[at], question, message, over);
            match timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                // Another one may know; if none does, this is the answer.
                Ok((answer, passed)) if passed.is_failure() && turn + 1 < servers.len() => {
                    metrics.forwarded(servers[at], passed.code_name(), began.elapsed());
                    refused = Some((answer, passed));
                }
                Ok((answer, passed)) => {
                    metrics.forwarded(servers[at], passed.code_name(), began.elapsed());
                    self.preferred.store(at, Ordering::Relaxed);
                    return Ok((answer, passed));
                }
                Err(error) => {
                    metrics.forwarded(servers[at], "SERVFAIL", began.elapsed());
                    failure = error;
                }
            }
        }
        refused.ok_or(Failed::Unanswered(failure))
    }
}

/// One question, one answer.
async fn exchange(
    server: SocketAddr,
    question: &Question,
    message: &[u8],
    over: Over,
) -> io::Result<(Vec<u8>, Passed)> {
    let id = random_number()?;
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
) -> io::Result<(Vec<u8>, Passed)> {
    let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(message).await?;
    let mut buffer = vec![0; LARGEST];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(passed) = answer_to(question, message, &buffer[..length]) {
            buffer.truncate(length);
            return Ok((buffer, passed));
        }
    }
}

async fn exchange_streamed(
    server: SocketAddr,
    question: &Question,
    message: &[u8],
) -> io::Result<(Vec<u8>, Passed)> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await?;
    let passed = answer_to(question, message, &answer).ok_or(io::ErrorKind::InvalidData)?;
    Ok((answer, passed))
}

/// The answer, if it is one to this very question.
fn answer_to(question: &Question, asked: &[u8], answer: &[u8]) -> Option<Passed> {
    let same_number = asked.get(..2)? == answer.get(..2)?;
    Passed::read(answer).filter(|passed| same_number && passed.question == *question)
}

fn random_number() -> io::Result<[u8; 2]> {
    let mut number = [0; 2];
    getrandom::fill(&mut number).map_err(io::Error::other)?;
    Ok(number)
}
