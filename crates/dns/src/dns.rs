//! The DNS server without its sockets: computes the response to a message.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use corten_base::Clock;
use parking_lot::RwLock;

use crate::cache::readdressed;
use crate::forward::{Forwarder, Over};
use crate::message::{Answer, Code, Data, Limit, Query, Unanswerable, read};
use crate::metrics::{Exchange, Metrics, Part};
use crate::resolve::{Domain, Resolved, resolve};
use crate::resolvers::Resolvers;
use crate::zone::Zone;
use crate::{Error, Name, Options};

pub struct Dns {
    domain: Domain,
    pub(crate) zone: RwLock<Zone>,
    /// True once the caches have synced.
    synced: AtomicBool,
    /// The time of the zone's last change, in seconds: the serial of its SOA record.
    serial: AtomicU32,
    forwarder: Forwarder,
    pub(crate) metrics: Metrics,
    clock: Clock,
}

/// The transport and the time of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) over: Over,
    pub(crate) ipv6: bool,
    pub(crate) at: Instant,
}

/// The response, if it can be given from memory.
pub(crate) enum Immediate {
    Reply(Vec<u8>),
    /// The message gets no response.
    Ignore,
    /// A resolver has to be queried first.
    Pending(Pending),
}

/// A query whose response needs an upstream resolver.
pub(crate) struct Pending {
    query: Query,
    message: Vec<u8>,
    received: Received,
    /// The answer so far, and the name outside the cluster that has the rest of it.
    begun: Option<(Answer, Name)>,
}

impl Dns {
    pub fn new(options: &Options, clock: Clock) -> Result<Dns, Error> {
        let name = Name::parse(&options.domain).ok_or_else(|| Error::Domain(options.domain.clone()))?;
        let resolvers = Resolvers::new(options.resolv_conf.clone(), options.addresses.clone());
        Ok(Dns {
            domain: Domain { name: name.lowered(), servers: options.addresses.clone() },
            zone: RwLock::default(),
            synced: AtomicBool::new(false),
            serial: AtomicU32::new(0),
            forwarder: Forwarder::new(resolvers, clock.clone()),
            metrics: Metrics::default(),
            clock,
        })
    }

    /// All metrics in Prometheus' text format.
    pub fn metrics(&self) -> String {
        self.metrics.text(&self.domain.name.to_string(), self.forwarder.cached_counts())
    }

    /// Marks the zone as complete: from now on a name without records is NXDOMAIN, and no longer SERVFAIL.
    pub(crate) fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Changes the zone, and its serial.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.write());
        let now = u32::try_from(self.clock.now().as_second()).unwrap_or_default();
        self.serial.store(now, Ordering::Relaxed);
    }

    /// Returns the response from the zone or the cache, or the query as pending.
    pub(crate) fn answer_from_memory(&self, message: &[u8], received: Received) -> Immediate {
        let query = match read(message) {
            Ok(query) => query,
            Err(Unanswerable::Ignored) => return Immediate::Ignore,
            Err(Unanswerable::Refused(reply)) => return Immediate::Reply(reply),
        };
        if !query.is_internet_class() {
            return self.reply(&query, &Answer::bare(Code::Refused), Part::Cluster, message, received);
        }
        let serial = self.serial.load(Ordering::Relaxed);
        let resolved = resolve(&self.zone.read(), &self.domain, &query.question, serial);
        match resolved {
            Resolved::Answered(mut answer) => {
                if answer.code == Code::NxDomain && !self.is_synced() {
                    answer.code = Code::ServFail;
                }
                rotate(&mut answer, query.id);
                self.reply(&query, &answer, Part::Cluster, message, received)
            }
            Resolved::Continues(answer, name) => Immediate::Pending(Pending {
                query,
                message: Vec::new(),
                received,
                begun: Some((answer, name)),
            }),
            Resolved::External => self.cached(query, message, received),
        }
    }

    /// Returns the cached response of an upstream resolver, or the query as pending.
    fn cached(&self, query: Query, message: &[u8], received: Received) -> Immediate {
        if let Some(hit) = self.forwarder.cached(&query) {
            self.metrics.hit(hit.denial);
            let reply = readdressed(hit.message, &query, limit(received.over));
            self.count(&query, Part::Forwarded, message.len(), &reply, received);
            return Immediate::Reply(reply);
        }
        self.metrics.miss();
        Immediate::Pending(Pending { query, message: message.to_vec(), received, begun: None })
    }

    /// Queries upstream resolvers and returns the response.
    pub(crate) async fn answer_pending(&self, pending: Pending) -> Vec<u8> {
        let Pending { query, message, received, begun } = pending;
        let reply = match begun {
            Some((mut answer, name)) => {
                match self.forwarder.look_up(&name, query.question.kind, &self.metrics).await {
                    Some(rest) => answer.records.extend(rest),
                    None => answer = Answer::bare(Code::ServFail),
                }
                query.reply(&answer, limit(received.over))
            }
            None => match self.forwarder.forward(&query, &message, received.over, &self.metrics).await {
                Ok(reply) => readdressed(reply, &query, limit(received.over)),
                Err(err) => {
                    tracing::debug!(name = %query.question.name, %err, "forwarding of DNS query failed");
                    query.reply(&Answer::bare(Code::ServFail), limit(received.over))
                }
            },
        };
        self.count(&query, Part::Forwarded, message.len(), &reply, received);
        reply
    }

    fn reply(
        &self,
        query: &Query,
        answer: &Answer,
        part: Part,
        message: &[u8],
        received: Received,
    ) -> Immediate {
        let reply = query.reply(answer, limit(received.over));
        self.count(query, part, message.len(), &reply, received);
        Immediate::Reply(reply)
    }

    fn count(&self, query: &Query, part: Part, request: usize, reply: &[u8], received: Received) {
        self.metrics.record(&Exchange {
            part,
            kind: query.question.kind,
            tcp: received.over == Over::Tcp,
            ipv6: received.ipv6,
            request,
            reply: reply.len(),
            code: reply.get(3).copied().unwrap_or_default() & 0x0f,
            took: received.at.elapsed(),
        });
    }
}

fn limit(over: Over) -> Limit {
    match over {
        Over::Udp => Limit::Datagram,
        Over::Tcp => Limit::None,
    }
}

/// Rotates the addresses by the query's ID, so that clients do not all use the same one.
fn rotate(answer: &mut Answer, id: u16) {
    let only_addresses =
        answer.records.iter().all(|record| matches!(record.data, Data::A(_) | Data::Aaaa(_)));
    let count = answer.records.len();
    if count > 1 && only_addresses {
        answer.records.rotate_left(usize::from(id) % count);
    }
}
