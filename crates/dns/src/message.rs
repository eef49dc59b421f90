//! DNS messages: decodes queries, encodes responses. Pure, and never panics whatever the bytes are.
//!
//! Only what a DNS server needs is decoded: the header, the one question, and EDNS. Upstream responses are forwarded as bytes
//! and not encoded again.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::name::Name;

const HEADER: usize = 12;
/// The size limit of a response over UDP without EDNS.
const PLAIN_LIMIT: usize = 512;
/// The largest response over UDP, whatever the client accepts: larger ones would be fragmented, and fragments get lost.
const LARGEST_DATAGRAM: usize = 4096;
const OPT: u16 = 41;

mod flag {
    pub(super) const RESPONSE: u16 = 0x8000;
    pub(super) const OPCODE: u16 = 0x7800;
    pub(super) const AUTHORITATIVE: u16 = 0x0400;
    pub(super) const TRUNCATED: u16 = 0x0200;
    pub(super) const RECURSION_DESIRED: u16 = 0x0100;
    pub(super) const RECURSION_AVAILABLE: u16 = 0x0080;
    pub(super) const CHECKING_DISABLED: u16 = 0x0010;
}

/// The record types that this server knows.
pub mod kind {
    pub const A: u16 = 1;
    pub const NS: u16 = 2;
    pub const CNAME: u16 = 5;
    pub const SOA: u16 = 6;
    pub const PTR: u16 = 12;
    pub const TXT: u16 = 16;
    pub const AAAA: u16 = 28;
    pub const SRV: u16 = 33;
    pub const IXFR: u16 = 251;
    pub const AXFR: u16 = 252;
}

const CLASS_IN: u16 = 1;
const CLASS_ANY: u16 = 255;

/// A response code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    NoError,
    FormErr,
    ServFail,
    NxDomain,
    NotImp,
    Refused,
    BadVers,
}

impl Code {
    fn number(self) -> u16 {
        match self {
            Code::NoError => 0,
            Code::FormErr => 1,
            Code::ServFail => 2,
            Code::NxDomain => 3,
            Code::NotImp => 4,
            Code::Refused => 5,
            Code::BadVers => 16,
        }
    }
}

/// The question of a query: a name and a record type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub(crate) name: Name,
    pub(crate) kind: u16,
}

/// The client's EDNS options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edns {
    pub(crate) size: u16,
    pub(crate) dnssec: bool,
}

/// A decoded query.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) id: u16,
    pub(crate) question: Question,
    pub(crate) edns: Option<Edns>,
    flags: u16,
    class: u16,
}

