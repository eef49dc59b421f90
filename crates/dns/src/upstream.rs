//! Decodes responses of upstream resolvers as far as forwarding needs: the response code, the TTLs and where they are.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{Data, Question, Record, kind};
use crate::name::Name;

const HEADER: usize = 12;
const OPT: u16 = 41;
const NO_ERROR: u16 = 0;
const NX_DOMAIN: u16 = 3;

/// A decoded response.
#[derive(Debug)]
pub(crate) struct UpstreamResponse {
    pub(crate) question: Question,
    pub(crate) truncated: bool,
    code: u16,
    /// The offsets of the records' TTLs.
    pub(crate) ttl_offsets: Vec<usize>,
    /// The smallest TTL, in seconds.
    min_ttl: Option<u32>,
    /// The A, AAAA and CNAME records of the answer section.
    pub(crate) records: Vec<Record>,
    answers: u16,
}

impl UpstreamResponse {
    pub(crate) fn read(message: &[u8]) -> Option<UpstreamResponse> {
        let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
        let flags = word(2)?;
        if flags & 0x8000 == 0 || word(4)? != 1 {
            return None;
        }
        let (name, at) = Name::read(message, HEADER)?;
        let question = Question { name, kind: word(at)? };
        let mut response = UpstreamResponse {
            question,
            truncated: flags & 0x0200 != 0,
            code: flags & 0x0f,
            ttl_offsets: Vec::new(),
            min_ttl: None,
            records: Vec::new(),
            answers: word(6)?,
        };
        let mut at = at + 4;
        let counts = [word(6)?, word(8)?, word(10)?];
        for (section, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                at = response.record(message, at, section == 0)?;
            }
        }
        Some(response)
    }

    /// Decodes the record at an offset, and returns the offset of its end.
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
        // The TTL of a negative response is the MINIMUM field at the end of the SOA record.
        let last = data.last_chunk::<4>().filter(|_| kind == kind::SOA && !is_answer);
        let seconds = last.map_or(ttl, |minimum| ttl.min(u32::from_be_bytes(*minimum)));
        self.ttl_offsets.push(fixed + 4);
        self.min_ttl = Some(self.min_ttl.map_or(seconds, |least| least.min(seconds)));
        if is_answer && let Some(data) = read_data(message, kind, begin, data) {
            self.records.push(Record { owner: Some(owner), ttl, data });
        }
        Some(end)
    }

    /// True for NXDOMAIN and for responses without records.
    pub(crate) fn is_denial(&self) -> bool {
        self.code == NX_DOMAIN || self.answers == 0
    }

    /// The time that the response may be cached, in seconds; `None` for truncated responses and errors.
    pub(crate) fn cache_seconds(&self) -> Option<u32> {
        let whole = !self.truncated && matches!(self.code, NO_ERROR | NX_DOMAIN);
        self.min_ttl.filter(|seconds| whole && *seconds > 0)
    }

    /// True if the resolver failed, so that another one may be queried.
    pub(crate) fn is_failure(&self) -> bool {
        !matches!(self.code, NO_ERROR | NX_DOMAIN)
    }

    /// The name of the response code, as CoreDNS writes it.
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
