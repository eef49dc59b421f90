//! Fuzzes `bodies/protobuf.rs`.

#![no_main]

#[path = "../bodies/protobuf.rs"]
mod body;
#[path = "../bodies/conformed.rs"]
mod conformed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
