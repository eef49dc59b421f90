//! Reads of history beyond compaction. Lists and watches never use them.
//!
//! The oldest state that can be read is the one at the base of the oldest generation; the files of a generation that is pruned
//! during a read stay readable until the read ends.

use crate::{Error, Kept, PastVersion, Range, Revision, Store, embedded::Embedded, log::past};

const NONE: Error = Error::Invalid("the store keeps no history");

impl Store {
    /// The beginning of history; `None` if the store keeps none. etcd keeps what is not compacted, without times, which is
    /// no history here.
    pub async fn kept(&self) -> Result<Option<Kept>, Error> {
        let Some(embedded) = self.keeping() else { return Ok(None) };
        embedded
            .blocking(|shared| {
                let extents = past::extents(&shared.generations)?;
                let revision = extents.first().map_or(0, |extent| extent.base);
                Ok(Some(Kept { revision, time_ms: past::begin_ms(&shared.generations)? }))
            })
            .await
    }

    /// The last versions of a key before a revision, newest first: at most `limit` and a few megabytes, at least one if there
    /// is one. Deletions are among them.
    pub async fn versions(
        &self,
        key: &str,
        before: Revision,
        limit: usize,
    ) -> Result<Vec<PastVersion>, Error> {
        let (embedded, key) = (self.keeping().ok_or(NONE)?, key.to_owned());
        embedded
            .blocking(move |shared| {
                let before = before.min(shared.live.revision().saturating_add(1));
                let found = past::versions(&shared.generations, &key, before, limit.max(1))?;
                if !found.is_empty() {
                    return Ok(found);
                }
                // Nothing changed since history begins: the current version is the only one.
                let current = shared.live.state.read().get(&key).cloned();
                let current = current.filter(|entry| entry.mod_revision < before).into_iter();
                Ok(current
                    .map(|entry| PastVersion {
                        revision: entry.mod_revision,
                        time_ms: None,
                        entry: Some(entry),
                    })
                    .collect())
            })
            .await
    }

    /// The last revision at a time, in milliseconds since 1970, and the time of its commit; `None` if history begins later.
    pub async fn revision_at(&self, time_ms: u64) -> Result<Option<(Revision, u64)>, Error> {
        let embedded = self.keeping().ok_or(NONE)?;
        embedded
            .blocking(move |shared| {
                let current = shared.live.revision();
                let found = past::revision_at(&shared.generations, time_ms)?;
                Ok(found.map(|(revision, time)| (revision.min(current), time)))
            })
            .await
    }

    /// The entries under `prefix` as of a revision that history has, compacted or not.
    pub async fn past_range(&self, prefix: &str, revision: Revision) -> Result<Range, Error> {
        let (embedded, prefix) = (self.keeping().ok_or(NONE)?, prefix.to_owned());
        embedded
            .blocking(move |shared| {
                let oldest = past::extents(&shared.generations)?.first().map_or(0, |extent| extent.base);
                if revision < oldest {
                    return Err(Error::Compacted { requested: revision, compacted: oldest });
                }
                shared.state_at(&prefix, "", 0, revision)
            })
            .await
    }

    fn keeping(&self) -> Option<&Embedded> {
        self.embedded().ok().filter(|embedded| embedded.keep.is_some())
    }
}
