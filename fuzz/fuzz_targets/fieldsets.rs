//! Fuzzes `bodies/fieldsets.rs`.

#![no_main]

#[path = "../bodies/fieldsets.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
