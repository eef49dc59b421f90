//! The API as any HTTP client sees it: every kind, every format, bad input, access, and the process itself.

mod access;
mod admission;
mod authentication;
mod bad_input;
mod every_kind;
mod formats;
mod process;
mod quota;
mod reads;
mod tokens;
mod writes;
