//! Anti-spoofing rules for pods: they may send frames from their own hardware and IP addresses only. Pure; the whole table of
//! the bridge family, and the elements of one pod.
//!
//! A pod's port of the bridge is bound to the hardware address and the IP addresses of the pod. ARP and neighbour discovery
//! are limited to these; router advertisements, redirects, tagged frames and every protocol besides IP and ARP are dropped.
//! An IPv6 pod has its link-local address as well, to find its gateway.
//!
//! The rules apply at the port, before the node's stack and the bridge see a frame, and need no bridge netfilter. No frame is
//! bridged from one port to another: all traffic between pods passes the node's IP rules, where policies are, link-local
//! addresses and multicast included. The one exception is a kernel with bridge netfilter: it bridges a packet that a Service
//! redirected to a pod of the same bridge, after the IP rules. Those rules mark such packets.
//!
//! *Invariant:* a port is in the table before it is joined to the bridge.

use std::net::{IpAddr, Ipv6Addr};

use crate::addresses;
use crate::nftables::{Element, Family, Field, Header, Hook, Key, MapsTo, Rule, Set, Transaction, Type};
use crate::records::Attachment;
use crate::route::Hardware;

pub const TABLE: &str = "corten-pods";

/// The mark of packets that passed the IP rules and may be bridged from port to port.
pub(crate) const JUDGED: u32 = 0x0010_0000;
/// The priority before all other bridge chains.
const FIRST: i32 = -300;
/// The priority after bridge netfilter has called the IP rules.
const AFTER_IP_RULES: i32 = 100;
const PORTS: &str = "ports";
const SENDERS: &str = "senders";
const SENDERS4: &str = "senders4";
const SENDERS6: &str = "senders6";
const BOUND: &str = "bound";
const CROSSING: &str = "crossing";

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const ICMPV6: u8 = 58;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
const MULTICAST_REPORT: u8 = 143;
/// The beginning of an ARP packet for IPv4 over Ethernet: hardware and protocol types and address lengths.
const ARP_FOR_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

const FRAME_TYPE: Field = Field::At(Header::Link, 12, 2);
const SENDER: Field = Field::At(Header::Link, 6, 6);
const SOURCE4: Field = Field::At(Header::Network, 12, 4);
const SOURCE6: Field = Field::At(Header::Network, 8, 16);
const ARP_KIND: Field = Field::At(Header::Network, 0, 6);
const ARP_SENDER: Field = Field::At(Header::Network, 8, 6);
const ARP_SOURCE: Field = Field::At(Header::Network, 14, 4);
const ICMP_TYPE: Field = Field::At(Header::Transport, 0, 1);
/// The target address of neighbour discovery.
const TARGET: Field = Field::At(Header::Transport, 8, 16);

/// A pod's port of the bridge, with the pod's addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The node's end of the pod's veth pair.
    pub link: String,
    pub hardware: Hardware,
    pub addresses: Vec<IpAddr>,
}

impl Port {
    /// `None` for an attachment without addresses.
    pub(crate) fn of(link: String, attachment: &Attachment) -> Option<Port> {
        let addresses: Vec<IpAddr> = attachment.addresses.iter().map(|given| given.address()).collect();
        let hardware = addresses::hardware(*addresses.first()?);
        Some(Port { link, hardware, addresses })
    }

