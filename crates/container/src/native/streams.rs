//! Exec, attach and port-forward: descriptors of containers' streams.
//!
//! Bytes do not pass through the supervisor: it receives the container's ends of pipes, or returns the terminal that it
//! created.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use corten_sys::terminal::Master;
use corten_sys::wire::{self, Answer, Request};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;

use super::link::Replies;
use super::*;
use crate::{AttachRequest, Connection, ExecOutput, ExecRequest, Reader, Session, Terminal, Writer};

/// Maximum size of each output of a command that is waited for.
const LARGEST_OUTPUT: u64 = 16 << 20;
const SIGKILL: i32 = 9;

impl Native {
    pub(super) async fn exec_and_wait(
        &self,
        id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput> {
        let request = ExecRequest {
            container_id: id.to_owned(),
            command: command.to_vec(),
            stdout: true,
            stderr: true,
            ..ExecRequest::default()
        };
        let session = self.exec_session(&request).await?;
        let run = async {
            let (stdout, stderr, exit) =
                tokio::join!(read_all(session.stdout), read_all(session.stderr), session.exit);
            Ok(ExecOutput { stdout, stderr, exit_code: exit? })
        };
        if timeout.is_zero() {
            return run.await;
        }
        // Dropping the session kills its process.
        let text = || format!("command {command:?} timed out after {timeout:?}");
        tokio::time::timeout(timeout, run).await.unwrap_or_else(|_| Err(Error::DeadlineExceeded(text())))
    }

    pub(super) async fn exec_session(&self, request: &ExecRequest) -> Result<Session> {
        let (record, link) = self.running_container(&request.container_id)?;
        let native = self.clone();
        let (plan, _) = blocking(move || native.plan_of(&record)).await?;
        let process = wire::Process { args: request.command.clone(), terminal: request.tty, ..plan.process };
        let ask = Request::Exec(Box::new((request.container_id.clone(), process)));
        if request.tty {
            return self.exec_with_terminal(&link, &ask, request).await;
        }
        let (stdin, stdin_end) = input(request.stdin)?;
        let (stdout, stdout_end) = output(request.stdout)?;
        let (stderr, stderr_end) = output(request.stderr)?;
        let mut replies = link.begin(&ask, &[stdin_end, stdout_end, stderr_end]).await?;
        replies.first().await.map_err(|error| exec_failed(&error))?;
        Ok(Session { stdin, stdout, stderr, terminal: None, exit: Box::pin(Exec::new(link, replies).exit()) })
    }

    async fn exec_with_terminal(&self, link: &Link, ask: &Request, request: &ExecRequest) -> Result<Session> {
        let mut replies = link.begin(ask, &[]).await?;
        let master = replies.first().await.map_err(|error| exec_failed(&error))?.passed.pop();
        let master =
            master.ok_or_else(|| Error::Internal("the supervisor returned no terminal".to_owned()))?;
        let master = Master::new(master).map_err(failed)?;
        Ok(Session {
            stdin: request.stdin.then(|| Box::pin(master.clone()) as Writer),
            stdout: Some(Box::pin(master.clone())),
            stderr: None,
            terminal: Some(Box::new(Size(master))),
            exit: Box::pin(Exec::new(link.clone(), replies).exit()),
        })
    }

    pub(super) async fn attach_session(&self, request: &AttachRequest) -> Result<Session> {
        let id = &request.container_id;
        let (record, link) = self.running_container(id)?;
        let tty = record.config.tty;
        let (stdout, stdout_end) = output(true)?;
        let (stderr, stderr_end) = output(true)?;
        let reply = link.ask(&Request::Attach(id.clone()), &[stdout_end, stderr_end]).await?;
        let input = reply.passed.into_iter().next();
        let (stdin, terminal) = match input {
            Some(master) if tty => {
                let master = Master::new(master).map_err(failed)?;
                (Some(Box::pin(master.clone()) as Writer), Some(Box::new(Size(master)) as Box<dyn Terminal>))
            }
            Some(pipe) => (Some(Box::pin(Input::new(pipe)?) as Writer), None),
            None => (None, None),
        };
        Ok(Session {
            stdin: stdin.filter(|_| request.stdin),
            stdout: stdout.filter(|_| request.stdout),
            stderr: stderr.filter(|_| request.stderr && !tty),
            terminal,
            exit: Box::pin(self.clone().exit_of(id.clone())),
        })
    }

    async fn exit_of(self, id: String) -> Result<i32> {
        let ended = self.0.state.lock().containers.get(&id).map(|container| container.ended.subscribe());
        let mut ended = ended.ok_or_else(|| no_container(&id))?;
        // A removed container counts as exited.
        let _ = ended.wait_for(|ended| *ended).await;
        match self.0.state.lock().containers.get(&id).map(|container| container.phase.clone()) {
            Some(Phase::Exited(ended)) => Ok(ended.code),
            _ => Err(no_container(&id)),
        }
    }

    pub(super) async fn dial(&self, sandbox_id: &str, port: u16) -> Result<Box<dyn Connection>> {
        let reply = self.link(sandbox_id)?.ask(&Request::Dial(port), &[]).await;
        let reply = reply.map_err(|error| {
            Error::Internal(format!("failed to connect to localhost:{port} inside the pod: {error}"))
        })?;
        let socket = reply.passed.into_iter().next();
        let socket =
            socket.ok_or_else(|| Error::Internal("the supervisor returned no connection".to_owned()))?;
        let stream = TcpStream::from_std(socket.into());
        Ok(Box::new(stream.map_err(|error| Error::internal("cannot use the connection to the pod", error))?))
    }

    pub(super) fn running_container(&self, id: &str) -> Result<(ContainerRecord, Link)> {
        let record = {
            let state = self.0.state.lock();
            let container = state.containers.get(id).ok_or_else(|| no_container(id))?;
            if !matches!(container.phase, Phase::Running { .. }) {
                return Err(Error::FailedPrecondition(format!("container {id:?} is not running")));
            }
            container.record.clone()
        };
        let link = self.link(&record.sandbox_id)?;
        Ok((record, link))
    }
}

/// The error of a command that did not start, in the words of other runtimes.
fn exec_failed(error: &Error) -> Error {
    Error::Internal(format!("failed to exec in container: unable to start container process: {error}"))
}

/// A process that was started in a container. It is killed if it is dropped before it exits.
struct Exec {
    link: Link,
    replies: Replies,
    ended: bool,
}

impl Exec {
    fn new(link: Link, replies: Replies) -> Exec {
        Exec { link, replies, ended: false }
    }

