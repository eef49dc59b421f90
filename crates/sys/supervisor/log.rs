//! Output of containers: written in the CRI's log format, and copied to attached clients.
//!
//! A line is written as soon as it is read; an incomplete line is written as a partial entry. So no output is delayed
//! and none is kept in memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::child::path_of;
use crate::kernel;
use crate::rooted::{self, Links, Root};

/// Maximum size of an entry, as in other runtimes.
const PART: usize = 16 * 1024;

/// Bytes of the output of an exited container that are read at least, if there are so many.
const LEAST_DRAINED: usize = 64 * 1024;

/// One output of a container.
pub(crate) struct Output {
    from: File,
    name: &'static str,
    sinks: Vec<Sink>,
}

/// An attached client, and the output that could not be written to it yet.
struct Sink {
    to: File,
    pending: Vec<u8>,
}

/// Opens or creates `<logs>/<pod>/<container>/<name>`. Pods that can write to the folder of logs must not choose the
/// file that output goes to, nor block the supervisor: no link is followed below it, and only regular files are opened.
pub(crate) fn open(path: &str) -> io::Result<File> {
    let mut parts = path.rsplitn(4, '/');
    let within: Vec<&str> = parts.by_ref().take(3).collect();
    let [name, container, pod] = within[..] else { return Err(io::ErrorKind::InvalidInput.into()) };
    // A path of the node: the folder of logs.
    let logs = Root::open(Path::new(parts.next().filter(|logs| !logs.is_empty()).unwrap_or("/")))?;
    let found = logs.file(&format!("{pod}/{container}/{name}"), Links::Refused)?;
    if !rooted::metadata(&found)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::options().append(true).open(path_of(&found))
}

impl Output {
    pub(crate) fn new(from: OwnedFd, name: &'static str) -> Output {
        Output { from: from.into(), name, sinks: Vec::new() }
    }

    pub(crate) fn attach(&mut self, to: OwnedFd) {
        self.sinks.push(Sink { to: to.into(), pending: Vec::new() });
    }

    /// The descriptor to read from; `None` while an attached client does not keep up: then the container has to wait.
    pub(crate) fn readable(&self) -> Option<RawFd> {
        self.sinks.iter().all(|sink| sink.pending.is_empty()).then(|| self.from.as_raw_fd())
    }

    pub(crate) fn waiting_sinks(&self) -> impl Iterator<Item = RawFd> {
        self.sinks.iter().filter(|sink| !sink.pending.is_empty()).map(|sink| sink.to.as_raw_fd())
    }

    pub(crate) fn retry_sinks(&mut self) {
        self.sinks.retain_mut(|sink| {
            let pending = std::mem::take(&mut sink.pending);
            sink.write(&pending)
        });
    }

    /// Reads available output. `false` at its end.
    pub(crate) fn pump(&mut self, log: Option<&mut File>) -> bool {
        self.take(log).is_some()
    }

    /// Reads a part of the output; returns its length, or `None` at the end.
    fn take(&mut self, log: Option<&mut File>) -> Option<usize> {
        let mut buffer = [0; PART];
        let read = match self.from.read(&mut buffer) {
            Ok(0) => return None,
            Ok(read) => &buffer[..read],
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Some(0);
            }
            Err(_) => return None,
        };
        if let Some(log) = log {
            // A full disk costs log lines, but never stops the container.
            let _ = log.write_all(&entries(read, self.name, SystemTime::now()));
        }
        self.sinks.retain_mut(|sink| sink.write(read));
        Some(read.len())
    }

    /// Reads everything that was written before now, however slow attached clients are. Later output is not read:
    /// another process may have the descriptor and write for ever.
    pub(crate) fn drain(&mut self, mut log: Option<&mut File>) {
        use std::os::fd::AsFd;
        // The kernel does not count the buffered output of a terminal.
        let mut left = kernel::waiting_bytes(self.from.as_fd()).unwrap_or(0).max(LEAST_DRAINED);
        while left > 0 {
            let mut awaited =
                [kernel::Awaited { descriptor: self.from.as_fd().as_raw_fd(), wanted: 1, found: 0 }];
            let waited = kernel::wait_for(&mut awaited, Some(0));
            if waited.is_err() || awaited[0].found & 1 == 0 {
                return;
            }
            match self.take(log.as_deref_mut()) {
                Some(taken @ 1..) => left = left.saturating_sub(taken),
                _ => return,
            }
        }
    }
}

impl Sink {
    /// Returns false if the client is gone.
    fn write(&mut self, bytes: &[u8]) -> bool {
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(bytes);
            return true;
        }
        let mut left = bytes;
        while !left.is_empty() {
            match self.to.write(left) {
                Ok(0) => return false,
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.pending.extend_from_slice(left);
                    return true;
                }
                Err(_) => return false,
            }
        }
        true
    }
}

/// Log entries for a piece of output.
fn entries(output: &[u8], name: &str, now: SystemTime) -> Vec<u8> {
    let time = timestamp(now);
    let mut entries = Vec::with_capacity(output.len() + 64);
    for line in output.split_inclusive(|&byte| byte == b'\n') {
        let (tag, text) = match line.strip_suffix(b"\n") {
            Some(text) => ("F", text),
            None => ("P", line),
        };
        for part in [time.as_bytes(), b" ", name.as_bytes(), b" ", tag.as_bytes(), b" ", text, b"\n"] {
            entries.extend_from_slice(part);
        }
    }
    entries
}

/// RFC 3339 in UTC, to the nanosecond.
fn timestamp(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Counted from March of year 0, so that leap days come last; in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(seconds: u64, nanoseconds: u32, expected: &str) {
        assert_eq!(timestamp(UNIX_EPOCH + Duration::new(seconds, nanoseconds)), expected);
    }

    #[test]
    fn times_are_written_in_full() {
        check(0, 0, "1970-01-01T00:00:00.000000000Z");
        check(951_782_400, 1, "2000-02-29T00:00:00.000000001Z");
        check(1_709_251_199, 999_999_999, "2024-02-29T23:59:59.999999999Z");
        check(4_102_444_800, 0, "2100-01-01T00:00:00.000000000Z");
    }

    #[test]
    fn lines_and_parts() {
        let text = entries(b"one\n\ntwo", "stderr", UNIX_EPOCH);
        let expected = "\
1970-01-01T00:00:00.000000000Z stderr F one
1970-01-01T00:00:00.000000000Z stderr F \n\
1970-01-01T00:00:00.000000000Z stderr P two\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
