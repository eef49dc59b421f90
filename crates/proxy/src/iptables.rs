//! The iptables backend, for machines without nftables.
//!
//! As upstream's: the chains that all Services share are written whole when they change, those of one Service when it
//! changed. `service` computes the rules of one Service, `kept` the difference to the written ones, `tables` writes it with
//! `iptables-restore`, which has to be installed.

pub mod kept;
mod names;
pub mod service;
mod tables;

pub use tables::Tables;
