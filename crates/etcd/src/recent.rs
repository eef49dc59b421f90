//! The most recent events, in memory, for all watch streams.
//!
//! Invariants: holds every event after [`Ring::from`]; bounded by count, bytes and age; adding never waits for a stream. A
//! stream that is further behind reads history from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use corten_store::{Event, Observer, Revision, Store};
use parking_lot::Mutex;
use tokio::sync::watch::Receiver;

const MAX_EVENTS: usize = 8192;
const MAX_BYTES: usize = 8 << 20;
/// Events that are older are dropped.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The sizes of a page, which ends with a revision.
const PAGE_EVENTS: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;

/// Events in order, up to and including a revision.
pub(crate) struct Page {
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) up_to: Revision,
}

#[derive(Default)]
pub(crate) struct Recent {
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    /// Every event after this revision is here.
    from: Revision,
    /// The revision after the last event.
    to: Revision,
    events: VecDeque<(Instant, Arc<Event>)>,
    bytes: usize,
}

impl Recent {
    /// Begins to collect the events of a store.
    pub(crate) fn of(store: &Store) -> Arc<Recent> {
        let recent = Arc::new(Recent::default());
        let observer: Arc<dyn Observer> = Arc::clone(&recent) as Arc<dyn Observer>;
        let (revision, _) = store.observe("", observer);
        let mut ring = recent.ring.lock();
        if ring.events.is_empty() {
            ring.from = revision;
            ring.to = ring.to.max(revision);
        }
        drop(ring);
        recent
    }

    /// Drops old events after the last write, until the store closes or nothing reads them. There is no timer while nothing is
    /// written.
    pub(crate) async fn age(recent: Weak<Recent>, mut progress: Receiver<Revision>) {
        while progress.changed().await.is_ok() {
            loop {
                tokio::time::sleep(MAX_AGE).await;
                let Some(recent) = recent.upgrade() else { return };
                let mut ring = recent.ring.lock();
                ring.trim(Instant::now());
                if ring.events.is_empty() {
                    ring.events = VecDeque::new();
                    break;
                }
            }
        }
    }

    /// The revision up to which events are known.
    pub(crate) fn revision(&self) -> Revision {
        self.ring.lock().to
    }

    /// The events after a revision; `None` if some of them are no longer here.
    pub(crate) fn after(&self, revision: Revision) -> Option<Page> {
        let ring = self.ring.lock();
        if revision < ring.from {
            return None;
        }
        let start = ring.events.partition_point(|(_, event)| event.revision <= revision);
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (_, event) in ring.events.range(start..) {
            let full = events.len() >= PAGE_EVENTS || bytes >= PAGE_BYTES;
            if let Some(last) = events.last().map(|last: &Arc<Event>| last.revision)
                && full
                && last != event.revision
            {
                return Some(Page { events, up_to: last });
            }
            bytes += size(event);
            events.push(Arc::clone(event));
        }
        Some(Page { events, up_to: ring.to.max(revision) })
    }
}

impl Ring {
    fn trim(&mut self, now: Instant) {
        while let Some((when, event)) = self.events.front() {
            let over = self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES;
            let revision = event.revision;
            // A revision goes as a whole.
            if !over && now.duration_since(*when) < MAX_AGE && revision > self.from {
                return;
            }
            self.bytes -= size(event);
            self.from = revision;
            self.events.pop_front();
        }
    }
}

impl Observer for Recent {
    fn apply(&self, events: &[Arc<Event>], revision: Revision) {
        let now = Instant::now();
        let mut ring = self.ring.lock();
        if ring.to == 0 {
            // The first events, before `of` knows the revision that they follow.
            ring.from = events.first().map_or(revision, |event| event.revision - 1);
        }
        ring.to = revision;
        ring.bytes += events.iter().map(|event| size(event)).sum::<usize>();
        ring.events.extend(events.iter().map(|event| (now, Arc::clone(event))));
        ring.trim(now);
    }
}

/// The bytes that an event keeps, about.
fn size(event: &Event) -> usize {
    let entry =
        |entry: &Option<Arc<corten_store::Entry>>| entry.as_ref().map_or(0, |entry| entry.value.len());
    128 + event.key.len() + entry(&event.current) + entry(&event.previous)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: Revision, key: &str) -> Arc<Event> {
        Arc::new(Event { revision, key: key.into(), current: None, previous: None })
    }

    fn revisions(page: Option<Page>) -> Option<(Vec<Revision>, Revision)> {
        page.map(|page| (page.events.iter().map(|event| event.revision).collect(), page.up_to))
    }

    #[test]
    fn pages_end_with_a_revision() {
        let recent = Recent::default();
        recent.apply(&[event(5, "a"), event(5, "b"), event(7, "a")], 8);
        assert_eq!(revisions(recent.after(4)), Some((vec![5, 5, 7], 8)));
        assert_eq!(revisions(recent.after(5)), Some((vec![7], 8)));
        assert_eq!(revisions(recent.after(8)), Some((vec![], 8)));
        assert_eq!(revisions(recent.after(3)), None);
        let many: Vec<_> = (0..PAGE_EVENTS as u64 * 2).map(|number| event(9 + number / 3, "a")).collect();
        recent.apply(&many, 9 + 2000);
        let (page, up_to) = revisions(recent.after(8)).unwrap();
        assert_eq!(up_to, *page.last().unwrap());
        assert_eq!(page.len() % 3, 0, "no revision is split");
    }

    #[test]
    fn old_events_are_dropped_by_whole_revisions() {
        let recent = Recent::default();
        for revision in 1..=MAX_EVENTS as u64 {
            recent.apply(&[event(revision, "a"), event(revision, "b")], revision);
        }
        let ring = recent.ring.lock();
        assert!(ring.events.len() <= MAX_EVENTS);
        let oldest = ring.events.front().unwrap().1.revision;
        assert_eq!(ring.from, oldest - 1, "both events of the oldest revision are there");
        assert_eq!(ring.bytes, ring.events.iter().map(|(_, event)| size(event)).sum::<usize>());
    }
}
