//! Power loss and kills at every moment of a workload, on a simulated disk.
//!
//! The workload runs once, and the disk records every step. Each step is then a crash point: the disk is rebuilt up to there,
//! loses what was not synced in one of several ways, and the store is opened on the rest and checked. Recovery itself crashes at
//! a random step too, and is checked again.
//!
//! Checked: the store opens without a complaint; every acknowledged write, compaction and lease is there; the state is that of one
//! revision, and never of one before a revision that a client saw; the history is that of the workload; later writes have later
//! revisions. That each sync of the store is needed is shown by leaving it out: the check has to fail then.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{
    env,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use common::{
    Chance,
    simulated_disk::model::Loss,
    workload::{self, Check, Run},
};

const SEED: &str = "CORTEN_STORE_CRASH_SEED";
/// The minimum number of crashes in one run of the test.
const CRASHES: usize = 10_000;

fn seed() -> u64 {
    let given = env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(workload::fresh_seed);
    println!("{SEED}={seed}");
    seed
}

/// Crashes at every step of a run, in each of these ways. Returns the number of crashes, or the first complaint.
fn crash_everywhere(run: &Run, seed: u64, losses: &[Loss]) -> Result<usize, String> {
    let (crashes, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let crash = |thread: usize| {
        let mut chance = Chance::new(seed.wrapping_add(thread as u64));
        let mut check = Check::of(run);
        for position in 0..=run.steps.len() {
            if position > 0 {
                check.step(&run.steps[position - 1]);
            }
            if position % threads != thread {
                continue;
            }
            for loss in losses {
                if is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                // Without unsynced changes all losses are the same.
                if check.has_unsynced() || *loss == Loss::PowerWithout {
                    crashes.fetch_add(check.crash(position, *loss, &mut chance)?, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    };
    let complaints = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let (crash, is_over) = (&crash, &is_over);
                scope.spawn(move || {
                    crash(thread).inspect_err(|_: &String| is_over.store(true, Ordering::Relaxed))
                })
            })
            .collect();
        threads.into_iter().find_map(|thread| thread.join().unwrap().err())
    });
    complaints.map_or(Ok(crashes.into_inner()), Err)
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_at_any_step() {
    let seed = seed();
    let run = Run::of(seed, 160, None);
    let losses =
        [Loss::Process, Loss::PowerWithout, Loss::PowerWithAll, Loss::PowerWithSome, Loss::PowerWithSome];
    let crashes = crash_everywhere(&run, seed, &losses).unwrap_or_else(|complaint| panic!("{complaint}"));
    println!("{crashes} crashes at {} steps; syncs: {:#?}", run.steps.len(), run.syncs);
    assert!(crashes >= CRASHES, "only {crashes} crashes");
}

/// Every kind of sync, and whether a crash shows that it is left out.
const SYNCS: [(&str, bool); 14] = [
    ("directory (create directory)", true),
    ("directory (create log)", true),
    ("directory (create snapshot)", true),
    ("log (all)", true),
    ("log (data)", true),
    ("log.tmp (data)", true),
    ("snapshot.tmp (data)", true),
    ("spare.tmp (data)", true),
    ("witness.tmp (all)", true),
    // Only the second check of what was acknowledged is lost.
    ("directory (create witness)", false),
    ("witness (all)", false),
    // Only for space, and so that no plain value remains on disk.
    ("directory (remove log)", false),
    // Only for speed: the zeros of the next log.
    ("spare.tmp (all)", false),
    // At every open, for names that a killed process left behind: then it has their kind.
    ("directory (create lock)", false),
];

#[test]
fn every_sync_that_is_left_out_is_noticed() {
    let seed = seed();
    let losses = [Loss::PowerWithout, Loss::PowerWithSome, Loss::PowerWithSome, Loss::Process];
    let mut seen: Vec<String> = Run::of(seed, 60, None).syncs.into_keys().collect();
    seen.retain(|kind| kind != "directory (nothing)");
    for (kind, is_noticed) in SYNCS {
        let run = Run::of(seed, if is_noticed { 200 } else { 30 }, Some(kind));
        let complaint = crash_everywhere(&run, seed, &losses).err();
        println!("{kind}: {}", complaint.as_deref().unwrap_or("no complaint"));
        assert_eq!(complaint.is_some(), is_noticed, "{kind}");
        seen.retain(|seen| seen != kind);
    }
    assert!(seen.is_empty(), "not in the table: {seen:?}");
}
