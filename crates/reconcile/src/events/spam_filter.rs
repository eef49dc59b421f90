//! Limits the events of a component about one object, with upstream's numbers: 25 at once, then one every five minutes.
//!
//! A pod that cannot pull its image would otherwise be written about with every attempt.

use std::collections::HashMap;

use corten_api::Str;
use jiff::Timestamp;

use super::{Event, EventKind, MAX_REMEMBERED};

const BURST: f64 = 25.0;
const SECONDS_PER_EVENT: f64 = 300.0;

#[derive(Default)]
pub(super) struct SpamFilter(HashMap<Source, Tokens>);

/// The events that share a limit.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Source {
    component: Str,
    host: Str,
    kind: EventKind,
    about: [Str; 5],
}

struct Tokens {
    left: f64,
    at: Timestamp,
}

impl SpamFilter {
    /// Returns true if an event may be written now.
    pub(super) fn accepts(&mut self, event: &Event, now: Timestamp) -> bool {
        self.evict_full(now);
        let about = ["apiVersion", "kind", "namespace", "name", "uid"];
        let source = Source {
            component: event.component.clone(),
            host: event.host.clone(),
            kind: event.kind,
            about: about.map(|key| Str::new(event.about.str_at(&[key]).unwrap_or_default())),
        };
        let tokens = self.0.entry(source).or_insert(Tokens { left: BURST, at: now });
        *tokens = Tokens { left: tokens.left_at(now), at: now };
        let accepted = tokens.left >= 1.0;
        if accepted {
            tokens.left -= 1.0;
        }
        accepted
    }

    fn evict_full(&mut self, now: Timestamp) {
        if self.0.len() >= MAX_REMEMBERED {
            self.0.retain(|_, tokens| tokens.left_at(now) < BURST);
        }
        if self.0.len() >= MAX_REMEMBERED {
            self.0.clear();
        }
    }
}

impl Tokens {
    fn left_at(&self, now: Timestamp) -> f64 {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        (self.left + passed / SECONDS_PER_EVENT).min(BURST)
    }
}
