//! Rebuilding memory from rows when the store opens, and finding out whether all are there.
//!
//! Checked, in this order: every row's header against its checksum; every link of the uncompacted
//! history against the row it names; the last revision against the witness; the set of live rows
//! against the digest in the last row; every live value against its checksum. Values of superseded
//! rows are checked when they are read.

use std::{collections::HashMap, sync::Arc, time::Instant};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::{
    meta,
    row::{self, Header},
    signed, unsigned,
    write::set_meta,
};
use crate::{
    Damage, Error, LeaseId, Revision,
    lease::{Leases, Term},
    state::State,
    witness::Marks,
};

pub(crate) struct Loaded {
    pub(crate) state: State,
    pub(crate) leases: Leases,
    pub(crate) compacted: Revision,
    pub(crate) scrubbed: Revision,
    /// The last revision that may have been handed out.
    pub(crate) assigned: Revision,
}

/// What to do about damage: refuse, or note it and go on with what is left.
pub(crate) struct Tolerance {
    accept_loss: bool,
    lost: bool,
}

impl Tolerance {
    pub(crate) fn new(accept_loss: bool) -> Self {
        Tolerance { accept_loss, lost: false }
    }

    pub(crate) fn meet(&mut self, damage: Damage) -> Result<(), Error> {
        if !self.accept_loss {
            return Err(damage.into());
        }
        tracing::error!(%damage, "accepting a loss of acknowledged writes");
        self.lost = true;
        Ok(())
    }
}

pub(crate) fn load(
    connection: &Connection,
    marks: Marks,
    tolerance: &mut Tolerance,
) -> Result<Loaded, Error> {
    // One snapshot for all reads: taking one per value would cost more than reading it.
    let snapshot = connection.unchecked_transaction()?;
    let number = |name| get_meta(connection, name);
    let anchor = (number(meta::ANCHOR_REVISION)?, number(meta::ANCHOR_DIGEST)?);
    let scrubbed = number(meta::SCRUBBED)?;
    let links = read_links(connection, scrubbed, anchor, tolerance)?;
    if marks.acknowledged > links.revision {
        let (recovered, acknowledged) = (links.revision, marks.acknowledged);
        tolerance.meet(Damage::LostTail { recovered, acknowledged })?;
    }
    let mut loaded = Loaded {
        state: read_values(connection, links.live, tolerance)?,
        leases: read_leases(connection)?,
        compacted: number(meta::COMPACTED)?,
        scrubbed,
        assigned: links.revision.max(marks.assigned).max(marks.acknowledged),
    };
    snapshot.finish()?;
    loaded.state.revision = links.revision;
    if loaded.state.digest != links.digest {
        tolerance.meet(Damage::Live { revision: links.revision })?;
    }
    if tolerance.lost {
        loaded.state.revision = loaded.assigned;
        loaded.compacted = loaded.assigned;
        loaded.scrubbed = loaded.assigned;
        settle(connection, &loaded)?;
    }
    for entry in loaded.state.all() {
        if let Some(id) = entry.lease {
            loaded.leases.attach(&entry.key, id);
        }
    }
    Ok(loaded)
}

/// What the headers alone say.
struct Links {
    live: HashMap<Arc<str>, Header>,
    revision: Revision,
    /// What the digest of the live entries ought to be.
    digest: u64,
}

fn read_links(
    connection: &Connection,
    scrubbed: Revision,
    (anchor_revision, anchor_digest): (Revision, u64),
    tolerance: &mut Tolerance,
) -> Result<Links, Error> {
    let mut links = Links { live: HashMap::new(), revision: anchor_revision, digest: anchor_digest };
    let mut select = connection.prepare(&format!("SELECT {} FROM kv ORDER BY rev", row::HEADER))?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let header = match Header::read(row) {
            Err(Error::Corrupt(damage)) => {
                tolerance.meet(damage)?;
                continue;
            }
            header => header?,
        };
        let replaced = links.live.get(&header.key).map_or(0, |header| header.revision);
        if replaced != header.previous && header.revision > scrubbed {
            tolerance.meet(Damage::Missing {
                key: header.key.to_string(),
                revision: header.revision,
                previous: header.previous,
            })?;
        }
        if header.revision > anchor_revision {
            links.revision = header.revision;
            links.digest = header.digest;
        }
        if header.deleted {
            links.live.remove(&header.key);
        } else {
            links.live.insert(Arc::clone(&header.key), header);
        }
    }
    Ok(links)
}

fn read_values(
    connection: &Connection,
    live: HashMap<Arc<str>, Header>,
    tolerance: &mut Tolerance,
) -> Result<State, Error> {
    let mut headers: Vec<Header> = live.into_values().collect();
    headers.sort_unstable_by_key(|header| header.revision);
    let mut state = State::default();
    let mut select = connection.prepare("SELECT value FROM kv WHERE rev = ?1")?;
    for header in headers {
        let mut rows = select.query([signed(header.revision)])?;
        let entry = match rows.next()? {
            Some(row) => header.entry(row.get_ref(0)?.as_blob().unwrap_or_default()),
            None => Err(Damage::Live { revision: header.revision }.into()),
        };
        match entry {
            Err(Error::Corrupt(damage)) => tolerance.meet(damage)?,
            entry => {
                if let Some(entry) = entry? {
                    state.restore(entry);
                }
            }
        }
    }
    Ok(state)
}

fn read_leases(connection: &Connection) -> Result<Leases, Error> {
    let now = Instant::now();
    let mut leases = Leases::default();
    let mut select = connection.prepare("SELECT id, ttl_ms, expires_ms FROM lease")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let term = Term::restore(unsigned(row.get(1)?), unsigned(row.get(2)?), now);
        leases.set(LeaseId(unsigned(row.get(0)?)), Some(term));
    }
    let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'lease'";
    let last: Option<i64> = connection.query_row(sql, [], |row| row.get(0)).optional()?;
    leases.last = leases.last.max(last.map_or(0, unsigned));
    Ok(leases)
}

/// After an accepted loss: removes every row that is not live, so that the next load finds a store
/// that is smaller but whole.
fn settle(connection: &Connection, loaded: &Loaded) -> Result<(), Error> {
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let mut live: Vec<i64> = loaded.state.all().map(|entry| signed(entry.mod_revision)).collect();
    live.sort_unstable();
    let mut select = transaction.prepare("SELECT rev FROM kv ORDER BY rev")?;
    let rows: Vec<i64> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    drop(select);
    for revision in rows {
        if live.binary_search(&revision).is_err() {
            transaction.execute("DELETE FROM kv WHERE rev = ?1", [revision])?;
        }
    }
    set_meta(&transaction, meta::COMPACTED, loaded.compacted)?;
    set_meta(&transaction, meta::SCRUBBED, loaded.scrubbed)?;
    set_meta(&transaction, meta::ANCHOR_REVISION, loaded.state.revision)?;
    set_meta(&transaction, meta::ANCHOR_DIGEST, loaded.state.digest)?;
    transaction.commit()?;
    Ok(())
}

fn get_meta(connection: &Connection, name: &str) -> Result<u64, Error> {
    let sql = "SELECT number FROM meta WHERE name = ?1";
    let number: Option<i64> = connection.query_row(sql, [name], |row| row.get(0)).optional()?;
    Ok(number.map_or(0, unsigned))
}