    async fn exit(mut self) -> Result<i32> {
        let reply = self.replies.next().await;
        self.ended = true;
        match reply?.answer {
            Answer::ExecExited(code) => Ok(code),
            other => Err(Error::Internal(format!("unexpected answer of the supervisor: {other:?}"))),
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        if !self.ended {
            let (link, number) = (self.link.clone(), self.replies.number);
            tokio::spawn(async move {
                // Fails if it has just exited.
                let _ = link.ask(&Request::SignalExec((number, SIGKILL)), &[]).await;
            });
        }
    }
}

fn failed(error: impl Into<io::Error>) -> Error {
    Error::internal("cannot create a stream", error.into())
}

fn nothing(write: bool) -> Result<OwnedFd> {
    let file = std::fs::File::options().read(!write).write(write).open("/dev/null");
    file.map(OwnedFd::from).map_err(failed)
}

fn input(wanted: bool) -> Result<(Option<Writer>, OwnedFd)> {
    if !wanted {
        return Ok((None, nothing(false)?));
    }
    let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    Ok((Some(Box::pin(Input::new(ours)?)), theirs))
}

fn output(wanted: bool) -> Result<(Option<Reader>, OwnedFd)> {
    if !wanted {
        return Ok((None, nothing(true)?));
    }
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    Ok((Some(Box::pin(pipe::Receiver::from_owned_fd(ours).map_err(failed)?)), theirs))
}

async fn read_all(from: Option<Reader>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // The output so far counts; a killed process closes its pipes in any way.
        let _ = (&mut from).take(LARGEST_OUTPUT).read_to_end(&mut bytes).await;
        // The rest is discarded, so that the command does not block.
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    bytes
}

/// A process's standard input; shutting it down closes it.
struct Input(Option<pipe::Sender>);

impl Input {
    fn new(pipe: OwnedFd) -> Result<Input> {
        pipe::Sender::from_owned_fd(pipe).map(|sender| Input(Some(sender))).map_err(failed)
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(sender) => Pin::new(sender).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

/// The terminal of a process, for its size.
struct Size(Master);

impl Terminal for Size {
    fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        self.0.resize(columns, rows).map_err(failed)
    }
}
