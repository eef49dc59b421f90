//! Reads what others answered, as far as passing it on needs: how it ended, how long it may be kept, and where it
//! says so.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{Data, Question, Record, kind};
use crate::name::Name;

const HEADER: usize = 12;
const OPT: u16 = 41;
const NO_ERROR: u16 = 0;
const NX_DOMAIN: u16 = 3;

/// Somebody else's answer.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) question: Question,
    pub(crate) truncated: bool,
    code: u16,
    /// Where it says how long its records may be kept.
    pub(crate) lifetimes: Vec<usize>,
    /// For how many seconds all of it may be kept.
    least: Option<u32>,
    /// Those that tell an address, or another name.
    pub(crate) records: Vec<Record>,
    answers: u16,
}

impl Passed {
    pub(crate) fn read(message: &[u8]) -> Option<Passed> {
        let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
        let flags = word(2)?;
        if flags & 0x8000 == 0 || word(4)? != 1 {
            return None;
        }
        let (name, at) = Name::read(message, HEADER)?;
        let question = Question { name, kind: word(at)? };
        let mut passed = Passed {
            question,
            truncated: flags & 0x0200 != 0,
            code: flags & 0x0f,
            lifetimes: Vec::new(),
            least: None,
            records: Vec::new(),
            answers: word(6)?,
        };
        let mut at = at + 4;
        let counts = [word(6)?, word(8)?, word(10)?];
        for (section, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                at = passed.record(message, at, section == 0)?;
            }
        }
        Some(passed)
    }

    /// Takes note of the record at an offset; where it ends.
    fn record(&mut self, message: &[u8], at: usize, is_answer: bool) -> Option<usize> {
        let (owner, fixed) = Name::read(message, at)?;
        let head = message.get(fixed..fixed + 10)?;
        let (kind, length) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[8], head[9]]));
        let (begin, end) = (fixed + 10, fixed + 10 + usize::from(length));
        let data = message.get(begin..end)?;
        if kind == OPT {
            return Some(end);
        }
        let ttl = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        // What is not there may be kept for as long as the zone says at its very end.
        let last = data.last_chunk::<4>().filter(|_| kind == kind::SOA && !is_answer);
        let lifetime = last.map_or(ttl, |least| ttl.min(u32::from_be_bytes(*least)));
        self.lifetimes.push(fixed + 4);
        self.least = Some(self.least.map_or(lifetime, |least| least.min(lifetime)));
        if is_answer && let Some(data) = read_data(message, kind, begin, data) {
            self.records.push(Record { owner: Some(owner), ttl, data });
        }
        Some(end)
    }

    /// Whether it says that there is nothing.
    pub(crate) fn is_denial(&self) -> bool {
        self.code == NX_DOMAIN || self.answers == 0
    }

    /// For how long it may be kept; not at all if it is no whole answer.
    pub(crate) fn lifetime(&self) -> Option<u32> {
        let whole = !self.truncated && matches!(self.code, NO_ERROR | NX_DOMAIN);
        self.least.filter(|least| whole && *least > 0)
    }

    /// Whether the server could not tell, so that another one may be asked.
    pub(crate) fn is_failure(&self) -> bool {
        !matches!(self.code, NO_ERROR | NX_DOMAIN)
    }

    /// The name that became of the question, in CoreDNS' word.
    pub(crate) fn code_name(&self) -> &'static str {
        match self.code {
            0 => "NOERROR",
            1 => "FORMERR",
            2 => "SERVFAIL",
            3 => "NXDOMAIN",
            4 => "NOTIMP",
            5 => "REFUSED",
            _ => "other",
        }
    }
}

fn read_data(message: &[u8], kind: u16, begin: usize, data: &[u8]) -> Option<Data> {
    match kind {
        kind::A => <[u8; 4]>::try_from(data).ok().map(|octets| Data::A(Ipv4Addr::from(octets))),
        kind::AAAA => <[u8; 16]>::try_from(data).ok().map(|octets| Data::Aaaa(Ipv6Addr::from(octets))),
        kind::CNAME => Name::read(message, begin).map(|(name, _)| Data::Cname(name)),
        _ => None,
    }
}
