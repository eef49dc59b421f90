//! Fuzzes `bodies/yaml.rs`.

#![no_main]

#[path = "../bodies/yaml.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
