//! A netlink socket of one protocol, in the network namespace it was opened in.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_send_buffer_size_force, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};

use super::message::messages;
use super::{Message, flag};

/// The size of the receive buffer, larger than any datagram of the kernel.
const BUFFER: usize = 64 * 1024;
/// The initial send buffer. A transaction is one datagram, and the buffer grows with larger ones.
const SEND_BUFFER: usize = 16 * 1024 * 1024;
/// The timeout of a reply, so that a lost one never blocks the caller forever.
const TIMEOUT: Duration = Duration::from_secs(10);
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The flag of a listing whose objects changed meanwhile.
const INTERRUPTED: u16 = 0x10;
const ATTEMPTS: usize = 5;

#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
    /// The size of the send buffer.
    room: usize,
}

/// A reply of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub kind: u16,
    /// The fixed part and the attributes.
    pub body: Vec<u8>,
}

impl Socket {
    /// Opens a socket for links, addresses and routes.
    pub fn route() -> io::Result<Socket> {
        Socket::open(None)
    }

    /// Opens a socket for netfilter.
    pub fn netfilter() -> io::Result<Socket> {
        Socket::open(Some(netlink::NETFILTER))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Socket> {
        let descriptor =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&descriptor, Timeout::Recv, Some(TIMEOUT))?;
        // Without the privilege for it, sending a large transaction fails later.
        let _ = set_socket_send_buffer_size_force(&descriptor, SEND_BUFFER);
        Ok(Socket { descriptor, sequence: 0, room: SEND_BUFFER })
    }

    /// Sends a request, and waits for its acknowledgement.
    pub fn request(&mut self, message: &Message) -> io::Result<()> {
        self.get(message).map(drop)
    }

    /// Requests one object, which may not exist.
    pub fn get(&mut self, message: &Message) -> io::Result<Option<Reply>> {
        Ok(self.exchange(&[message], 0, true)?.pop())
    }

    /// Requests all objects, with a message of [`Message::listing`].
    pub fn list(&mut self, message: &Message) -> io::Result<Vec<Reply>> {
        let mut attempt = || self.exchange(&[message], 0, false);
        for _ in 1..ATTEMPTS {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
        attempt()
    }

    /// Sends messages as one atomic transaction, between its begin and end messages.
    pub(crate) fn transact(
        &mut self,
        begin: &Message,
        messages: &[Message],
        end: &Message,
    ) -> io::Result<()> {
        let all: Vec<&Message> = std::iter::once(begin).chain(messages).chain([end]).collect();
        // Not every kernel acknowledges the end message: the last message before it is acknowledged.
        self.exchange(&all, messages.len(), true).map(drop)
    }

    /// Sends all messages in one datagram, and reads until the message at an index is answered or any is refused.
    fn exchange(&mut self, sent: &[&Message], answered: usize, acknowledged: bool) -> io::Result<Vec<Reply>> {
        let first = self.sequence.wrapping_add(1);
        let mut wire = Vec::with_capacity(sent.iter().map(|message| message.len()).sum());
        for (place, message) in sent.iter().enumerate() {
            self.sequence = self.sequence.wrapping_add(1);
            message.write(self.sequence, acknowledged && place == answered, &mut wire);
        }
        if wire.len() > self.room {
            set_socket_send_buffer_size_force(&self.descriptor, wire.len())?;
            self.room = wire.len();
        }
        let address = netlink::SocketAddrNetlink::new(0, 0);
        sendto(&self.descriptor, &wire, SendFlags::empty(), &address)?;
        self.replies(first, answered as u32, sent.len() as u32)
    }

    fn replies(&self, first: u32, answered: u32, sent: u32) -> io::Result<Vec<Reply>> {
        let mut replies = Vec::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            let (read, _) = retry_on_intr(|| recv(&self.descriptor, &mut buffer[..], RecvFlags::empty()))?;
            if read_datagram(&buffer[..read], Exchange { first, answered, sent }, &mut replies)? {
                return Ok(replies);
            }
        }
    }
}

/// The requests that replies belong to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    /// The sequence number of the first request.
    pub(super) first: u32,
    /// The place of the request whose acknowledgement ends the exchange.
    pub(super) answered: u32,
    /// The number of requests sent.
    pub(super) sent: u32,
}

/// Parses the replies in a datagram. Returns true if they end the exchange.
pub(super) fn read_datagram(
    datagram: &[u8],
    exchange: Exchange,
    replies: &mut Vec<Reply>,
) -> io::Result<bool> {
    for received in messages(datagram) {
        let place = received.sequence.wrapping_sub(exchange.first);
        if place >= exchange.sent {
            // The rest of a response to an earlier request that timed out.
            continue;
        }
        if received.flags & INTERRUPTED != 0 && received.kind != ERROR {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match received.kind {
            ERROR => {
                refusal(received.body)?;
                if place == exchange.answered {
                    return Ok(true);
                }
            }
            DONE => return Ok(true),
            kind => replies.push(Reply { kind, body: received.body.to_vec() }),
        }
    }
    Ok(false)
}

/// The error in a reply, if it has one.
fn refusal(body: &[u8]) -> io::Result<()> {
    let number = body.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(number.wrapping_neg())) }
}

impl Message {
    /// A request for all objects.
    pub fn listing(kind: u16, fixed: &[u8], attributes: &super::Attributes) -> Message {
        Message::new(kind, flag::DUMP, fixed, attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_the_kernel_is_an_error() {
        for (number, expected) in [(0, None), (-17, Some(17)), (i32::MIN, Some(i32::MIN))] {
            let error = refusal(&number.to_ne_bytes()).err();
            assert_eq!(error.and_then(|error| error.raw_os_error()), expected, "{number}");
        }
        assert!(refusal(&[]).is_ok());
    }
}
