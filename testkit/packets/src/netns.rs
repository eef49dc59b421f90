//! A network namespace, with its interfaces, servers and clients.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::time::Duration;

use corten_net::namespace::Namespace;
use corten_net::route::{Change, Route, Routing};
use corten_sys::namespaces::new_network;
use corten_testkit_sctp as sctp;

use crate::{DEADLINE, QUIET};

/// A network namespace of a test.
pub struct Netns(Namespace);

/// Setup.
impl Netns {
    /// A new namespace whose loopback interface is up.
    #[expect(clippy::new_without_default, reason = "it makes a namespace of the kernel and may panic")]
    pub fn new() -> Netns {
        let netns = Netns::unconfigured();
        netns.up("lo");
        netns
    }

    /// A new namespace as the kernel makes it, for a pod network to configure.
    pub fn unconfigured() -> Netns {
        Netns(new_network().expect("a network namespace (this needs root)").into())
    }

    pub fn namespace(&self) -> Namespace {
        Namespace::open(self.path()).unwrap()
    }

    /// A path that opens the namespace, in other processes too.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_fd().as_raw_fd()).into()
    }

    pub fn routing(&self) -> Routing {
        Routing::open(&self.0).unwrap()
    }

    /// Runs `work` in a thread of the namespace.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.0.run(work)
    }

    /// Brings an interface up.
    pub fn up(&self, link: &str) {
        let mut routing = self.routing();
        let index = routing.link(link).unwrap().unwrap().index;
        routing.change_link(index, Change { up: true, ..Change::default() }).unwrap();
    }

    /// Adds an address to an interface.
    pub fn address(&self, link: &str, address: &str) {
        let mut routing = self.routing();
        let index = routing.link(link).unwrap().unwrap().index;
        routing.add_address(index, address.parse().unwrap()).unwrap();
    }

    /// Adds a route through a gateway.
    pub fn route(&self, link: &str, destination: &str, gateway: &str) {
        let mut routing = self.routing();
        let link = routing.link(link).unwrap().unwrap().index;
        let destination = destination.parse().unwrap();
        routing.set_route(&Route { destination, gateway: gateway.parse().ok(), link, source: None }).unwrap();
    }

    /// Turns the kernel's bridge netfilter on or off, where there is one.
    pub fn set_bridge_netfilter(&self, on: bool) {
        let set = |rules: &str| {
            let path = format!("/proc/sys/net/bridge/bridge-nf-call-{rules}tables");
            match std::fs::write(path, if on { "1" } else { "0" }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                written => written,
            }
        };
        self.run(|| ["arp", "ip", "ip6"].iter().try_for_each(|rules| set(rules))).unwrap();
    }
}

/// Servers, which run until the test process ends.
impl Netns {
    /// Answers each TCP connection with the client's address.
    pub fn serve(&self, address: &str) -> SocketAddr {
        self.serve_prefixed(address, String::new())
    }

    /// Answers each TCP connection with a name and the client's address.
    pub fn serve_as(&self, address: &str, name: &str) -> SocketAddr {
        self.serve_prefixed(address, format!("{name} "))
    }

    fn serve_prefixed(&self, address: &str, prefix: String) -> SocketAddr {
        let address: SocketAddr = address.parse().unwrap();
        let listener = self.run(|| TcpListener::bind(address)).unwrap();
        let bound = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, from)) = listener.accept() {
                let _ = write!(stream, "{prefix}{}", from.ip());
            }
        });
        bound
    }

    /// Answers each datagram with the client's address.
    pub fn serve_udp(&self, address: &str) {
        self.serve_udp_prefixed(address, String::new());
    }

    /// Answers each datagram with a name and the client's address.
    pub fn serve_udp_as(&self, address: &str, name: &str) {
        self.serve_udp_prefixed(address, format!("{name} "));
    }

    fn serve_udp_prefixed(&self, address: &str, prefix: String) {
        let address: SocketAddr = address.parse().unwrap();
        let socket = self.run(|| UdpSocket::bind(address)).unwrap();
        std::thread::spawn(move || {
            while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
                let _ = socket.send_to(format!("{prefix}{}", from.ip()).as_bytes(), from);
            }
        });
    }

    /// Answers each SCTP association with a name and the client's address.
    pub fn serve_sctp(&self, address: &str, name: &'static str) {
        let address: SocketAddr = address.parse().unwrap();
        let server = self.run(|| sctp::Server::bind(address)).unwrap();
        std::thread::spawn(move || server.serve(name));
    }

    /// Echoes every byte of every TCP connection.
    pub fn serve_echo(&self, address: SocketAddr) {
        let listener = self.run(|| TcpListener::bind(address)).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
                });
            }
        });
    }
}