    /// The elements of the port in each set.
    fn elements(&self) -> [(&'static str, Vec<Key>); 4] {
        let sender = || Key::new().link(&self.link).hardware(self.hardware);
        let of = |ipv4: bool| self.addresses.iter().copied().filter(move |a| a.is_ipv4() == ipv4);
        let mut sixth: Vec<Key> = of(false).map(|address| sender().address(address)).collect();
        if !sixth.is_empty() {
            sixth.push(sender().address(link_local(self.hardware).into()));
        }
        [
            (PORTS, vec![Key::new().link(&self.link)]),
            (SENDERS, vec![sender()]),
            (SENDERS4, of(true).map(|address| sender().address(address)).collect()),
            (SENDERS6, sixth),
        ]
    }
}

/// Replaces the whole table.
pub fn table(ports: &[Port]) -> Transaction {
    let mut table = Transaction::replacing_in(Family::Bridge, TABLE);
    let sets: [(&str, &[Type]); 4] = [
        (PORTS, &[Type::Link]),
        (SENDERS, &[Type::Link, Type::Hardware]),
        (SENDERS4, &[Type::Link, Type::Hardware, Type::Ipv4]),
        (SENDERS6, &[Type::Link, Type::Hardware, Type::Ipv6]),
    ];
    for (id, (name, key)) in (1..).zip(sets) {
        table.set(id, &Set { name, key, maps_to: MapsTo::Nothing, intervals: false, timeout: None });
    }
    table.chain(BOUND);
    table.chain(CROSSING);
    table.base_chain("arriving", "filter", Hook::Prerouting, FIRST);
    table.base_chain("passing", "filter", Hook::Forward, AFTER_IP_RULES);
    table.rule("arriving", &rule().in_set(&[Field::Link], PORTS).goto(BOUND));
    table.rule("passing", &rule().in_set(&[Field::Link], PORTS).goto(CROSSING));
    bound().iter().for_each(|rule| table.rule(BOUND, rule));
    table.rule(CROSSING, &rule().is_marked(JUDGED).accept());
    table.rule(CROSSING, &rule().drop());
    ports.iter().for_each(|port| add_to(&mut table, port));
    table
}

/// Adds a port, so that its pod may send.
pub fn adding(port: &Port) -> Transaction {
    let mut change = Transaction::changing(Family::Bridge, TABLE);
    add_to(&mut change, port);
    change
}

/// Removes a port that [`adding`] added.
pub fn removing(port: &Port) -> Transaction {
    let mut change = Transaction::changing(Family::Bridge, TABLE);
    port.elements().iter().for_each(|(set, keys)| change.delete_elements(set, keys));
    change
}

fn add_to(table: &mut Transaction, port: &Port) {
    for (set, keys) in port.elements() {
        let members: Vec<Element> = keys.into_iter().map(Element::Member).collect();
        table.add_elements(set, &members);
    }
}

/// The rules for frames from pods.
fn bound() -> Vec<Rule> {
    let typed = |kind: u16| rule().has(FRAME_TYPE, &kind.to_be_bytes());
    let discovery = |kind: u8| typed(IPV6).protocol(ICMPV6).has(ICMP_TYPE, &[kind]);
    let unspecified = Ipv6Addr::UNSPECIFIED.octets();
    let target = [Field::Link, SENDER, TARGET];
    vec![
        rule().not_in_set(&[Field::Link, SENDER], SENDERS).drop(),
        typed(IPV4).in_set(&[Field::Link, SENDER, SOURCE4], SENDERS4).accept(),
        typed(ARP)
            .has(ARP_KIND, &ARP_FOR_IPV4)
            .in_set(&[Field::Link, ARP_SENDER, ARP_SOURCE], SENDERS4)
            .accept(),
        discovery(ROUTER_ADVERTISEMENT).drop(),
        discovery(REDIRECT).drop(),
        discovery(NEIGHBOUR_ADVERTISEMENT).not_in_set(&target, SENDERS6).drop(),
        typed(IPV6).in_set(&[Field::Link, SENDER, SOURCE6], SENDERS6).accept(),
        // Duplicate address detection and joining groups use the unspecified address as their source.
        discovery(NEIGHBOUR_SOLICITATION).has(SOURCE6, &unspecified).in_set(&target, SENDERS6).accept(),
        discovery(MULTICAST_REPORT).has(SOURCE6, &unspecified).accept(),
        rule().drop(),
    ]
}

fn rule() -> Rule {
    Rule::of(Family::Bridge)
}

/// The link-local address of a hardware address (RFC 4291, appendix A).
fn link_local([a, b, c, d, e, f]: Hardware) -> Ipv6Addr {
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_are_made_from_hardware_addresses() {
        assert_eq!(link_local([0x0a, 0x58, 10, 244, 1, 2]).to_string(), "fe80::858:aff:fef4:102");
    }

    #[test]
    fn a_pod_without_ipv6_may_not_send_ipv6() {
        let port = |addresses: &[&str]| Port {
            link: "veth1".to_owned(),
            hardware: [0; 6],
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        let counts = |port: Port| port.elements().map(|(_, keys)| keys.len());
        assert_eq!(counts(port(&["10.0.0.2"])), [1, 1, 1, 0]);
        assert_eq!(counts(port(&["10.0.0.2", "fd00::2"])), [1, 1, 1, 2]);
    }
}
