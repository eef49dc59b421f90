//! Reading the past, from rows, beside the committer.
//!
//! Invariants: every row read is verified; a read never sees rows the caller has not asked for by
//! revision, so writes that are on disk but not yet published stay invisible. Whether a revision was
//! compacted meanwhile is for the caller to check *after* reading, because compaction is announced
//! before rows are removed.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{row, signed};
use crate::{Damage, Entry, Error, Event, Revision};

/// Connections for reading, opened when needed; one is kept for the next reader.
pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    connection: Option<Connection>,
    closed: bool,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Self {
        Readers { path, idle: Mutex::default() }
    }

    /// Runs `read` on one consistent snapshot of the database.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let idle = {
            let mut idle = self.idle.lock();
            if idle.closed {
                return Err(Error::Closed);
            }
            idle.connection.take()
        };
        let connection = match idle {
            Some(connection) => connection,
            None => super::open_beside(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        };
        let snapshot = connection.unchecked_transaction()?;
        let result = read(&snapshot)?;
        snapshot.finish()?;
        let mut idle = self.idle.lock();
        if !idle.closed {
            idle.connection = Some(connection);
        }
        Ok(result)
    }

    pub(crate) fn close(&self) {
        *self.idle.lock() = Idle { connection: None, closed: true };
    }
}

/// The events under `prefix` after one revision up to and including another, at most `limit`.
pub(crate) fn events(
    connection: &Connection,
    prefix: &str,
    after: Revision,
    up_to: Revision,
    limit: usize,
) -> Result<Vec<Arc<Event>>, Error> {
    let sql = format!("SELECT {}, value FROM kv WHERE {IN_WINDOW} LIMIT ?5", row::HEADER);
    let mut select = connection.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let end = prefix_end(prefix);
    let mut rows = select.query(params![signed(after), signed(up_to), prefix, end, limit])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let (header, current) = row::read(row)?;
        let previous = match header.previous {
            0 => None,
            previous => Some(replaced(connection, &header, previous)?),
        };
        let key = Arc::clone(&header.key);
        events.push(Arc::new(Event { revision: header.revision, key, current, previous }));
    }
    Ok(events)
}

/// For every key under `prefix` that changed after one revision up to and including another: its
/// entry as of the first.
pub(crate) fn undo(
    connection: &Connection,
    prefix: &str,
    after: Revision,
    up_to: Revision,
) -> Result<BTreeMap<Arc<str>, Option<Arc<Entry>>>, Error> {
    let sql = format!("SELECT {} FROM kv WHERE {IN_WINDOW}", row::HEADER);
    let mut select = connection.prepare_cached(&sql)?;
    let window = params![signed(after), signed(up_to), prefix, prefix_end(prefix)];
    let mut rows = select.query(window)?;
    let mut entries = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let header = row::Header::read(row)?;
        if entries.contains_key(&header.key) {
            continue;
        }
        let entry = match header.previous {
            0 => None,
            previous => Some(replaced(connection, &header, previous)?),
        };
        entries.insert(header.key, entry);
    }
    Ok(entries)
}

const IN_WINDOW: &str = "rev > ?1 AND rev <= ?2 AND key >= ?3 AND (?4 IS NULL OR key < ?4) ORDER BY rev";

/// The entry that the row of `header` replaced.
fn replaced(connection: &Connection, header: &row::Header, previous: Revision) -> Result<Arc<Entry>, Error> {
    let sql = format!("SELECT {}, value FROM kv WHERE rev = ?1", row::HEADER);
    let mut select = connection.prepare_cached(&sql)?;
    let found = select.query_row([signed(previous)], |row| Ok(row::read(row))).optional()?;
    match found.transpose()? {
        Some((_, Some(entry))) if entry.key == header.key => Ok(entry),
        _ => Err(Damage::Missing { key: header.key.to_string(), revision: header.revision, previous }.into()),
    }
}

/// The first string after all that start with `prefix`; `None` if nothing comes after them.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn ends_of_prefixes() {
        let end = |prefix: &str| prefix_end(prefix);
        assert_eq!(end("/pods/").as_deref(), Some("/pods0"));
        assert_eq!(end("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(end("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end("\u{10ffff}"), None);
        assert_eq!(end(""), None);
    }
}
