//! The embedded engine: one SQLite database that makes commits durable, keeps recent history and
//! loads fast. It knows rows; conditions, live entries and watchers are not its business.
//!
//! Every write is one row of `kv`, appended under its revision, and names the revision it replaces
//! (`prev`). Following those links answers every question about the past, so there is no index to
//! maintain: a put dirties little more than the last page.
//!
//! Invariants: rows are never changed, only appended and, once compacted, removed; the row with the
//! highest revision is never removed, so revisions are not reused; a commit returns after its sync.

pub(crate) mod history;
pub(crate) mod load;
mod log;
mod row;
mod write;

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::{Error, Options};

pub(crate) use write::{Engine, Scrub};

/// Two objects of the usual size share a page, and few are split over several.
const PAGE_BYTES: u32 = 16384;
const FORMAT: i64 = 1;
/// "cort"
const APPLICATION: i64 = 0x636f_7274;

const SCHEMA: &str = "
CREATE TABLE kv (
    rev INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    prev INTEGER NOT NULL,
    create_rev INTEGER NOT NULL,
    version INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    value BLOB NOT NULL
) STRICT;
CREATE TABLE lease (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ttl_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE meta (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT, WITHOUT ROWID;
";

/// Names in `meta`.
mod meta {
    /// History up to here may be gone.
    pub(super) const COMPACTED: &str = "compacted";
    /// Rows superseded up to here are gone.
    pub(super) const SCRUBBED: &str = "scrubbed";
    /// After an accepted loss: where the digest was computed anew, and its value.
    pub(super) const ANCHOR_REVISION: &str = "anchor_revision";
    pub(super) const ANCHOR_DIGEST: &str = "anchor_digest";
}

/// Opens the database for the committer, creating it if it is not there.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Connection, Error> {
    let connection = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    // A log that turns out to be damaged must still be there at the next attempt.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    let keep = i64::try_from(options.checkpoint_bytes.saturating_mul(2)).unwrap_or(i64::MAX);
    connection.pragma_update(None, "journal_size_limit", keep)?;
    connection.pragma_update(None, "cache_size", -1024)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    create(&connection)?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(connection)
}

/// Opens the database beside the committer's connection.
pub(crate) fn open_beside(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -128)?;
    Ok(connection)
}

/// Folds the log into the database as far as readers allow; false if another connection is at it.
pub(crate) fn checkpoint(connection: &Connection) -> Result<bool, Error> {
    let busy: bool = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
    Ok(!busy)
}

fn create(connection: &Connection) -> Result<(), Error> {
    let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if format == 0 && tables == 0 {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {SCHEMA}
             PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}; COMMIT;"
        ))?;
        return Ok(());
    }
    if format != FORMAT {
        return Err(Error::Format { found: format, supported: FORMAT });
    }
    Ok(())
}

/// The log as SQLite keeps it beside the database.
pub(crate) fn damaged_log(database: &Path) -> Result<Option<u64>, Error> {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    log::first_lost_frame(Path::new(&name))
}

/// Revisions and the like are stored in SQLite's signed integers bit by bit.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}

fn unsigned(number: i64) -> u64 {
    number.cast_unsigned()
}