/// A message that is not a valid query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unanswerable {
    /// A response, or less than a header: its sender expects no response.
    Ignored,
    /// An invalid query, with the encoded error response.
    Refused(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(Name),
    Ns(Name),
    Ptr(Name),
    Txt(&'static str),
    Srv { weight: u16, port: u16, target: Name },
    Soa { server: Name, mailbox: Name, serial: u32, least: u32 },
}

impl Data {
    fn kind(&self) -> u16 {
        match self {
            Data::A(_) => kind::A,
            Data::Aaaa(_) => kind::AAAA,
            Data::Cname(_) => kind::CNAME,
            Data::Ns(_) => kind::NS,
            Data::Ptr(_) => kind::PTR,
            Data::Txt(_) => kind::TXT,
            Data::Srv { .. } => kind::SRV,
            Data::Soa { .. } => kind::SOA,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// `None` is the name of the question.
    pub(crate) owner: Option<Name>,
    pub(crate) ttl: u32,
    pub(crate) data: Data,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: Code,
    pub(crate) authoritative: bool,
    pub(crate) records: Vec<Record>,
    pub(crate) authority: Vec<Record>,
    pub(crate) additional: Vec<Record>,
}

impl Answer {
    /// An answer without records.
    pub(crate) fn bare(code: Code) -> Answer {
        Answer {
            code,
            authoritative: false,
            records: Vec::new(),
            authority: Vec::new(),
            additional: Vec::new(),
        }
    }
}

/// Decodes a query.
pub(crate) fn read(message: &[u8]) -> Result<Query, Unanswerable> {
    let word = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let (Some(id), Some(flags)) = (word(0), word(2)) else { return Err(Unanswerable::Ignored) };
    if message.len() < HEADER || flags & flag::RESPONSE != 0 {
        return Err(Unanswerable::Ignored);
    }
    let refused = |code| Unanswerable::Refused(header_only(id, flags, code));
    if flags & flag::OPCODE != 0 {
        return Err(refused(Code::NotImp));
    }
    let question = || {
        let [questions, answers, authorities, additional] = [word(4)?, word(6)?, word(8)?, word(10)?];
        if questions != 1 || answers != 0 || authorities != 0 || additional > 2 {
            return None;
        }
        let (name, at) = Name::read(message, HEADER)?;
        let (kind, class) = (word(at)?, word(at + 2)?);
        Some((Question { name, kind }, class, at + 4, additional))
    };
    let (question, class, at, additional) = question().ok_or_else(|| refused(Code::FormErr))?;
    let options = read_options(message, at, additional).ok_or_else(|| refused(Code::FormErr))?;
    let edns = options.map(|(edns, _)| edns);
    let query = Query { id, question, edns, flags, class };
    if options.is_some_and(|(_, version)| version != 0) {
        return Err(Unanswerable::Refused(query.reply(&Answer::bare(Code::BadVers), Limit::None)));
    }
    Ok(query)
}

/// Decodes the EDNS options and their version; `None` if the records are malformed.
fn read_options(message: &[u8], mut at: usize, count: u16) -> Option<Option<(Edns, u8)>> {
    for _ in 0..count {
        let (_, fixed) = Name::read(message, at)?;
        let head = message.get(fixed..fixed + 10)?;
        let length = usize::from(u16::from_be_bytes([head[8], head[9]]));
        at = fixed + 10 + length;
        message.get(fixed + 10..at)?;
        if u16::from_be_bytes([head[0], head[1]]) == OPT {
            let size = u16::from_be_bytes([head[2], head[3]]);
            return Some(Some((Edns { size, dnssec: head[6] & 0x80 != 0 }, head[5])));
        }
    }
    Some(None)
}

/// The size limit of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The limit of DNS messages.
    None,
    /// The limit of the client's datagrams.
    Datagram,
}

impl Query {
    /// True if the class is IN, the only one that is served.
    pub(crate) fn is_internet_class(&self) -> bool {
        matches!(self.class, CLASS_IN | CLASS_ANY)
    }

    pub(crate) fn checking_disabled(&self) -> bool {
        self.flags & flag::CHECKING_DISABLED != 0
    }

    pub(crate) fn limit(&self, limit: Limit) -> usize {
        match limit {
            Limit::None => usize::from(u16::MAX),
            Limit::Datagram => {
                let said = self.edns.map_or(PLAIN_LIMIT, |edns| usize::from(edns.size));
                said.clamp(PLAIN_LIMIT, LARGEST_DATAGRAM)
            }
        }
    }

    /// Encodes a query for an upstream resolver.
    pub(crate) fn encode_question(name: &Name, kind: u16, id: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + 80);
        let flags = flag::RECURSION_DESIRED;
        for word in [id, flags, 1, 0, 0, 0] {
            out.extend(word.to_be_bytes());
        }
        out.extend_from_slice(name.wire());
        out.extend(kind.to_be_bytes());
        out.extend(CLASS_IN.to_be_bytes());
        out
    }

    /// Encodes the response. Records that do not fit are left out: additional ones first, then answers, which sets the
    /// truncated flag.
    pub(crate) fn reply(&self, answer: &Answer, limit: Limit) -> Vec<u8> {
        let limit = self.limit(limit);
        let mut writer = Writer::new(self, answer);
        let room = limit.saturating_sub(if self.edns.is_some() { 11 } else { 0 });
        let answers = writer.records(&answer.records, room);
        let whole = usize::from(answers) == answer.records.len();
        let authorities = if whole { writer.records(&answer.authority, room) } else { 0 };
        let mut additional = if whole { writer.records(&answer.additional, room) } else { 0 };
        if let Some(edns) = self.edns {
            writer.options(edns, answer.code);
            additional += 1;
        }
        if !whole {
            writer.truncated();
        }
        writer.counts([1, answers, authorities, additional])
    }
}

fn header_only(id: u16, flags: u16, code: Code) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER);
    let kept = flags & (flag::OPCODE | flag::RECURSION_DESIRED);
    for word in [id, flag::RESPONSE | kept | code.number(), 0, 0, 0, 0] {
        out.extend(word.to_be_bytes());
    }
    out
}

struct Writer<'a> {
    out: Vec<u8>,
    asked: &'a Name,
}

