//! Computes the answer to a question from the zone. Pure.
//!
//! Names and their records are those of Kubernetes' DNS specification 1.1.0:
//! `service.namespace.svc.domain`, `endpoint.service.namespace.svc.domain`, `_port._protocol.service.namespace.svc.domain`
//! and `1-2-3-4.namespace.pod.domain`. A name that exists without records of the requested type is NOERROR, one
//! that does not exist NXDOMAIN, as with CoreDNS.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::message::{Answer, Code, Data, Question, Record, kind};
use crate::name::{Labels, Name};
use crate::zone::{Entry, Kind, Port, Zone};

/// The TTL of records of the cluster, in seconds.
pub(crate) const TTL: u32 = 30;
const VERSION_TTL: u32 = 28800;
/// The version of the DNS specification.
const VERSION: &str = "1.1.0";
/// The limit of CNAMEs in a chain.
const LONGEST_CHAIN: usize = 10;

/// The cluster domain, and its name servers.
#[derive(Debug, Clone)]
pub(crate) struct Domain {
    pub(crate) name: Name,
    /// The addresses of the DNS service.
    pub(crate) servers: Vec<IpAddr>,
}

/// The result of resolving a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Resolved {
    Answered(Answer),
    /// The rest of the answer is at a name outside the cluster.
    Continues(Answer, Name),
    /// The question is not about the cluster.
    External,
}

/// An address of a name, with its port.
struct Target {
    address: IpAddr,
    /// `None` if no port is declared.
    port: Option<u16>,
    /// The name of the endpoint itself, for SRV records.
    name: Option<Name>,
}

/// The result of looking up a name.
enum Found {
    /// The name does not exist.
    Missing,
    /// The name exists and has no records.
    Empty,
    Targets(Vec<Target>),
    Alias(Name),
}

pub(crate) fn resolve(zone: &Zone, domain: &Domain, question: &Question, serial: u32) -> Resolved {
    let Some(labels) = question.name.before(&domain.name) else {
        return reverse(zone, domain, question);
    };
    let labels = texts(labels);
    let resolver = Resolver { zone, domain, serial };
    if matches!(question.kind, kind::AXFR | kind::IXFR) {
        return Resolved::Answered(Answer::bare(Code::Refused));
    }
    match (labels.as_deref(), question.kind) {
        (Some([]), kind::SOA) => resolver.answered(vec![resolver.soa()], Vec::new()),
        (Some([]), kind::NS) => resolver.name_servers(),
        (Some([first]), kind::TXT) if first == "dns-version" => {
            let record = Record { owner: None, ttl: VERSION_TTL, data: Data::Txt(VERSION) };
            resolver.answered(vec![record], Vec::new())
        }
        (Some([first, second]), _) if first == "ns" && second == "dns" => {
            resolver.own_addresses(question.kind)
        }
        (Some(labels), kind) => resolver.records(&question.name, labels, kind),
        (None, _) => resolver.nothing(Code::NxDomain),
    }
}

/// Labels in lower case; `None` if one is not UTF-8, as no name of the cluster is.
fn texts(labels: Labels<'_>) -> Option<Vec<String>> {
    labels.map(|label| Some(std::str::from_utf8(label).ok()?.to_ascii_lowercase())).collect()
}

struct Resolver<'a> {
    zone: &'a Zone,
    domain: &'a Domain,
    serial: u32,
}

