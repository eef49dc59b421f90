//! Retention of history beyond compaction: which generations go, and when a new one begins. Pure.
//!
//! History is removed a generation at a time, so a generation covers a quarter of the age and of the size at most.

use std::time::Duration;

use crate::{Keep, Revision, log::past::Extent};

const PARTS: u64 = 4;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Everything up to this revision may go.
    pub(crate) prune: Revision,
    /// True if a new generation is to begin.
    pub(crate) rotate: bool,
    /// The time until there is more to do.
    pub(crate) next: Option<Duration>,
}

/// Decides for generations, oldest first; the last one is the current one and never goes.
pub(crate) fn plan(extents: &[Extent], keep: &Keep, now_ms: u64) -> Plan {
    let age = u64::try_from(keep.age.as_millis()).unwrap_or(u64::MAX);
    let Some((current, older)) = extents.split_last() else { return Plan::default() };
    let mut bytes: u64 = extents.iter().map(|extent| extent.log + extent.snapshot).sum();
    let mut plan = Plan { prune: extents[0].base, ..Plan::default() };
    let mut due: Option<u64> = None;
    for (extent, next) in older.iter().zip(&extents[1..]) {
        let expires = extent.last_ms.map(|last| last.saturating_add(age));
        // A commit without a time is from before history was kept.
        let is_kept = expires.is_some_and(|expires| expires > now_ms) && bytes <= keep.bytes;
        if is_kept {
            due = expires;
            break;
        }
        bytes -= extent.log + extent.snapshot;
        plan.prune = next.base;
    }
    if current.log > 0 {
        let full = current.first_ms.map(|first| first.saturating_add(age / PARTS));
        let is_large = current.log > (keep.bytes / PARTS).max(current.snapshot);
        plan.rotate = is_large || full.is_some_and(|full| full <= now_ms);
        due = due.into_iter().chain(full.filter(|_| !plan.rotate)).min();
    }
    plan.next = due.map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(base: u64, times: (u64, u64)) -> Extent {
        let at = |seconds: u64| (seconds > 0).then_some(seconds * 1000);
        Extent { base, log: 100, snapshot: 10, first_ms: at(times.0), last_ms: at(times.1) }
    }

    #[test]
    fn generations_go_by_age_and_by_size() {
        let keep = |bytes| Keep { age: Duration::from_secs(100), bytes };
        let three = [extent(0, (1000, 1010)), extent(10, (1010, 1020)), extent(20, (1020, 0))];
        let secs = |seconds| Some(Duration::from_secs(seconds));
        let decide = |bytes, now: u64| plan(&three, &keep(bytes), now * 1000);
        assert_eq!(decide(1000, 1021), Plan { prune: 0, rotate: false, next: secs(24) });
        assert_eq!(decide(1000, 1110), Plan { prune: 10, rotate: true, next: secs(10) });
        assert_eq!(decide(1000, 5000), Plan { prune: 20, rotate: true, next: None });
        assert_eq!(decide(329, 1021), Plan { prune: 10, rotate: true, next: secs(99) });
        assert_eq!(decide(0, 1021), Plan { prune: 20, rotate: true, next: None });
    }

    #[test]
    fn nothing_is_due_without_commits_and_times() {
        let keep = Keep { age: Duration::from_secs(100), bytes: 1000 };
        assert_eq!(plan(&[], &keep, 0), Plan::default());
        let idle = [Extent { log: 0, ..extent(7, (0, 0)) }];
        assert_eq!(plan(&idle, &keep, 99), Plan { prune: 7, rotate: false, next: None });
        let earlier = [extent(0, (0, 0)), extent(7, (0, 0))];
        assert_eq!(plan(&earlier, &keep, 99), Plan { prune: 7, rotate: false, next: None });
    }
}
