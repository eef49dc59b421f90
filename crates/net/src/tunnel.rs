//! The tunnel to other nodes: a VXLAN link and its neighbour entries. VXLAN learning is off: all entries are ours.

use std::io;
use std::net::IpAddr;

use crate::netlink::{Attributes, Message, Reply, attributes, flag};
use crate::route::{
    FAMILY_BRIDGE, Hardware, INFO_DATA, INFO_KIND, LINK_HARDWARE, LINK_INFO, LINK_MTU, LINK_NAME, NEW_LINK,
    Routing, about_link, except, family, ip_of, u32_of,
};

const NEW_NEIGHBOUR: u16 = 28;
const DELETE_NEIGHBOUR: u16 = 29;
const GET_NEIGHBOUR: u16 = 30;
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_HARDWARE: u16 = 2;
const PERMANENT: u16 = 0x80;
/// The neighbour flag for the link's own forwarding table, rather than a bridge's.
const OWN: u8 = 2;

const VXLAN_ID: u16 = 1;
const VXLAN_LOCAL: u16 = 4;
const VXLAN_LEARNING: u16 = 7;
const VXLAN_PORT: u16 = 15;
const VXLAN_LOCAL6: u16 = 17;
/// The VXLAN network identifier, and the UDP port of the tunnel.
const NETWORK: u32 = 1;
pub(crate) const PORT: u16 = 8472;

/// The encapsulation overhead in bytes.
pub(crate) fn overhead(node: IpAddr) -> u32 {
    if node.is_ipv4() { 50 } else { 70 }
}

/// An entry for the other end of the tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Neighbour {
    /// The end of the tunnel with this hardware address is at that node.
    End { hardware: Hardware, node: IpAddr },
    /// The gateway with this address has that hardware address.
    Gateway { address: IpAddr, hardware: Hardware },
}

impl Routing {
    pub(crate) fn add_tunnel(
        &mut self,
        name: &str,
        mtu: u32,
        local: IpAddr,
        hardware: Hardware,
    ) -> io::Result<()> {
        let kind = if local.is_ipv4() { VXLAN_LOCAL } else { VXLAN_LOCAL6 };
        let data = Attributes::new()
            .u32(VXLAN_ID, NETWORK)
            .address(kind, local)
            .u8(VXLAN_LEARNING, 0)
            .u16_be(VXLAN_PORT, PORT);
        let info = Attributes::new().text(INFO_KIND, "vxlan").nested(INFO_DATA, &data);
        let wanted = Attributes::new()
            .text(LINK_NAME, name)
            .u32(LINK_MTU, mtu)
            .bytes(LINK_HARDWARE, &hardware)
            .nested(LINK_INFO, &info);
        self.add(NEW_LINK, &about_link(0, 0, 0), &wanted)
    }

    /// The static neighbours, without learned ones.
    pub(crate) fn neighbours(&mut self, link: u32) -> io::Result<Vec<Neighbour>> {
        let mut found = Vec::new();
        for family in [FAMILY_BRIDGE, 2, 10] {
            let asked = Message::listing(GET_NEIGHBOUR, &about(family, 0, 0, 0), &Attributes::new());
            let replies = self.0.list(&asked)?;
            found.extend(replies.iter().filter_map(|reply| read(reply, family, link)));
        }
        found.sort_unstable();
        Ok(found)
    }

    pub(crate) fn set_neighbour(&mut self, link: u32, neighbour: &Neighbour) -> io::Result<()> {
        let (fixed, wanted) = parts(link, neighbour);
        self.0.request(&Message::new(NEW_NEIGHBOUR, flag::CREATE | flag::REPLACE, &fixed, &wanted))
    }

    pub(crate) fn delete_neighbour(&mut self, link: u32, neighbour: &Neighbour) -> io::Result<()> {
        let (fixed, wanted) = parts(link, neighbour);
        let asked = Message::new(DELETE_NEIGHBOUR, 0, &fixed, &wanted);
        except(self.0.request(&asked), &[rustix::io::Errno::NOENT.raw_os_error()], ())
    }
}

fn about(family: u8, link: u32, state: u16, flags: u8) -> [u8; 12] {
    let mut fixed = [0; 12];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&link.to_ne_bytes());
    fixed[8..10].copy_from_slice(&state.to_ne_bytes());
    fixed[10] = flags;
    fixed
}

fn parts(link: u32, neighbour: &Neighbour) -> ([u8; 12], Attributes) {
    let (fixed, address, hardware) = match *neighbour {
        Neighbour::End { hardware, node } => (about(FAMILY_BRIDGE, link, PERMANENT, OWN), node, hardware),
        Neighbour::Gateway { address, hardware } => {
            (about(family(address), link, PERMANENT, 0), address, hardware)
        }
    };
    let wanted = Attributes::new().address(NEIGHBOUR_ADDRESS, address).bytes(NEIGHBOUR_HARDWARE, &hardware);
    (fixed, wanted)
}

fn read(reply: &Reply, family: u8, link: u32) -> Option<Neighbour> {
    let state = u16::from_ne_bytes(reply.body.get(8..10)?.try_into().ok()?);
    let ours = reply.body.first()? == &family && u32_of(reply.body.get(4..8)?)? == link;
    if !ours || state & PERMANENT == 0 {
        return None;
    }
    let found: Vec<_> = attributes(reply.body.get(12..)?).collect();
    let of = |wanted: u16| found.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| *value);
    let address = ip_of(of(NEIGHBOUR_ADDRESS)?)?;
    let hardware = Hardware::try_from(of(NEIGHBOUR_HARDWARE)?).ok()?;
    Some(if family == FAMILY_BRIDGE {
        Neighbour::End { hardware, node: address }
    } else {
        Neighbour::Gateway { address, hardware }
    })
}
