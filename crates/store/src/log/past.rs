//! History beyond compaction: past versions of keys with their times.
//!
//! Lists and watches never see it: for them, what is compacted is gone. Frames have their time only while history is kept, so
//! that a store without it pays nothing.
//!
//! Invariants: a read returns nothing beyond the published revision, and holds no more than it returns; what was pruned is
//! an error, never an earlier state.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{
    file::{Buffer, LogFile, START},
    frame::Frame,
    generations::{Generation, Generations},
    history::Past,
    record::Record,
};
use crate::{Error, PastVersion, Revision};

/// A page of versions holds no more bytes than this, unless one version alone is larger.
const PAGE_BYTES: usize = 8 << 20;

/// Now, as frames have it.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A generation as retention sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) base: Revision,
    /// The bytes of its log, and of its snapshot.
    pub(crate) log: u64,
    pub(crate) snapshot: u64,
    /// The times of its first and last commit, if it has them.
    pub(crate) first_ms: Option<u64>,
    pub(crate) last_ms: Option<u64>,
}

/// The generations, oldest first. The last commit of the current one is not read.
pub(crate) fn extents(generations: &Generations) -> Result<Vec<Extent>, Error> {
    let all = generations.all()?;
    let mut extents = Vec::with_capacity(all.len());
    for (index, generation) in all.iter().enumerate() {
        let Generation { log, snapshot } = &**generation;
        let last = all.get(index + 1).map(|next| next.log.base);
        extents.push(Extent {
            base: log.base,
            log: log.end() - START,
            snapshot: snapshot.get().map_or(0, LogFile::end),
            first_ms: time_at(log, START)?,
            last_ms: match last {
                Some(last) if last > log.base => time_at(log, log.frame_after(last - 1)?)?,
                _ => None,
            },
        });
    }
    Ok(extents)
}

/// The time of the frame at an offset.
fn time_at(log: &LogFile, at: u64) -> Result<Option<u64>, Error> {
    if at >= log.end() {
        return Ok(None);
    }
    let mut buffer = Buffer::default();
    let frame = log.expect_frame(at, &mut buffer)?;
    time_of(&frame, log, at)
}

/// The time of a frame, which is its first record.
fn time_of(frame: &Frame<'_>, log: &LogFile, at: u64) -> Result<Option<u64>, Error> {
    match frame.records(&log.name, at).next().transpose()? {
        Some(Record::Time(time)) => Ok(Some(time)),
        _ => Ok(None),
    }
}

/// The time of the first commit that has one.
pub(crate) fn begin_ms(generations: &Generations) -> Result<Option<u64>, Error> {
    for generation in generations.all()? {
        let log = &generation.log;
        let (mut at, mut buffer) = (START, Buffer::default());
        while at < log.end() {
            let frame = log.expect_frame(at, &mut buffer)?;
            if let Some(time) = time_of(&frame, log, at)? {
                return Ok(Some(time));
            }
            at = frame.head.end(at);
        }
    }
    Ok(None)
}

/// The last revision that was committed at a time or before it, and when; `None` if that was before history begins. If the clock
/// was set back, a time occurs twice, and the later one counts.
pub(crate) fn revision_at(generations: &Generations, time: u64) -> Result<Option<(Revision, u64)>, Error> {
    let mut buffer = Buffer::default();
    for generation in generations.all()?.iter().rev() {
        let log = &generation.log;
        let (mut at, mut found) = (START, None);
        while at < log.end() {
            let frame = log.expect_frame(at, &mut buffer)?;
            let stamped = time_of(&frame, log, at)?;
            if let Some(stamped) = stamped.filter(|stamped| *stamped <= time) {
                found = Some((frame.head.last, stamped));
            }
            at = frame.head.end(at);
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The last versions of a key before a revision, newest first; deletions are among them.
pub(crate) fn versions(
    generations: &Generations,
    key: &str,
    before: Revision,
    limit: usize,
) -> Result<Vec<PastVersion>, Error> {
    let past = Past::of(generations)?;
    let mut found: Vec<PastVersion> = Vec::new();
    let mut first = None;
    for generation in past.generations.iter().rev().filter(|generation| generation.log.base < before) {
        let of_log = versions_of_log(&past, &generation.log, key, before, limit - found.len())?;
        first = of_log.replaced_first.or(first);
        found.extend(of_log.versions);
        if of_log.is_cut || found.len() >= limit || bytes(&found) >= PAGE_BYTES {
            return Ok(found);
        }
    }
    // The version that the oldest write replaced is in the first snapshot; its time is not known.
    if let Some(previous) = first.filter(|previous| *previous > 0)
        && let Some(entry) = past.entry(key, previous)?
    {
        found.push(PastVersion { revision: entry.mod_revision, time_ms: None, entry: Some(entry) });
    }
    Ok(found)
}

/// The versions of a key in one log.
#[derive(Default)]
struct OfLog {
    /// Newest first.
    versions: VecDeque<PastVersion>,
    /// True if the log has older ones than these.
    is_cut: bool,
    /// The revision that the oldest write of the key replaced, that at the page's end included; 0 for a creation.
    replaced_first: Option<Revision>,
}

fn versions_of_log(
    past: &Past<'_>,
    log: &LogFile,
    key: &str,
    before: Revision,
    limit: usize,
) -> Result<OfLog, Error> {
    let mut of_log = OfLog::default();
    let (mut at, mut buffer) = (START, Buffer::default());
    while at < log.end() {
        let frame = log.expect_frame(at, &mut buffer)?;
        let mut time_ms = None;
        for record in frame.records(&log.name, at) {
            let write = match record? {
                Record::Time(time) => {
                    time_ms = Some(time);
                    continue;
                }
                Record::Write(write) if write.key == key && write.revision <= before => write,
                _ => continue,
            };
            of_log.replaced_first.get_or_insert(write.previous);
            if write.revision < before {
                let entry = past.opened(write.entry(key.into()))?;
                of_log.versions.push_front(PastVersion { revision: write.revision, time_ms, entry });
            }
            let versions = &mut of_log.versions;
            if versions.len() > limit || (versions.len() > 1 && bytes(versions.iter()) > PAGE_BYTES) {
                versions.pop_back();
                of_log.is_cut = true;
            }
        }
        at = frame.head.end(at);
    }
    Ok(of_log)
}

fn bytes<'v>(versions: impl IntoIterator<Item = &'v PastVersion>) -> usize {
    let entries = versions.into_iter().filter_map(|version| version.entry.as_ref());
    entries.map(|entry| entry.value.len()).sum()
}
