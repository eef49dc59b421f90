//! Fuzzes `bodies/quantity.rs`.

#![no_main]

#[path = "../bodies/quantity.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
