//! Syncs the routes to other nodes' pods. Only differences are written, and stale routes are removed.

use std::io;

use super::{Options, State};
use crate::error::During;
use crate::peers::{Between, Ways, direct, tunnelled};
use crate::route::{Change, Link};
use crate::{Result, addresses, tunnel};

pub(super) const TUNNEL: &str = "corten-vxlan";

impl State {
    pub(super) fn lead_across(&mut self, options: &Options) -> Result<()> {
        // Existing routes stay until the other nodes are known.
        let (Some(across), Some(peers)) = (options.across, self.peers.clone()) else { return Ok(()) };
        let doing = "cannot update routes to other nodes";
        match across.between {
            // Without other nodes there is no tunnel, so the kernel needs no VXLAN support.
            Between::Vxlan if peers.is_empty() => {
                self.set_routes(&Ways::default()).during(doing)?;
                self.disconnect(TUNNEL)?;
            }
            Between::Vxlan => {
                let tunnel = self.tunnel(options).during("cannot create the VXLAN tunnel to other nodes")?;
                let gateways = self.cidrs.iter().filter_map(|cidr| addresses::gateway(*cidr));
                let sources: Vec<_> = gateways.map(|gateway| gateway.address()).collect();
                let ways = tunnelled(&peers, tunnel.index, &sources);
                self.set_neighbours(tunnel.index, &ways).during(doing)?;
                self.set_routes(&ways).during(doing)?;
            }
            Between::Direct => {
                let links = self.routing.all_addresses().during(doing)?;
                self.set_routes(&direct(&peers, &links)).during(doing)?;
                self.disconnect(TUNNEL)?;
            }
        }
        self.apply(options)
    }

    /// Returns the tunnel's link. It is replaced if the node's address has changed.
    fn tunnel(&mut self, options: &Options) -> io::Result<Link> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "it is gone");
        let node = options.across.ok_or_else(missing)?.node;
        let hardware = addresses::hardware(node);
        let stale = self.routing.link(TUNNEL)?.filter(|link| link.hardware != Some(hardware));
        if let Some(stale) = stale {
            self.routing.delete_link(stale.index)?;
        }
        let mtu = match options.mtu {
            Some(mtu) => mtu,
            None => self.uplink_mtu()?.saturating_sub(tunnel::overhead(node)),
        };
        self.routing.add_tunnel(TUNNEL, mtu, node, hardware)?;
        let tunnel = self.routing.link(TUNNEL)?.ok_or_else(missing)?;
        self.routing.change_link(tunnel.index, Change { up: true, ..Change::default() })?;
        Ok(tunnel)
    }

    fn set_neighbours(&mut self, tunnel: u32, ways: &Ways) -> io::Result<()> {
        let found = self.routing.neighbours(tunnel)?;
        for neighbour in found.iter().filter(|known| ways.neighbours.binary_search(known).is_err()) {
            self.routing.delete_neighbour(tunnel, neighbour)?;
        }
        for neighbour in ways.neighbours.iter().filter(|wanted| found.binary_search(wanted).is_err()) {
            self.routing.set_neighbour(tunnel, neighbour)?;
        }
        Ok(())
    }

    fn set_routes(&mut self, ways: &Ways) -> io::Result<()> {
        let mut found = self.routing.own_routes()?;
        found.sort_unstable();
        for route in ways.routes.iter().filter(|wanted| found.binary_search(wanted).is_err()) {
            self.routing.set_route(route)?;
        }
        let wanted =
            |known: &crate::route::Route| ways.routes.iter().any(|r| r.destination == known.destination);
        // A default route is never one of these.
        for route in found.iter().filter(|known| known.destination.prefix() > 0 && !wanted(known)) {
            self.routing.delete_route(route)?;
        }
        Ok(())
    }
}
