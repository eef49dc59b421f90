//! Three network namespaces in a row: a client, a node, and a server that closes every connection.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use corten_net::namespace::Namespace;
use corten_net::route::{Change, Route, Routing, Veth};
use corten_sys::namespaces::new_network;

const CLIENT: &str = "192.0.2.2";
pub(crate) const SERVER: &str = "198.51.100.2";
pub(crate) const PORT: u16 = 8080;

/// A client, a node and a server, in this order.
pub(crate) struct Line {
    pub(crate) client: Place,
    pub(crate) node: Place,
    _server: Place,
}

pub(crate) struct Place(Namespace, OwnedFd);

impl Place {
    fn new() -> io::Result<Place> {
        let descriptor = new_network()?;
        let place = Place(descriptor.try_clone()?.into(), descriptor);
        place.up("lo")?;
        Ok(place)
    }

    /// A path that opens the namespace.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.1.as_raw_fd())
    }

    /// Runs a function in the namespace and waits for it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.0.run(work)
    }

    fn up(&self, link: &str) -> io::Result<()> {
        let mut routing = Routing::open(&self.0)?;
        let index = index(&mut routing, link)?;
        routing.change_link(index, Change { up: true, ..Change::default() })
    }

    fn address(&self, link: &str, address: &str) -> anyhow::Result<()> {
        let mut routing = Routing::open(&self.0)?;
        let index = index(&mut routing, link)?;
        routing.add_address(index, address.parse()?)?;
        Ok(self.up(link)?)
    }

    fn default_route(&self, link: &str, gateway: &str) -> anyhow::Result<()> {
        let mut routing = Routing::open(&self.0)?;
        let link = index(&mut routing, link)?;
        let destination = "0.0.0.0/0".parse()?;
        routing.set_route(&Route { destination, gateway: Some(gateway.parse()?), link, source: None })?;
        Ok(())
    }
}

fn index(routing: &mut Routing, link: &str) -> io::Result<u32> {
    routing.link(link)?.map(|link| link.index).ok_or_else(|| io::ErrorKind::NotFound.into())
}

impl Line {
    pub(crate) fn new() -> anyhow::Result<Line> {
        let (client, node, server) = (Place::new()?, Place::new()?, Place::new()?);
        for (link, place, outer, inner, hardware) in [
            ("client", &client, "192.0.2.1/24", CLIENT, [2, 0, 0, 0, 0, 2]),
            ("server", &server, "198.51.100.1/24", SERVER, [2, 0, 0, 0, 0, 3]),
        ] {
            let veth = Veth {
                name: link,
                mtu: 1500,
                peer: "eth0",
                peer_namespace: &place.0,
                peer_hardware: hardware,
            };
            Routing::open(&node.0)?.add_veth(&veth)?;
            node.address(link, outer)?;
            place.address("eth0", &format!("{inner}/24"))?;
            place.default_route("eth0", outer.trim_end_matches("/24"))?;
        }
        node.0.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?;
        let address = SocketAddr::new(SERVER.parse()?, PORT);
        let listener = server.0.run(|| TcpListener::bind(address))?;
        std::thread::spawn(move || while listener.accept().is_ok() {});
        Ok(Line { client, node, _server: server })
    }
}
