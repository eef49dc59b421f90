//! The API as any HTTP client sees it: every kind, every format, bad input, access, and the process itself.

mod access;
mod admission;
mod attacks;
mod authentication;
mod bad_input;
mod bootstrap;
mod custom_resources;
mod device_claims;
mod encryption;
mod every_kind;
mod eviction;
mod formats;
mod limits;
mod process;
mod quota;
mod reads;
mod services;
mod tokens;
mod writes;
