//! Every fuzz body on its corpus, and on mutations of it that are the same in every run; under the allocation limit of the
//! fuzz targets.

#[path = "../../../crates/api/tests/bounds/allocations.rs"]
mod allocations;
#[path = "../../bodies/mod.rs"]
mod bodies;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use corten_fuzz_replay::{Random, corpus, mutated};

/// The number of mutations of its corpus that each body runs on.
const ROUNDS: usize = 20_000;
/// The inputs of a failed run are those of this seed again.
const SEED: u64 = 0x00c0_47e4;

#[test]
fn every_body_survives_its_corpus_and_mutations_of_it() {
    println!("seed {SEED:#x}, {ROUNDS} mutations each");
    std::thread::scope(|scope| {
        for half in [0, 1] {
            scope.spawn(move || {
                for (name, body) in bodies::BODIES.iter().skip(half).step_by(2) {
                    replay(name, *body);
                }
            });
        }
    });
}

fn replay(name: &str, body: fn(&[u8])) {
    let seeds = corpus(name).unwrap_or_else(|error| panic!("the corpus of {name}: {error}"));
    assert!(!seeds.is_empty(), "the corpus of {name} is empty");
    let mut random = Random::new(SEED);
    for seed in &seeds {
        try_one(name, body, seed);
    }
    for _ in 0..ROUNDS {
        try_one(name, body, &mutated(&seeds, &mut random));
    }
}

fn try_one(name: &str, body: fn(&[u8]), input: &[u8]) {
    // The input is only told if the body fails on it.
    let outcome = catch_unwind(AssertUnwindSafe(|| allocations::peak(|| body(input))));
    let held = outcome.unwrap_or_else(|cause| {
        eprintln!("{name} failed on {}", input.escape_ascii());
        resume_unwind(cause)
    });
    let allowed = allocations::allowance(input.len());
    assert!(held <= allowed, "{name} held {held} bytes, not {allowed}, for {}", input.escape_ascii());
}