impl<'a> Writer<'a> {
    /// Begins a response with its header and the question of the query.
    fn new(query: &'a Query, answer: &Answer) -> Writer<'a> {
        let mut out = Vec::with_capacity(PLAIN_LIMIT);
        let kept = query.flags & (flag::OPCODE | flag::RECURSION_DESIRED | flag::CHECKING_DISABLED);
        let authoritative = if answer.authoritative { flag::AUTHORITATIVE } else { 0 };
        let flags =
            flag::RESPONSE | kept | authoritative | flag::RECURSION_AVAILABLE | (answer.code.number() & 0x0f);
        for word in [query.id, flags, 0, 0, 0, 0] {
            out.extend(word.to_be_bytes());
        }
        out.extend_from_slice(query.question.name.wire());
        out.extend(query.question.kind.to_be_bytes());
        out.extend(query.class.to_be_bytes());
        Writer { out, asked: &query.question.name }
    }

    /// Writes as many records as fit, and returns their number.
    fn records(&mut self, records: &[Record], room: usize) -> u16 {
        for (written, record) in records.iter().enumerate() {
            let before = self.out.len();
            self.record(record);
            if self.out.len() > room {
                self.out.truncate(before);
                return written as u16;
            }
        }
        records.len() as u16
    }

    fn record(&mut self, record: &Record) {
        match &record.owner {
            None => self.out.extend([0xc0, HEADER as u8]),
            Some(owner) => self.name(owner),
        }
        self.out.extend(record.data.kind().to_be_bytes());
        self.out.extend(CLASS_IN.to_be_bytes());
        self.out.extend(record.ttl.to_be_bytes());
        let length = self.out.len();
        self.out.extend([0, 0]);
        self.data(&record.data);
        let written = (self.out.len() - length - 2) as u16;
        self.out[length..length + 2].copy_from_slice(&written.to_be_bytes());
    }

    fn data(&mut self, data: &Data) {
        match data {
            Data::A(address) => self.out.extend(address.octets()),
            Data::Aaaa(address) => self.out.extend(address.octets()),
            Data::Cname(name) | Data::Ns(name) | Data::Ptr(name) => self.name(name),
            Data::Txt(text) => {
                self.out.push(text.len() as u8);
                self.out.extend_from_slice(text.as_bytes());
            }
            // Targets of SRV records are never compressed.
            Data::Srv { weight, port, target } => {
                for word in [0, *weight, *port] {
                    self.out.extend(word.to_be_bytes());
                }
                self.out.extend_from_slice(target.wire());
            }
            Data::Soa { server, mailbox, serial, least } => {
                self.name(server);
                self.name(mailbox);
                for number in [*serial, 7200, 1800, 86400, *least] {
                    self.out.extend(number.to_be_bytes());
                }
            }
        }
    }

    /// Writes a name. The suffix that it shares with the question's name is compressed to a pointer.
    fn name(&mut self, name: &Name) {
        let (wire, asked) = (name.wire(), self.asked.wire());
        let shared = name.starts().take_while(|start| wire[*start] != 0).find_map(|start| {
            let ending = &wire[start..];
            let at = asked.len().checked_sub(ending.len())?;
            let begins = self.asked.starts().any(|start| start == at);
            (begins && asked[at..].eq_ignore_ascii_case(ending)).then_some((start, HEADER + at))
        });
        match shared {
            None => self.out.extend_from_slice(wire),
            Some((own, at)) => {
                self.out.extend_from_slice(&wire[..own]);
                self.out.extend((0xc000 | at as u16).to_be_bytes());
            }
        }
    }

    fn options(&mut self, edns: Edns, code: Code) {
        self.out.push(0);
        self.out.extend(OPT.to_be_bytes());
        self.out.extend((LARGEST_DATAGRAM as u16).to_be_bytes());
        let dnssec = if edns.dnssec { 0x80 } else { 0 };
        self.out.extend([(code.number() >> 4) as u8, 0, dnssec, 0, 0, 0]);
    }

    fn truncated(&mut self) {
        self.out[2] |= (flag::TRUNCATED >> 8) as u8;
    }

    fn counts(mut self, counts: [u16; 4]) -> Vec<u8> {
        for (at, count) in counts.into_iter().enumerate() {
            self.out[4 + 2 * at..6 + 2 * at].copy_from_slice(&count.to_be_bytes());
        }
        self.out
    }
}

#[cfg(test)]
mod tests;
