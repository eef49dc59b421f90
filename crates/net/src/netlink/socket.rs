//! A conversation with one part of the kernel, in the network namespace it was begun in.

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

/// More than the kernel puts into one datagram.
const BUFFER: usize = 64 * 1024;
/// A transaction is sent in one piece: there is room for one of this size, and for larger ones when they come.
const OFTEN_SENT: usize = 16 * 1024 * 1024;
/// The kernel answers at once; a lost answer must not hold anybody up for ever.
const PATIENCE: Duration = Duration::from_secs(10);
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// What was listed changed meanwhile.
const INTERRUPTED: u16 = 0x10;
const ATTEMPTS: usize = 5;

#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
    /// The largest piece that can be sent.
    room: usize,
}

/// One thing the kernel told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub kind: u16,
    /// The fixed part and the attributes.
    pub body: Vec<u8>,
}

impl Socket {
    /// To the part that knows links, addresses and routes.
    pub fn route() -> io::Result<Socket> {
        Socket::open(None)
    }

    /// To the part that filters and translates.
    pub fn netfilter() -> io::Result<Socket> {
        Socket::open(Some(netlink::NETFILTER))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Socket> {
        let descriptor =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&descriptor, Timeout::Recv, Some(PATIENCE))?;
        // Without the privilege for it, what is large is refused when it is sent.
        let _ = set_socket_send_buffer_size_force(&descriptor, OFTEN_SENT);
        Ok(Socket { descriptor, sequence: 0, room: OFTEN_SENT })
    }

    /// Asks for one thing to be done, and waits until it is.
    pub fn request(&mut self, message: &Message) -> io::Result<()> {
        self.get(message).map(drop)
    }

    /// Asks for one thing; there may be none.
    pub fn get(&mut self, message: &Message) -> io::Result<Option<Reply>> {
        Ok(self.exchange(&[message], 0, true)?.pop())
    }

    /// Asks for all there are, of a message made by [`Message::listing`].
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

    /// Sends messages that the kernel takes as one transaction, all or none, between its begin and its end.
    pub(crate) fn transact(
        &mut self,
        begin: &Message,
        messages: &[Message],
        end: &Message,
    ) -> io::Result<()> {
        let all: Vec<&Message> = std::iter::once(begin).chain(messages).chain([end]).collect();
        // The end itself is not answered by every kernel: the last message before it is.
        self.exchange(&all, messages.len(), true).map(drop)
    }

    /// Sends everything in one piece and reads until the message at a place is answered, or any is refused.
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
            for received in messages(&buffer[..read]) {
                let place = received.sequence.wrapping_sub(first);
                if place >= sent {
                    // The rest of an answer that nobody waited for.
                    continue;
                }
                if received.flags & INTERRUPTED != 0 && received.kind != ERROR {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                match received.kind {
                    ERROR => {
                        refusal(received.body)?;
                        if place == answered {
                            return Ok(replies);
                        }
                    }
                    DONE => return Ok(replies),
                    kind => replies.push(Reply { kind, body: received.body.to_vec() }),
                }
            }
        }
    }
}

/// What an answer says of success.
fn refusal(body: &[u8]) -> io::Result<()> {
    let number = body.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    if number == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-number)) }
}

impl Message {
    /// The same for all there are.
    pub fn listing(kind: u16, fixed: &[u8], attributes: &super::Attributes) -> Message {
        Message::new(kind, flag::DUMP, fixed, attributes)
    }
}
