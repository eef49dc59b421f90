//! The socket of a running server, in its data directory: one request and one response, a line of JSON each.
//!
//! Invariants: only the user of the server and root can connect (the directory and the socket are private, and the kernel says
//! who the peer is); a request is limited in size and time.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::job::{Job, Report, Secrets};
use super::schedule::{Schedule, State};

const SOCKET: &str = "backup.sock";
const MAX_LINE: u64 = 1 << 20;
/// The time in which a peer has to send its request.
const REQUEST: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Request {
    Create(Job, Secrets),
    Schedules,
    SetSchedule(Schedule),
    DeleteSchedule(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Response {
    Created(Report),
    Schedules(Vec<(Schedule, State)>),
    Done,
    Failed(String),
}

/// The path of the socket by way of the directory's descriptor: a path of a socket has 107 bytes at most.
fn path(data_dir: &File) -> PathBuf {
    format!("/proc/self/fd/{}/{SOCKET}", data_dir.as_raw_fd()).into()
}

/// Binds the socket; one that an earlier process left is replaced.
pub(super) fn bind(data_dir: &Path) -> anyhow::Result<UnixListener> {
    let directory = File::open(data_dir).with_context(|| format!("cannot open {}", data_dir.display()))?;
    let path = path(&directory);
    let bind = || -> io::Result<UnixListener> {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(&path)?,
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    bind().with_context(|| format!("cannot listen on {}", data_dir.join(SOCKET).display()))
}

/// Sends a request to the server of a data directory. `None` if no server runs.
pub(super) async fn ask(data_dir: &Path, request: &Request) -> anyhow::Result<Option<Response>> {
    let Ok(directory) = File::open(data_dir) else { return Ok(None) };
    let mut stream = match UnixStream::connect(path(&directory)).await {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        stream => stream.with_context(|| format!("cannot connect to {}", data_dir.join(SOCKET).display()))?,
    };
    send(&mut stream, request).await?;
    match receive(&mut stream).await.context("the server did not answer")? {
        Response::Failed(why) => bail!(why),
        response => Ok(Some(response)),
    }
}

/// Receives the request of a peer that may ask.
pub(super) async fn request(stream: &mut UnixStream) -> anyhow::Result<Request> {
    let peer = stream.peer_cred().context("cannot read the peer's credentials")?.uid();
    let own = rustix::process::geteuid().as_raw();
    ensure!(peer == own || peer == 0, "user {peer} may not ask for backups");
    timeout(REQUEST, receive(stream)).await.context("no request")?
}

pub(super) async fn send(stream: &mut UnixStream, message: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message).context("cannot encode a message")?;
    line.push(b'\n');
    stream.write_all(&line).await.context("cannot send a message")
}

async fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> anyhow::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MAX_LINE)).read_until(b'\n', &mut line).await?;
    serde_json::from_slice(&line).context("invalid message")
}
