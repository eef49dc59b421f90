//! Services as a table of nftables: `kube-proxy`, one for each IP family.
//!
//! A packet's destination is looked up in a map, which leads to the chain of the Service's port; the chain picks one of
//! the endpoints, which lie in one more map under consecutive numbers. So the way of a packet is as long with ten
//! thousand Services as with ten, and one changed endpoint is one short chain and a few entries of maps.
//!
//! `service` says what one Service wants in the table, `kept` what has to change when it wants something else, `base`
//! what is there for all; `table` writes it. Names are upstream's.

mod base;
pub mod kept;
mod names;
pub mod numbers;
pub mod service;
pub mod table;
mod write;

pub use table::Table;

/// The table's name.
pub const TABLE: &str = "kube-proxy";
