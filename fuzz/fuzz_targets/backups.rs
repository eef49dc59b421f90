//! Fuzzes `bodies/backups.rs`.

#![no_main]

#[path = "../../crates/api/tests/bounds/allocations.rs"]
mod allocations;
#[path = "../bodies/backups.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let held = allocations::peak(|| body::check(data));
    assert!(held <= allocations::allowance(data.len()), "{held} bytes held for {} of input", data.len());
});
