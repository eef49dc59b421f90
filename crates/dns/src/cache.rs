//! The cache of upstream responses: each for as long as its TTL allows, at most half a minute.
//!
//! There are two generations: when the young one is full it becomes the old one, and the old one is dropped. So the cache
//! never grows past its bound, and no task has to remove expired responses.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::message::{Limit, Query, Question};
use crate::upstream::UpstreamResponse;

/// The longest time that a response is cached, in seconds, as with CoreDNS' usual `cache 30`.
const LONGEST: u32 = 30;
/// The number of responses in a generation.
const GENERATION: usize = 5000;

/// Everything of a query that its response depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    question: Question,
    edns: bool,
    dnssec: bool,
    checking_disabled: bool,
}

impl Key {
    pub(crate) fn of(query: &Query) -> Key {
        let question = Question { name: query.question.name.lowered(), kind: query.question.kind };
        Key {
            question,
            edns: query.edns.is_some(),
            dnssec: query.edns.is_some_and(|edns| edns.dnssec),
            checking_disabled: query.checking_disabled(),
        }
    }

    /// The key of a query that this server makes itself, for the target of a CNAME.
    pub(crate) fn plain(question: Question) -> Key {
        Key { question, edns: false, dnssec: false, checking_disabled: false }
    }
}

#[derive(Debug)]
struct Cached {
    message: Vec<u8>,
    ttl_offsets: Vec<usize>,
    since: Timestamp,
    seconds: u32,
    denial: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Cache {
    young: HashMap<Key, Cached>,
    old: HashMap<Key, Cached>,
}

/// A response from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) message: Vec<u8>,
    pub(crate) denial: bool,
}

impl Cache {
    /// Returns the response with its TTLs reduced by its age.
    pub(crate) fn get(&self, key: &Key, now: Timestamp) -> Option<Hit> {
        let cached = self.young.get(key).or_else(|| self.old.get(key))?;
        let age = u32::try_from(now.duration_since(cached.since).as_secs()).ok()?;
        if age >= cached.seconds {
            return None;
        }
        let mut message = cached.message.clone();
        for at in &cached.ttl_offsets {
            let ttl = message.get_mut(*at..*at + 4)?;
            let was = u32::from_be_bytes(<[u8; 4]>::try_from(&*ttl).ok()?);
            ttl.copy_from_slice(&was.saturating_sub(age).to_be_bytes());
        }
        Some(Hit { message, denial: cached.denial })
    }

    pub(crate) fn put(&mut self, key: Key, message: &[u8], upstream: &UpstreamResponse, now: Timestamp) {
        let Some(seconds) = upstream.cache_seconds() else { return };
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        let cached = Cached {
            message: message.to_vec(),
            ttl_offsets: upstream.ttl_offsets.clone(),
            since: now,
            seconds: seconds.min(LONGEST),
            denial: upstream.is_denial(),
        };
        self.young.insert(key, cached);
    }

    /// The numbers of cached positive and negative responses.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = || self.young.values().chain(self.old.values());
        let denials = all().filter(|cached| cached.denial).count();
        (all().count() - denials, denials)
    }
}

/// Makes an upstream response the response to this query: with the query's ID and the spelling of its name, and truncated if
/// it is longer than the client accepts.
pub(crate) fn readdressed(mut message: Vec<u8>, query: &Query, limit: Limit) -> Vec<u8> {
    const HEADER: usize = 12;
    let name = query.question.name.wire();
    if message.len() < HEADER + name.len() {
        return message;
    }
    message[..2].copy_from_slice(&query.id.to_be_bytes());
    message[HEADER..HEADER + name.len()].copy_from_slice(name);
    if message.len() > query.limit(limit) {
        message.truncate(HEADER + name.len() + 4);
        message[2] |= 2;
        message[6..HEADER].fill(0);
    }
    message
}