impl Resolver<'_> {
    fn records(&self, asked: &Name, labels: &[String], kind: u16) -> Resolved {
        match self.find(labels) {
            Found::Missing => self.nothing(Code::NxDomain),
            Found::Empty => self.nothing(Code::NoError),
            Found::Alias(target) => self.follow(asked, target, kind),
            Found::Targets(targets) if kind == kind::SRV => self.services(&targets),
            Found::Targets(targets) => self.answered(addresses(&targets, kind), Vec::new()),
        }
    }

    fn find(&self, labels: &[String]) -> Found {
        // From the end: the kind of name, then the namespace.
        let [front @ .., last] = labels else { return Found::Empty };
        if last != "svc" && last != "pod" {
            return Found::Missing;
        }
        let [front @ .., namespace] = front else { return Found::Empty };
        if !self.zone.has_namespace(namespace) {
            return Found::Missing;
        }
        let [front @ .., name] = front else { return Found::Empty };
        if front.len() > 2 {
            return Found::Missing;
        }
        if last == "pod" { pod(name) } else { self.service(namespace, name, front) }
    }

    fn service(&self, namespace: &str, name: &str, front: &[String]) -> Found {
        let Some(entry) = self.zone.entry(namespace, name) else { return Found::Missing };
        let Some(service) = &entry.service else { return Found::Missing };
        let own_name = || self.domain.name.under(&[name, namespace, "svc"]);
        let wanted = Wanted::of(front);
        let targets: Vec<Target> = match (&service.kind, &wanted) {
            (Kind::External(Some(target)), Wanted::All) => return Found::Alias(target.clone()),
            (Kind::External(_), _) => Vec::new(),
            (Kind::Addressed(addresses), Wanted::All | Wanted::Port { .. }) => {
                let ports = service.ports.iter().filter(|port| wanted.has_port(port));
                let each = |port: &Port| {
                    let port = port.number;
                    addresses.iter().map(move |address| Target { address: *address, port, name: own_name() })
                };
                ports.flat_map(each).collect()
            }
            _ => self.endpoints(namespace, name, entry, &wanted),
        };
        if targets.is_empty() { Found::Missing } else { Found::Targets(targets) }
    }

    fn endpoints(&self, namespace: &str, name: &str, entry: &Entry, wanted: &Wanted<'_>) -> Vec<Target> {
        let mut targets = Vec::new();
        for slice in entry.slices.values() {
            for endpoint in slice.endpoints.iter().filter(|endpoint| wanted.has_host(&endpoint.host)) {
                let own_name = self.domain.name.under(&[&endpoint.host, name, namespace, "svc"]);
                for port in slice.ports.iter().filter(|port| wanted.has_port(port)) {
                    let (address, name) = (endpoint.address, own_name.clone());
                    targets.push(Target { address, port: port.number, name });
                }
            }
        }
        targets
    }

    /// The CNAME record, and the records of its target.
    fn follow(&self, asked: &Name, target: Name, kind: u16) -> Resolved {
        if kind == kind::CNAME {
            return self.answered(vec![alias(None, target)], Vec::new());
        }
        if !matches!(kind, kind::A | kind::AAAA) || target == *asked {
            return self.nothing(Code::NoError);
        }
        let mut records = vec![alias(None, target.clone())];
        let (mut known, mut at) = (vec![asked.clone()], target);
        while let Some(labels) = at.before(&self.domain.name) {
            let found = texts(labels).map_or(Found::Missing, |labels| self.find(&labels));
            known.push(at.clone());
            match found {
                Found::Alias(next) if known.len() <= LONGEST_CHAIN && !known.contains(&next) => {
                    records.push(alias(Some(at), next.clone()));
                    at = next;
                }
                Found::Targets(targets) => {
                    let last = addresses(&targets, kind).into_iter();
                    let last: Vec<_> =
                        last.map(|record| Record { owner: Some(at.clone()), ..record }).collect();
                    if last.is_empty() {
                        return self.nothing(Code::NoError);
                    }
                    records.extend(last);
                    return self.answered(records, Vec::new());
                }
                _ => return self.nothing(Code::NoError),
            }
        }
        let answer = Answer { authoritative: true, records, ..Answer::bare(Code::NoError) };
        Resolved::Continues(answer, at)
    }

    /// SRV records, with the targets' addresses as additional records.
    fn services(&self, targets: &[Target]) -> Resolved {
        let weight = (100 / targets.len().max(1)).max(1) as u16;
        let (mut records, mut additional) = (Vec::new(), Vec::new());
        let (mut seen, mut located) = (HashSet::new(), HashSet::new());
        for target in targets {
            let (Some(port), Some(name)) = (target.port, &target.name) else { continue };
            if seen.insert((name, port)) {
                let data = Data::Srv { weight, port, target: name.clone() };
                records.push(Record { owner: None, ttl: TTL, data });
            }
            if located.insert((name, target.address)) {
                let data = of_address(target.address);
                additional.push(Record { owner: Some(name.clone()), ttl: TTL, data });
            }
        }
        self.answered(records, additional)
    }

    fn name_servers(&self) -> Resolved {
        let Some(server) = self.domain.name.under(&["kube-dns", "kube-system", "svc"]) else {
            return self.nothing(Code::NoError);
        };
        let own = self.domain.servers.iter();
        let own =
            own.map(|address| Record { owner: Some(server.clone()), ttl: TTL, data: of_address(*address) });
        let additional = own.collect();
        self.answered(vec![Record { owner: None, ttl: TTL, data: Data::Ns(server) }], additional)
    }

    /// The addresses of the domain's name server, which is called `ns.dns`.
    fn own_addresses(&self, kind: u16) -> Resolved {
        let own = self.domain.servers.iter();
        let targets: Vec<_> =
            own.map(|address| Target { address: *address, port: None, name: None }).collect();
        self.answered(addresses(&targets, kind), Vec::new())
    }

    fn answered(&self, records: Vec<Record>, additional: Vec<Record>) -> Resolved {
        if records.is_empty() {
            return self.nothing(Code::NoError);
        }
        let answer = Answer { authoritative: true, records, additional, ..Answer::bare(Code::NoError) };
        Resolved::Answered(answer)
    }

    fn nothing(&self, code: Code) -> Resolved {
        let soa = Record { owner: Some(self.domain.name.clone()), ..self.soa() };
        Resolved::Answered(Answer { authoritative: true, authority: vec![soa], ..Answer::bare(code) })
    }

    fn soa(&self) -> Record {
        let named = |labels: &[&str]| self.domain.name.under(labels).unwrap_or_else(Name::root);
        let (server, mailbox) = (named(&["ns", "dns"]), named(&["hostmaster"]));
        let data = Data::Soa { server, mailbox, serial: self.serial, least: TTL };
        Record { owner: None, ttl: TTL, data }
    }
}

