//! The committer's side of the database: appending rows, and removing those that are compacted.

use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::{meta, row::Header, signed, unsigned};
use crate::{Error, LeaseId, Revision, lease::Term, plan::Changes};

const INSERT: &str = "INSERT INTO kv
    (rev, key, prev, create_rev, version, lease, deleted, digest, sum, value)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const SUPERSEDED: &str =
    "SELECT rev, prev, deleted FROM kv WHERE rev > ?1 AND rev <= ?2 ORDER BY rev LIMIT ?3";

/// What a row costs in the log beyond its value, roughly.
const ROW_BYTES: usize = 128;
/// What a transaction costs in the log beyond its rows, roughly.
const TRANSACTION_BYTES: usize = super::PAGE_BYTES as usize;

/// How long a straggling reader can hold up the last fold; without it the next open takes longer.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Engine {
    connection: Connection,
    /// Rows superseded at or before this revision are gone.
    scrubbed: Revision,
}

/// How much of the compacted history to remove along with a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrub {
    pub(crate) up_to: Revision,
    pub(crate) rows: usize,
}

impl Engine {
    pub(crate) fn new(connection: Connection, scrubbed: Revision) -> Self {
        Engine { connection, scrubbed }
    }

    pub(crate) fn scrubbed(&self) -> Revision {
        self.scrubbed
    }

    /// Makes the changes durable, all or none, and returns the bytes the log grew by, roughly.
    pub(crate) fn commit(&mut self, changes: &Changes, scrub: Option<Scrub>) -> Result<usize, Error> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, behavior)?;
        let mut written = TRANSACTION_BYTES + insert(&transaction, changes)?;
        for (id, term) in &changes.leases {
            write_lease(&transaction, *id, term.as_ref())?;
        }
        if let Some(revision) = changes.compacted {
            set_meta(&transaction, meta::COMPACTED, revision)?;
        }
        let mut scrubbed = self.scrubbed;
        if let Some(scrub) = scrub {
            let (reached, removed) = remove_superseded(&transaction, self.scrubbed, scrub)?;
            written += removed * TRANSACTION_BYTES;
            scrubbed = reached;
            set_meta(&transaction, meta::SCRUBBED, scrubbed)?;
        }
        transaction.commit()?;
        self.scrubbed = scrubbed;
        Ok(written)
    }

    pub(crate) fn checkpoint(&self) -> Result<bool, Error> {
        super::checkpoint(&self.connection)
    }

    /// Folds the log into the database and empties it.
    pub(crate) fn close(self) -> Result<(), Error> {
        self.connection.busy_timeout(CLOSE_PATIENCE)?;
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.connection.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

fn insert(connection: &Connection, changes: &Changes) -> Result<usize, Error> {
    let mut statement = connection.prepare_cached(INSERT)?;
    let mut written = 0;
    for write in &changes.writes {
        let header = Header::of(&write.event, write.digest);
        let value: &[u8] = write.event.current.as_ref().map_or(&[], |entry| &entry.value);
        statement.execute(params![
            signed(header.revision),
            &*header.key,
            signed(header.previous),
            signed(header.create_revision),
            signed(header.version),
            signed(header.lease),
            header.deleted,
            signed(header.digest),
            signed(header.sum()),
            value,
        ])?;
        written += ROW_BYTES + value.len();
    }
    Ok(written)
}

fn write_lease(connection: &Connection, id: LeaseId, term: Option<&Term>) -> Result<(), Error> {
    match term {
        Some(term) => {
            let sql = "INSERT INTO lease (id, ttl_ms, expires_ms) VALUES (?1, ?2, ?3)
                       ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms";
            let values = params![signed(id.0), signed(term.ttl_ms()), signed(term.expires_ms())];
            connection.prepare_cached(sql)?.execute(values)?;
        }
        None => {
            let sql = "DELETE FROM lease WHERE id = ?1";
            connection.prepare_cached(sql)?.execute([signed(id.0)])?;
        }
    }
    Ok(())
}

pub(super) fn set_meta(connection: &Connection, name: &str, number: u64) -> Result<(), Error> {
    let sql = "INSERT INTO meta (name, number) VALUES (?1, ?2)
               ON CONFLICT (name) DO UPDATE SET number = excluded.number";
    connection.prepare_cached(sql)?.execute(params![name, signed(number)])?;
    Ok(())
}

/// Removes what rows after `scrubbed` replaced, and those rows themselves if they are deletions.
/// Returns how far it came and how many rows it removed.
fn remove_superseded(
    connection: &Connection,
    scrubbed: Revision,
    scrub: Scrub,
) -> Result<(Revision, usize), Error> {
    let limit = i64::try_from(scrub.rows).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(SUPERSEDED)?;
    let range = params![signed(scrubbed), signed(scrub.up_to), limit];
    let superseded = select
        .query_map(range, |row| Ok((unsigned(row.get(0)?), unsigned(row.get(1)?), row.get::<_, bool>(2)?)))?;
    let superseded = superseded.collect::<Result<Vec<_>, _>>()?;
    let mut delete = connection.prepare_cached("DELETE FROM kv WHERE rev = ?1")?;
    let mut removed = 0;
    for (revision, previous, deleted) in &superseded {
        if *previous != 0 {
            removed += delete.execute([signed(*previous)])?;
        }
        if *deleted {
            removed += delete.execute([signed(*revision)])?;
        }
    }
    let reached = match superseded.last() {
        Some((revision, ..)) if superseded.len() == scrub.rows => *revision,
        _ => scrub.up_to,
    };
    Ok((reached, removed))
}
