//! Authentication and authorization: users, credentials, RBAC and the Node authorizer.
//!
//! Pure functions of objects, credentials and a time. Never in here: requests, sockets, the store, the clock.

mod attributes;
pub mod authentication;
pub mod node;
pub mod rbac;
pub mod service_account;
mod user;

pub use attributes::{Attributes, Decision};
pub use user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User};
