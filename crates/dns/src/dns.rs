//! The server of names, apart from its sockets: what a message is answered with.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use corten_base::Clock;
use parking_lot::RwLock;

use crate::cache::addressed;
use crate::forward::{Forwarder, Over};
use crate::message::{Answer, Code, Data, Limit, Query, Unanswerable, read};
use crate::metrics::{Asked, Metrics, Part};
use crate::resolve::{Domain, Resolved, resolve};
use crate::resolvers::Resolvers;
use crate::zone::Zone;
use crate::{Error, Name, Options};

pub struct Dns {
    domain: Domain,
    pub(crate) zone: RwLock<Zone>,
    /// Whether everything there was at the start has been seen.
    synced: AtomicBool,
    /// When the zone last changed, in seconds.
    serial: AtomicU32,
    forwarder: Forwarder,
    pub(crate) metrics: Metrics,
    clock: Clock,
}

/// How a message came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    pub(crate) over: Over,
    pub(crate) ipv6: bool,
    pub(crate) at: Instant,
}

/// What is known of an answer at once.
pub(crate) enum Now {
    Reply(Vec<u8>),
    /// None is due.
    Silence,
    /// It has to be asked for.
    Later(Later),
}

/// A question that somebody else has to be asked about.
pub(crate) struct Later {
    query: Query,
    message: Vec<u8>,
    came: Came,
    /// The answer so far, and what the rest of it is about.
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

    /// All that is counted, in Prometheus' text form.
    pub fn metrics(&self) -> String {
        self.metrics.text(&self.domain.name.to_string(), self.forwarder.cached_counts())
    }

    /// Everything there was at the start has been seen: what is not known is not there.
    pub(crate) fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Changes what there is.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.write());
        let now = u32::try_from(self.clock.now().as_second()).unwrap_or_default();
        self.serial.store(now, Ordering::Relaxed);
    }

    /// The answer from memory, if it is there.
    pub(crate) fn answer_now(&self, message: &[u8], came: Came) -> Now {
        let query = match read(message) {
            Ok(query) => query,
            Err(Unanswerable::Ignored) => return Now::Silence,
            Err(Unanswerable::Refused(reply)) => return Now::Reply(reply),
        };
        if !query.is_of_the_internet() {
            return self.reply(&query, &Answer::bare(Code::Refused), Part::Cluster, message, came);
        }
        let serial = self.serial.load(Ordering::Relaxed);
        let resolved = resolve(&self.zone.read(), &self.domain, &query.question, serial);
        match resolved {
            Resolved::Answered(mut answer) => {
                if answer.code == Code::NxDomain && !self.is_synced() {
                    answer.code = Code::ServFail;
                }
                turn(&mut answer, query.id);
                self.reply(&query, &answer, Part::Cluster, message, came)
            }
            Resolved::LeadsTo(answer, name) => {
                Now::Later(Later { query, message: Vec::new(), came, begun: Some((answer, name)) })
            }
            Resolved::Elsewhere => self.remembered(query, message, came),
        }
    }

    /// What somebody else said before.
    fn remembered(&self, query: Query, message: &[u8], came: Came) -> Now {
        if let Some(hit) = self.forwarder.cached(&query) {
            self.metrics.hit(hit.denial);
            let reply = addressed(hit.message, &query, limit(came.over));
            self.count(&query, Part::Elsewhere, message.len(), &reply, came);
            return Now::Reply(reply);
        }
        self.metrics.missed();
        Now::Later(Later { query, message: message.to_vec(), came, begun: None })
    }

    /// The answer that needs somebody else's.
    pub(crate) async fn answer_later(&self, later: Later) -> Vec<u8> {
        let Later { query, message, came, begun } = later;
        let reply = match begun {
            Some((mut answer, name)) => {
                match self.forwarder.look_up(&name, query.question.kind, &self.metrics).await {
                    Some(rest) => answer.records.extend(rest),
                    None => answer = Answer::bare(Code::ServFail),
                }
                query.reply(&answer, limit(came.over))
            }
            None => match self.forwarder.forward(&query, &message, came.over, &self.metrics).await {
                Ok(reply) => addressed(reply, &query, limit(came.over)),
                Err(error) => {
                    tracing::debug!(name = %query.question.name, %error, "a name could not be asked for");
                    query.reply(&Answer::bare(Code::ServFail), limit(came.over))
                }
            },
        };
        self.count(&query, Part::Elsewhere, message.len(), &reply, came);
        reply
    }

    fn reply(&self, query: &Query, answer: &Answer, part: Part, message: &[u8], came: Came) -> Now {
        let reply = query.reply(answer, limit(came.over));
        self.count(query, part, message.len(), &reply, came);
        Now::Reply(reply)
    }

    fn count(&self, query: &Query, part: Part, request: usize, reply: &[u8], came: Came) {
        self.metrics.asked(&Asked {
            part,
            kind: query.question.kind,
            tcp: came.over == Over::Tcp,
            ipv6: came.ipv6,
            request,
            reply: reply.len(),
            code: reply.get(3).copied().unwrap_or_default() & 0x0f,
            took: came.at.elapsed(),
        });
    }
}

fn limit(over: Over) -> Limit {
    match over {
        Over::Udp => Limit::Datagram,
        Over::Tcp => Limit::None,
    }
}

/// Each asker gets another address first, so that they do not all go to the same one.
fn turn(answer: &mut Answer, number: u16) {
    let only_addresses =
        answer.records.iter().all(|record| matches!(record.data, Data::A(_) | Data::Aaaa(_)));
    let count = answer.records.len();
    if count > 1 && only_addresses {
        answer.records.rotate_left(usize::from(number) % count);
    }
}
