//! Libraries of functions. Each file declares the functions of one library as a table (`declare`).

mod arguments;
pub mod authz;
pub mod cidr;
pub mod comprehensions;
mod costs;
pub mod ext_lists;
pub mod format;
pub mod ip;
pub mod jsonpatch;
pub mod lists;
mod netip;
pub mod optional;
pub mod quantity;
pub mod regex;
pub mod semver;
pub mod sets;
pub mod standard;
pub mod strings;
pub mod url;