/// Clients.
impl Netns {
    /// Connects over TCP. Reads and writes of the connection time out, too.
    pub fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        let stream = self.run(|| TcpStream::connect_timeout(&address, timeout))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(stream)
    }

    /// The response of the TCP server at an address.
    pub fn request(&self, address: SocketAddr, timeout: Duration) -> io::Result<String> {
        let mut response = String::new();
        self.connect(address, timeout)?.read_to_string(&mut response)?;
        Ok(response)
    }

    /// The response of the TCP server at an address. Panics without one.
    #[track_caller]
    pub fn reaches(&self, address: SocketAddr) -> String {
        self.request(address, DEADLINE).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// Sends requests until each of the named servers has answered one.
    #[track_caller]
    pub fn reaches_each(&self, address: SocketAddr, expected: &[&str]) {
        let mut names = BTreeSet::new();
        for _ in 0..200 {
            let response = self.reaches(address);
            names.insert(response.split(' ').next().unwrap().to_owned());
            if names.len() == expected.len() {
                break;
            }
        }
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{address}");
    }

    /// A TCP request fails, with or without a reply.
    #[track_caller]
    pub fn does_not_reach(&self, address: SocketAddr) {
        let response = self.request(address, QUIET);
        assert!(response.is_err(), "{address} answered {response:?}");
    }

    /// A TCP request gets no reply at all.
    #[track_caller]
    pub fn times_out(&self, address: SocketAddr) {
        let response = self.request(address, QUIET);
        let kind = response.as_ref().map_err(io::Error::kind);
        assert!(
            matches!(kind, Err(io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)),
            "{address}: {response:?}"
        );
    }

    /// A TCP connection is refused.
    #[track_caller]
    pub fn is_refused(&self, address: SocketAddr) {
        let response = self.request(address, DEADLINE);
        let kind = response.as_ref().map_err(io::Error::kind);
        assert!(matches!(kind, Err(io::ErrorKind::ConnectionRefused)), "{address}: {response:?}");
    }

    /// A socket for datagrams to addresses of the family of `address`.
    pub fn udp_socket(&self, address: SocketAddr, timeout: Duration) -> UdpSocket {
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.run(|| UdpSocket::bind(any)).unwrap();
        socket.set_read_timeout(Some(timeout)).unwrap();
        socket
    }

    /// The response of the UDP server at an address. Panics without one.
    #[track_caller]
    pub fn reaches_udp(&self, address: SocketAddr) -> String {
        let response = exchange_udp(&self.udp_socket(address, DEADLINE), address);
        response.unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// The response of the SCTP server at an address.
    pub fn request_sctp(&self, address: SocketAddr, timeout: Duration) -> io::Result<String> {
        self.run(|| sctp::Client::new(address))?.ask(timeout)
    }

    /// The response of the SCTP server at an address. Panics without one.
    #[track_caller]
    pub fn reaches_sctp(&self, address: SocketAddr) -> String {
        self.request_sctp(address, DEADLINE).unwrap_or_else(|error| panic!("{address}: {error}"))
    }
}

/// The response to a datagram. Datagrams of one socket are one flow to the kernel.
pub fn exchange_udp(socket: &UdpSocket, address: SocketAddr) -> io::Result<String> {
    socket.send_to(b"?", address)?;
    let mut buffer = [0; 64];
    let (length, from) = socket.recv_from(&mut buffer)?;
    assert_eq!(from, address, "the response comes from the address of the request");
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}
