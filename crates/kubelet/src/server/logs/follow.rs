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

use super::lines::Shown;
use super::options::LogOptions;
use super::tail;
use crate::shared_file;

/// How much is read and sent at once.
const PIECE: usize = 32 * 1024;
/// Runtimes break lines long before this: a longer one was not written by one.
const LONGEST: usize = 16 << 20;
/// How often a runtime is asked that does not tell when a container ends.
const RELIST: Duration = Duration::from_secs(1);

/// A log that is being read.
pub(super) struct Reading {
    file: BufReader<File>,
    path: PathBuf,
    shown: Shown,
    /// The beginning of a line whose end is not written yet.
    begun: Vec<u8>,
    following: Option<Following>,
}

/// What tells that there is more to read, or that there will not be.
struct Following {
    writes: Writes,
    runtime: Arc<dyn Runtime>,
    events: broadcast::Receiver<ContainerEvent>,
    id: String,
    runs: bool,
}

impl Reading {
    pub(super) async fn begin(
        runtime: Arc<dyn Runtime>,
        id: String,
        options: LogOptions,
    ) -> Result<Reading, String> {
        let status = runtime
            .container_status(&id)
            .await
            .map_err(|error| format!("failed to get container status {id:?}: {error}"))?;
        let path = PathBuf::from(&status.log_path);
        let failed =
            |what: &str, error: std::io::Error| format!("failed to {what} log file {path:?}: {error}");
        let mut file = shared_file::open(&path).map_err(|error| failed("open", error))?;
        let start = match options.tail_lines {
            Some(lines) => {
                let found = tokio::task::spawn_blocking(move || {
                    let start = tail::start(&mut file, lines);
                    (file, start)
                });
                let (again, start) = found.await.map_err(|error| error.to_string())?;
                file = again;
                start.map_err(|error| failed("tail", error))?
            }
            None => 0,
        };
        let mut file = File::from_std(file);
        file.seek(std::io::SeekFrom::Start(start)).await.map_err(|error| failed("seek in", error))?;
        let following = match options.follow {
            true => Some(Following {
                writes: Writes::of(&path).map_err(|error| failed("watch", error))?,
                events: runtime.events(),
                runtime,
                id,
                runs: true,
            }),
            false => None,
        };
        let file = BufReader::with_capacity(PIECE, file);
        Ok(Reading { file, shown: Shown::new(&options), path, begun: Vec::new(), following })
    }

    /// What comes next; `None` at the end.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let mut out = Vec::new();
        while !self.shown.is_over() {
            let ended = self.read_line().await?;
            let whole = self.begun.ends_with(b"\n");
            // The last line of a log that nobody goes on with is shown as far as it goes.
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

    /// Reads to the end of a line or of the file; whether it was the file's.
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

    /// At the end of the file: waits until there may be more, if there ever will be.
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

/// The file that is at the path now, if there is one.
fn reopened(path: &Path) -> std::io::Result<Option<File>> {
    match shared_file::open(path) {
        Ok(file) => Ok(Some(File::from_std(file))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Following {
    /// Waits until there may be something new in the file. The end of the container is one last reason to look.
    async fn wait(&mut self) -> std::io::Result<Change> {
        self.runs = self.is_running().await;
        if !self.runs {
            return Ok(Change::Written);
        }
        let silent = !self.runtime.tells_events();
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
            Err(error) => matches!(error, corten_container::Error::Unavailable(_)),
        }
    }
}
