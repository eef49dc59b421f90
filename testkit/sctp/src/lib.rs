//! The first exchange of an SCTP association (RFC 9260), for tests of routing and filtering: many kernels forward,
//! translate and track SCTP, but have no SCTP sockets.
//!
//! A server answers INIT with INIT ACK, and sends its name and the client's address in the cookie. There are no
//! retransmissions and no data. Sockets are raw; they belong to the namespace in which they are created, and may be
//! used
//! anywhere.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

const SCTP: i32 = 132;
const HEAD: usize = 12;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// The common fields of both chunks: type, flags, length, tag, window, streams out and in, first number.
const CHUNK: usize = 20;
const COOKIE: u16 = 7;

/// Each association has a source port of its own, so that none is taken for another.
static PORT: AtomicU16 = AtomicU16::new(40_000);

/// Answers requests for associations at a port.
pub struct Server {
    socket: UdpSocket,
    port: u16,
}

impl Server {
    pub fn bind(address: SocketAddr) -> io::Result<Server> {
        let socket = open(address)?;
        socket.bind(&SocketAddr::new(address.ip(), 0).into())?;
        Ok(Server { socket: OwnedFd::from(socket).into(), port: address.port() })
    }

    /// Answers every request with `name` and the client's address, until the socket fails.
    pub fn serve(self, name: &str) {
        while let Ok((packet, from)) = receive(&self.socket) {
            let Some(asked) = Packet::read(&packet).filter(|packet| packet.kind == INIT) else { continue };
            if asked.to == self.port {
                let cookie = format!("{name} {from}");
                let answer =
                    Packet { from: self.port, to: asked.from, kind: INIT_ACK, tag: asked.own, own: 1 };
                // The client may be gone or unreachable; it notices that itself.
                let _ = self.socket.send_to(&answer.write(&cookie), SocketAddr::new(from, 0));
            }
        }
    }
}

/// Asks for the server at an address.
pub struct Client {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Client {
    pub fn new(address: SocketAddr) -> io::Result<Client> {
        let socket = open(address)?;
        socket.connect(&SocketAddr::new(address.ip(), 0).into())?;
        Ok(Client { socket: OwnedFd::from(socket).into(), address })
    }

    pub fn ask(&self, patience: Duration) -> io::Result<String> {
        let from = PORT.fetch_add(1, Ordering::Relaxed);
        let asked = Packet { from, to: self.address.port(), kind: INIT, tag: 0, own: u32::from(from) };
        self.socket.send(&asked.write(""))?;
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.set_read_timeout(Some(left))?;
            let packet = match receive(&self.socket) {
                Ok((packet, _)) => packet,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let Some(answer) = Packet::read(&packet) else { continue };
            if (answer.from, answer.to, answer.kind, answer.tag)
                == (asked.to, asked.from, INIT_ACK, asked.own)
            {
                return Ok(String::from_utf8_lossy(packet.get(HEAD + CHUNK + 4..).unwrap_or_default()).into());
            }
        }
    }
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::RAW, Some(Protocol::from(SCTP)))
}

/// One packet without its IP header, and its source.
fn receive(socket: &UdpSocket) -> io::Result<(Vec<u8>, IpAddr)> {
    let mut packet = vec![0; 2048];
    let (length, from) = socket.recv_from(&mut packet)?;
    packet.truncate(length);
    let before =
        if from.is_ipv4() { usize::from(packet.first().map_or(0, |first| first & 15)) * 4 } else { 0 };
    packet.drain(..before.min(length));
    Ok((packet, from.ip()))
}

/// The relevant fields of a packet with one chunk that opens an association.
struct Packet {
    from: u16,
    to: u16,
    kind: u8,
    /// The receiver's tag.
    tag: u32,
    /// The sender's tag.
    own: u32,
}

impl Packet {
    /// `None` if it is damaged or opens no association.
    fn read(packet: &[u8]) -> Option<Packet> {
        let bytes = |at: usize, length: usize| packet.get(at..at + length);
        let half = |at| bytes(at, 2)?.try_into().ok().map(u16::from_be_bytes);
        let word = |at| bytes(at, 4)?.try_into().ok().map(u32::from_be_bytes);
        let mut summed = packet.to_vec();
        summed.get_mut(8..12)?.fill(0);
        let is_whole = bytes(8, 4)? == crc32c(&summed).to_le_bytes();
        let read = Packet {
            from: half(0)?,
            to: half(2)?,
            tag: word(4)?,
            kind: *packet.get(HEAD)?,
            own: word(HEAD + 4)?,
        };
        is_whole.then_some(read)
    }

    fn write(&self, cookie: &str) -> Vec<u8> {
        let mut chunk = vec![self.kind, 0, 0, 0];
        chunk.extend(self.own.to_be_bytes());
        chunk.extend(65_536_u32.to_be_bytes());
        chunk.extend([0, 1, 0, 1]);
        chunk.extend(self.own.to_be_bytes());
        if !cookie.is_empty() {
            chunk.extend(COOKIE.to_be_bytes());
            chunk.extend((4 + cookie.len() as u16).to_be_bytes());
            chunk.extend(cookie.as_bytes());
        }
        let length = chunk.len() as u16;
        chunk[2..4].copy_from_slice(&length.to_be_bytes());
        let mut packet = Vec::from(self.from.to_be_bytes());
        packet.extend(self.to.to_be_bytes());
        packet.extend(self.tag.to_be_bytes());
        packet.extend([0; 4]);
        packet.extend(chunk);
        let sum = crc32c(&packet);
        packet[8..12].copy_from_slice(&sum.to_le_bytes());
        packet
    }
}

/// The checksum of SCTP.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn packets_are_read_as_written_and_damaged_ones_not_at_all() {
        let packet = Packet { from: 1, to: 2, kind: INIT_ACK, tag: 3, own: 4 };
        let mut bytes = packet.write("me");
        let read = Packet::read(&bytes).unwrap();
        assert_eq!((read.from, read.to, read.kind, read.tag, read.own), (1, 2, INIT_ACK, 3, 4));
        bytes[3] = 9;
        assert!(Packet::read(&bytes).is_none());
        assert!(Packet::read(&bytes[..20]).is_none());
    }
}
