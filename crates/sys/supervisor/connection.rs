//! One connection of a runtime.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::kernel;
use crate::wire::{self, Answer, Request};

pub(crate) struct Connection {
    /// Identifies the connection, also after it is closed.
    pub(crate) number: u64,
    stream: UnixStream,
    received: Vec<u8>,
    passed: VecDeque<OwnedFd>,
    outgoing: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl Connection {
    pub(crate) fn new(number: u64, stream: UnixStream) -> Connection {
        let (received, passed, outgoing) = (Vec::new(), VecDeque::new(), VecDeque::new());
        let mut connection = Connection { number, stream, received, passed, outgoing };
        connection.send(0, &Answer::Hello(wire::VERSION), Vec::new());
        connection
    }

    pub(crate) fn awaited(&self) -> kernel::Awaited {
        let out = if self.outgoing.is_empty() { 0 } else { kernel::POLLOUT };
        kernel::awaited(&self.stream, kernel::POLLIN | out)
    }

    /// Reads the pending requests. `None` if the connection is closed or a request is invalid.
    pub(crate) fn requests(&mut self) -> Option<Vec<(u32, Request)>> {
        let mut buffer = [0; 16 * 1024];
        let mut passed = Vec::new();
        match kernel::receive(self.stream.as_fd(), &mut buffer, &mut passed) {
            Ok(0) => return None,
            Ok(received) => self.received.extend_from_slice(&buffer[..received]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        self.passed.extend(passed);
        let mut requests = Vec::new();
        while let Some(request) = wire::take_frame(&mut self.received).ok()? {
            requests.push(request);
        }
        if self.received.is_empty() {
            // Large requests are rare; their buffer is not kept.
            self.received = Vec::new();
        }
        Some(requests)
    }

    /// The passed descriptors, if all of them arrived.
    pub(crate) fn take_passed<const N: usize>(&mut self) -> Option<[OwnedFd; N]> {
        let taken: Vec<OwnedFd> = (0..N).filter_map(|_| self.passed.pop_front()).collect();
        taken.try_into().ok()
    }

    pub(crate) fn send(&mut self, number: u32, answer: &Answer, passed: Vec<OwnedFd>) {
        self.outgoing.push_back((wire::frame(number, answer), passed));
        self.flush();
    }

    /// Sends as much as possible without blocking.
    pub(crate) fn flush(&mut self) {
        while let Some((bytes, passed)) = self.outgoing.front_mut() {
            match kernel::send(self.stream.as_fd(), bytes, passed) {
                Ok(sent) => {
                    bytes.drain(..sent);
                    passed.clear();
                    if bytes.is_empty() {
                        self.outgoing.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The next read notices the closed connection.
                Err(_) => return self.outgoing.clear(),
            }
        }
    }
}
