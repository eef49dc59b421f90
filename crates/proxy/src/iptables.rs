//! Services as chains of iptables, for machines whose tools know no other.
//!
//! As upstream's: the chains that all Services share are written whole with every change, those of one Service only
//! when it changed. `service` says what one Service wants, `kept` what has to be written, `tables` writes it: through
//! `iptables-restore`, which has to be installed.

pub mod kept;
mod names;
pub mod service;
mod tables;

pub use tables::Tables;
