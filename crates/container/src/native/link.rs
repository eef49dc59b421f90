//! The connection to one pod's supervisor.
//!
//! Requests are answered under their number, in any order. When the supervisor exits, every pending request fails, and
//! [`Notification::Gone`] is the last notification.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use corten_sys::wire::{self, Answer, Request, Standing};
use parking_lot::Mutex;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use crate::{Error, Result};

/// Maximum time for a supervisor to answer, as upstream's kubelet waits for a runtime. A container with CAP_SYS_PTRACE
/// can keep the start of another container of its pod from being answered; no other request may wait for that start.
const ANSWER: Duration = Duration::from_secs(120);

/// A notification of a supervisor.
#[derive(Debug)]
pub(super) enum Notification {
    Exited(Standing),
    /// The supervisor has exited, and with it everything in the pod.
    Gone,
}

#[derive(Debug, Clone)]
pub(super) struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stream: UnixStream,
    sending: AsyncMutex<()>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u32,
    gone: bool,
    by_number: HashMap<u32, mpsc::UnboundedSender<Reply>>,
}

/// An answer, and the descriptors that came with it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) passed: Vec<OwnedFd>,
}

/// The pending answers of a request. Dropping it discards them.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) number: u32,
    link: Link,
    replies: mpsc::UnboundedReceiver<Reply>,
}

impl Link {
    /// Connects to the supervisor of a sandbox's folder.
    pub(super) async fn connect(
        folder: &Path,
        notifications: mpsc::UnboundedSender<Notification>,
    ) -> io::Result<Link> {
        // Through the folder's descriptor: paths of sockets have a small maximum length, folders have not.
        let opened = std::fs::File::open(folder)?;
        let path = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&opened));
        let stream = UnixStream::connect(path).await?;
        let link =
            Link(Arc::new(Inner { stream, sending: AsyncMutex::default(), waiting: Mutex::default() }));
        let mut listener = Listener { link: link.0.clone(), received: Vec::new(), passed: Vec::new() };
        match listener.next().await? {
            (_, Reply { answer: Answer::Hello(wire::VERSION), .. }) => {}
            other => return Err(io::Error::other(format!("unexpected answer of the supervisor: {other:?}"))),
        }
        tokio::spawn(listener.run(notifications));
        Ok(link)
    }

    /// The process id of the supervisor.
    pub(super) fn supervisor(&self) -> u32 {
        let pid = self.0.stream.peer_cred().ok().and_then(|peer| peer.pid());
        pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or_default()
    }

    /// Sends a request and waits for the answer.
    pub(super) async fn ask(&self, request: &Request, passed: &[OwnedFd]) -> Result<Reply> {
        self.begin(request, passed).await?.first().await
    }

    /// Sends a request; the caller waits for its answers.
    pub(super) async fn begin(&self, request: &Request, passed: &[OwnedFd]) -> Result<Replies> {
        let (sender, replies) = mpsc::unbounded_channel();
        let number = {
            let mut waiting = self.0.waiting.lock();
            if waiting.gone {
                return Err(gone());
            }
            waiting.last = waiting.last.wrapping_add(1).max(1);
            let number = waiting.last;
            waiting.by_number.insert(number, sender);
            number
        };
        let replies = Replies { number, link: self.clone(), replies };
        let frame = wire::frame(number, request);
        self.send(&frame, passed)
            .await
            .map_err(|error| Error::internal("cannot send the request to the pod supervisor", error))?;
        Ok(replies)
    }

    async fn send(&self, mut bytes: &[u8], passed: &[OwnedFd]) -> io::Result<()> {
        let _turn = self.0.sending.lock().await;
        let mut passed: Vec<_> = passed.iter().map(AsFd::as_fd).collect();
        while !bytes.is_empty() {
            let sent = self.0.stream.async_io(Interest::WRITABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !passed.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(&passed));
                }
                let part = [IoSlice::new(bytes)];
                Ok(rustix::net::sendmsg(&self.0.stream, &part, &mut control, SendFlags::NOSIGNAL)?)
            });
            bytes = &bytes[sent.await?..];
            // The descriptors are sent with the first bytes.
            passed.clear();
        }
        Ok(())
    }
}

impl Replies {
    /// The first answer, within the maximum time.
    pub(super) async fn first(&mut self) -> Result<Reply> {
        let late = || Error::DeadlineExceeded("the pod's supervisor does not answer".to_owned());
        tokio::time::timeout(ANSWER, self.next()).await.unwrap_or_else(|_| Err(late()))
    }

    /// The next answer; a refusal is an error.
    pub(super) async fn next(&mut self) -> Result<Reply> {
        let reply = self.replies.recv().await.ok_or_else(gone)?;
        match reply.answer {
            Answer::Failed(text) => Err(Error::Internal(text)),
            _ => Ok(reply),
        }
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.link.0.waiting.lock().by_number.remove(&self.number);
    }
}

fn gone() -> Error {
    Error::FailedPrecondition("the pod's supervisor has exited".to_owned())
}

struct Listener {
    link: Arc<Inner>,
    received: Vec<u8>,
    passed: Vec<OwnedFd>,
}

impl Listener {
    async fn run(mut self, notifications: mpsc::UnboundedSender<Notification>) {
        while let Ok((number, reply)) = self.next().await {
            if let Answer::Exited(standing) = reply.answer {
                // Fails if the receiver was dropped.
                let _ = notifications.send(Notification::Exited(standing));
            } else if let Some(waiter) = self.link.waiting.lock().by_number.get(&number) {
                let _ = waiter.send(reply);
            }
        }
        let mut waiting = self.link.waiting.lock();
        waiting.gone = true;
        waiting.by_number.clear();
        let _ = notifications.send(Notification::Gone);
    }

    async fn next(&mut self) -> io::Result<(u32, Reply)> {
        loop {
            let taken = wire::take_frame(&mut self.received);
            match taken.map_err(|wire::Malformed| io::Error::other("the supervisor makes no sense"))? {
                Some((number, answer)) => {
                    // Bytes of several frames may arrive at once, and with them the descriptors of the last.
                    let count = if let Answer::Done((_, count)) = answer { usize::from(count) } else { 0 };
                    let passed = self.passed.drain(..count.min(self.passed.len())).collect();
                    return Ok((number, Reply { answer, passed }));
                }
                None => self.receive().await?,
            }
        }
    }

    async fn receive(&mut self) -> io::Result<()> {
        let (received, passed) = (&mut self.received, &mut self.passed);
        let stream = &self.link.stream;
        let count = stream.async_io(Interest::READABLE, || {
            let mut buffer = [0; 4096];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut part = [IoSliceMut::new(&mut buffer)];
            let message = rustix::net::recvmsg(stream, &mut part, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for control in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = control {
                    passed.extend(descriptors);
                }
            }
            received.extend_from_slice(&buffer[..message.bytes]);
            Ok(message.bytes)
        });
        if count.await? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}
