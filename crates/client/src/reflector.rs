//! Keeps a cache in sync with the server: the initial state first, then every watch event. A watch that ends is resumed; if
//! the server has compacted the resource version (410), the state is listed again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corten_base::{Backoff, Clock};
use futures_util::StreamExt;

use crate::transport::WatchEvent;
use crate::{Cache, Client, Error, Key, Object, Seen};

const RETRY: Backoff = Backoff { first: Duration::from_millis(800), longest: Duration::from_secs(30) };

/// Watches the server until the task is dropped.
pub(crate) async fn run(cache: Arc<Cache>, client: Client, clock: Clock) {
    let mut reflector = Reflector { cache, version: String::new(), seen: None };
    let mut failures = 0;
    loop {
        match reflector.watch(&client).await {
            // Servers close watches regularly; resuming loses nothing.
            Ok(()) => failures = 0,
            Err(error) => {
                if error.is_expired() {
                    reflector.version.clear();
                }
                failures += 1;
                let (kind, backoff) = (&reflector.cache.kind().plural, RETRY.delay(failures));
                tracing::debug!(%kind, err = %error, ?backoff, "watch failed; retrying");
                clock.sleep(backoff).await;
            }
        }
    }
}

struct Reflector {
    cache: Arc<Cache>,
    /// The resource version to resume from; empty to list again.
    version: String,
    /// While the server sends the initial state: the keys received so far.
    seen: Option<HashSet<Key>>,
}

impl Reflector {
    async fn watch(&mut self, client: &Client) -> Result<(), Error> {
        if self.version.is_empty() {
            self.seen = Some(HashSet::new());
        }
        let kind = self.cache.kind().clone();
        let mut events = client.watch(&kind, self.version.clone()).await?;
        while let Some(event) = events.next().await {
            match event? {
                WatchEvent::Present(seen) => self.present(seen)?,
                WatchEvent::Deleted { last, revision } => self.deleted(&last, revision)?,
                WatchEvent::Bookmark { version, ends_initial } => {
                    if ends_initial {
                        self.remove_unseen(&version);
                    }
                    self.reach(version);
                }
            }
        }
        Ok(())
    }

    fn present(&mut self, seen: Seen) -> Result<(), Error> {
        let object = Object::read(seen).map_err(Error::transport)?;
        let (key, revision) = (object.key.clone(), object.revision);
        if let Some(seen) = &mut self.seen {
            seen.insert(key.clone());
        } else {
            self.version = revision.to_string();
        }
        // The revisions of initial objects say nothing about the revision of the list.
        let reached = if self.seen.is_some() { 0 } else { revision };
        if self.cache.get(&key).is_none_or(|known| known.uid != object.uid || known.revision < revision) {
            let object = Arc::new(object);
            self.cache.apply(&key, Some(object.clone()), reached);
            object.forget_tree();
        }
        Ok(())
    }

    fn deleted(&mut self, last: &Seen, revision: u64) -> Result<(), Error> {
        let key = Key::of(&*last.tree().map_err(Error::transport)?);
        self.version = revision.to_string();
        self.cache.apply(&key, None, revision);
        Ok(())
    }

    /// Removes objects that were not in the initial state: they were deleted meanwhile.
    fn remove_unseen(&mut self, version: &str) {
        let Some(seen) = self.seen.take() else { return };
        let revision = version.parse().unwrap_or(0);
        for object in self.cache.list("") {
            if !seen.contains(&object.key) {
                self.cache.apply(&object.key, None, revision);
            }
        }
        self.cache.advance(|progress| progress.synced = true);
    }

    fn reach(&mut self, version: String) {
        let revision = version.parse().unwrap_or(0);
        self.cache.advance(|progress| progress.revision = progress.revision.max(revision));
        self.version = version;
    }
}
