//! Who asks, and whether they may: users, credentials and the rules that decide.
//!
//! Everything is a function of what it is given: trees of objects, texts of credentials, a time. Never in
//! here: requests, sockets, the store, the clock.

mod attributes;
pub mod authentication;
pub mod node;
pub mod rbac;
pub mod service_account;
mod user;

pub use attributes::{Attributes, Decision};
pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
