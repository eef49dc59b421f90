//! The nftables backend: a table `kube-proxy` for each IP family.
//!
//! A packet's destination is looked up in a map, whose verdict is the chain of the Service's port; the chain selects one of the
//! endpoints, which are in another map under consecutive numbers. So a packet takes as many steps with ten thousand Services
//! as with ten, and a changed endpoint is one short chain and a few map entries.
//!
//! `service` computes the entries and chains of one Service, `kept` the difference to the written ones, `base` the chains for all
//! Services; `table` writes them. Names are upstream's.

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
