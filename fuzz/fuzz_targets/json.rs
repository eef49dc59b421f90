//! Fuzzes `bodies/json.rs`.

#![no_main]

#[path = "../bodies/json.rs"]
mod body;
#[path = "../bodies/conformed.rs"]
mod conformed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
