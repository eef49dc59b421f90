//! Answers of others, kept for as long as they may be and no longer than half a minute.
//!
//! There are two generations: when the young one is full it becomes the old one, and the old one is forgotten. So the
//! cache never grows past its bound and nothing has to look for what is over.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::message::{Limit, Query, Question};
use crate::passed::Passed;

/// How long answers are kept at most, in seconds, as with CoreDNS' usual `cache 30`.
const LONGEST: u32 = 30;
/// How many a generation holds.
const GENERATION: usize = 5000;

/// All that an answer depends on.
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

    /// What is asked on behalf of a name of the cluster.
    pub(crate) fn plain(question: Question) -> Key {
        Key { question, edns: false, dnssec: false, checking_disabled: false }
    }
}

#[derive(Debug)]
struct Kept {
    message: Vec<u8>,
    lifetimes: Vec<usize>,
    since: Timestamp,
    seconds: u32,
    denial: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Cache {
    young: HashMap<Key, Kept>,
    old: HashMap<Key, Kept>,
}

/// An answer from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) message: Vec<u8>,
    pub(crate) denial: bool,
}

impl Cache {
    /// The answer as it would be given now.
    pub(crate) fn get(&self, key: &Key, now: Timestamp) -> Option<Hit> {
        let kept = self.young.get(key).or_else(|| self.old.get(key))?;
        let age = u32::try_from(now.duration_since(kept.since).as_secs()).ok()?;
        if age >= kept.seconds {
            return None;
        }
        let mut message = kept.message.clone();
        for at in &kept.lifetimes {
            let lifetime = message.get_mut(*at..*at + 4)?;
            let was = u32::from_be_bytes(<[u8; 4]>::try_from(&*lifetime).ok()?);
            lifetime.copy_from_slice(&was.saturating_sub(age).to_be_bytes());
        }
        Some(Hit { message, denial: kept.denial })
    }

    pub(crate) fn put(&mut self, key: Key, message: &[u8], passed: &Passed, now: Timestamp) {
        let Some(seconds) = passed.lifetime() else { return };
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        let kept = Kept {
            message: message.to_vec(),
            lifetimes: passed.lifetimes.clone(),
            since: now,
            seconds: seconds.min(LONGEST),
            denial: passed.is_denial(),
        };
        self.young.insert(key, kept);
    }

    /// How many answers and how many denials are kept.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = || self.young.values().chain(self.old.values());
        let denials = all().filter(|kept| kept.denial).count();
        (all().count() - denials, denials)
    }
}

/// Somebody's answer made the answer to this question: with its number and its spelling, and said to be cut off if it
/// is longer than the asker can take.
pub(crate) fn addressed(mut message: Vec<u8>, query: &Query, limit: Limit) -> Vec<u8> {
    const HEADER: usize = 12;
    let asked = query.question.name.wire();
    if message.len() < HEADER + asked.len() {
        return message;
    }
    message[..2].copy_from_slice(&query.id.to_be_bytes());
    message[HEADER..HEADER + asked.len()].copy_from_slice(asked);
    if message.len() > query.limit(limit) {
        message.truncate(HEADER + asked.len() + 4);
        message[2] |= 2;
        message[6..HEADER].fill(0);
    }
    message
}