/// The part of a Service that a name selects.
enum Wanted<'a> {
    All,
    Endpoint(&'a str),
    Port { port: &'a str, protocol: &'a str },
}

impl<'a> Wanted<'a> {
    /// Parses the labels in front of the Service's name: one or two.
    fn of(front: &'a [String]) -> Wanted<'a> {
        let bare = |label: &'a str| label.strip_prefix('_').unwrap_or(label);
        match front {
            [port, protocol] => Wanted::Port { port: bare(port), protocol: bare(protocol) },
            [endpoint] => Wanted::Endpoint(endpoint),
            _ => Wanted::All,
        }
    }

    fn has_host(&self, host: &str) -> bool {
        match self {
            Wanted::Endpoint(wanted) => wanted.eq_ignore_ascii_case(host),
            _ => true,
        }
    }

    fn has_port(&self, candidate: &Port) -> bool {
        match self {
            Wanted::Port { port, protocol } => {
                port.eq_ignore_ascii_case(&candidate.name)
                    && protocol.eq_ignore_ascii_case(&candidate.protocol)
            }
            _ => true,
        }
    }
}

/// The address that a pod's name spells.
fn pod(name: &str) -> Found {
    let is_ipv4 = name.matches('-').count() == 3 && !name.contains("--");
    let address: Option<IpAddr> = if is_ipv4 {
        name.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::from)
    } else {
        name.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::from)
    };
    match address {
        Some(address) => Found::Targets(vec![Target { address, port: None, name: None }]),
        None => Found::Missing,
    }
}

/// The distinct addresses of the requested family, as records.
fn addresses(targets: &[Target], kind: u16) -> Vec<Record> {
    let fits = |target: &&Target| match target.address {
        IpAddr::V4(_) => kind == kind::A,
        IpAddr::V6(_) => kind == kind::AAAA,
    };
    let mut seen = HashSet::new();
    let once = targets.iter().filter(fits).filter(|target| targets.len() == 1 || seen.insert(target.address));
    once.map(|target| Record { owner: None, ttl: TTL, data: of_address(target.address) }).collect()
}

fn of_address(address: IpAddr) -> Data {
    match address {
        IpAddr::V4(address) => Data::A(address),
        IpAddr::V6(address) => Data::Aaaa(address),
    }
}

fn alias(owner: Option<Name>, target: Name) -> Record {
    Record { owner, ttl: TTL, data: Data::Cname(target) }
}

/// PTR records of an address. Addresses outside the cluster are forwarded.
fn reverse(zone: &Zone, domain: &Domain, question: &Question) -> Resolved {
    let address = if question.kind == kind::PTR { address_of(&question.name) } else { None };
    let names = address.map(|address| zone.at(address)).unwrap_or_default();
    let names = names.iter().filter_map(|labels| domain.name.under(labels));
    let records: Vec<_> = names.map(|name| Record { owner: None, ttl: TTL, data: Data::Ptr(name) }).collect();
    if records.is_empty() {
        return Resolved::External;
    }
    Resolved::Answered(Answer { authoritative: true, records, ..Answer::bare(Code::NoError) })
}

/// The address of a name such as `4.3.2.1.in-addr.arpa`.
fn address_of(name: &Name) -> Option<IpAddr> {
    let mut labels: Vec<String> = texts(name.labels())?;
    let (top, second) = (labels.pop()?, labels.pop()?);
    labels.reverse();
    match (second.as_str(), top.as_str(), labels.len()) {
        ("in-addr", "arpa", 4) => labels.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::from),
        ("ip6", "arpa", 32) if labels.iter().all(|label| label.len() == 1) => {
            let groups: Vec<String> = labels.chunks(4).map(<[String]>::concat).collect();
            groups.join(":").parse::<Ipv6Addr>().ok().map(IpAddr::from)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
