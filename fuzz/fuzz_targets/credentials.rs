//! Fuzzes `bodies/credentials.rs`.

#![no_main]

#[path = "../bodies/credentials.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
