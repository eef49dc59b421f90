//! Reads a container's log, to its end or for as long as the container runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_container::{ContainerEvent, ContainerState, Runtime};
use corten_sys::files::{Change, Writes};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncSeekExt, BufReader};
use tokio::sync::broadcast::{self, error::RecvError};

use super::lines::LineSelection;
use super::options::LogOptions;
use super::tail;
use crate::containers::shared_file;

/// The size of a piece that is read and sent.
const PIECE: usize = 32 * 1024;
/// The maximum length of a line. Runtimes break lines long before this.
const LONGEST: usize = 16 << 20;
/// The time between checks of a container whose runtime has no events.
const RELIST: Duration = Duration::from_secs(1);

/// A log that is being read.
pub(super) struct Reading {
    file: BufReader<File>,
    path: PathBuf,
    shown: LineSelection,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
    following: Option<Following>,
}

/// The sources of changes of a followed log.
struct Following {
    writes: Writes,
    runtime: Arc<dyn Runtime>,
    events: broadcast::Receiver<ContainerEvent>,
    id: String,
    runs: bool,
}

/// A log that cannot be read; messages are upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("failed to get container status {id:?}: {err}")]
    Status { id: String, err: corten_container::Error },
    #[error("failed to {operation} log file {path:?}: {err}")]
    File { operation: &'static str, path: PathBuf, err: std::io::Error },
}

impl Reading {
    pub(super) async fn begin(
        runtime: Arc<dyn Runtime>,
        id: String,
        options: LogOptions,
    ) -> Result<Reading, ReadError> {
        let status =
            runtime.container_status(&id).await.map_err(|err| ReadError::Status { id: id.clone(), err })?;
        let path = PathBuf::from(&status.log_path);
        let failed = |operation, err: std::io::Error| ReadError::File { operation, path: path.clone(), err };
        let mut file = shared_file::open(&path).map_err(|err| failed("open", err))?;
        let start = match options.tail_lines {
            Some(lines) => {
                let found = tokio::task::spawn_blocking(move || {
                    let start = tail::start(&mut file, lines);
                    (file, start)
                });
                let (again, start) = found.await.map_err(|err| failed("tail", std::io::Error::other(err)))?;
                file = again;
                start.map_err(|err| failed("tail", err))?
            }
            None => 0,
        };
        let mut file = File::from_std(file);
        file.seek(std::io::SeekFrom::Start(start)).await.map_err(|err| failed("seek in", err))?;
        let following = match options.follow {
            true => Some(Following {
                writes: Writes::of(&path).map_err(|err| failed("watch", err))?,
                events: runtime.events(),
                runtime,
                id,
                runs: true,
            }),
            false => None,
        };
        let file = BufReader::with_capacity(PIECE, file);
        Ok(Reading { file, shown: LineSelection::new(&options), path, begun: Vec::new(), following })
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let mut out = Vec::new();
        while !self.shown.is_over() {
            let ended = self.read_line().await?;
            let whole = self.begun.ends_with(b"\n");
            // The last line of a log that is not followed may be incomplete.
            let last = ended && self.following.is_none() && !self.begun.is_empty();
            if whole || last {
                self.shown.add(&self.begun, &mut out);
                self.begun.clear();
            }
            if out.len() >= PIECE || (ended && !out.is_empty()) {
                break;
            }
            if ended && !self.more().await? {
                break;
            }
        }
        Ok(if out.is_empty() { None } else { Some(out.into()) })
    }

    /// Reads to the end of a line or of the file. Returns true if it was the end of the file.
    async fn read_line(&mut self) -> std::io::Result<bool> {
        let available = self.file.fill_buf().await?;
        if available.is_empty() {
            return Ok(true);
        }
        let taken = match available.iter().position(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None => available.len(),
        };
        if self.begun.len() + taken > LONGEST {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "a line is too long"));
        }
        self.begun.extend_from_slice(&available[..taken]);
        self.file.consume(taken);
        Ok(false)
    }

    /// At the end of the file: waits for more. Returns false if there will be none.
    async fn more(&mut self) -> std::io::Result<bool> {
        let Some(following) = &mut self.following else { return Ok(false) };
        if !following.runs {
            return Ok(false);
        }
        if following.wait().await? == Change::Replaced
            && let Some(file) = reopened(&self.path)?
        {
            self.file = BufReader::with_capacity(PIECE, file);
            self.begun.clear();
        }
        Ok(true)
    }
}

/// Opens the file that is at the path now, if there is one.
fn reopened(path: &Path) -> std::io::Result<Option<File>> {
    match shared_file::open(path) {
        Ok(file) => Ok(Some(File::from_std(file))),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

impl Following {
    /// Waits until the file may have changed. The exit of the container is one last reason to read.
    async fn wait(&mut self) -> std::io::Result<Change> {
        self.runs = self.is_running().await;
        if !self.runs {
            return Ok(Change::Written);
        }
        let silent = !self.runtime.supports_events();
        loop {
            tokio::select! {
                change = self.writes.next() => return change,
                event = self.events.recv() => match event {
                    Ok(event) if event.container_id != self.id => {}
                    Ok(_) | Err(RecvError::Lagged(_)) => return Ok(Change::Written),
                    Err(RecvError::Closed) => {
                        self.runs = false;
                        return Ok(Change::Written);
                    }
                },
                () = tokio::time::sleep(RELIST), if silent => return Ok(Change::Written),
            }
        }
    }

    async fn is_running(&self) -> bool {
        match self.runtime.container_status(&self.id).await {
            Ok(status) => status.state == ContainerState::Running,
            // A runtime that cannot be reached says nothing about its containers.
            Err(err) => matches!(err, corten_container::Error::Unavailable(_)),
        }
    }
}
