//! The pod network of one node: a bridge, a pair of interfaces for each pod, addresses from the node's pod CIDRs,
//! masquerading of what leaves the cluster, and host ports.
//!
//! [`PodNetwork`] is all of it; [`cni::Cni`] is what plugins do instead. [`rules`] and [`addresses`] decide purely; [`netlink`], [`route`] and [`nftables`] are
//! the ways to the kernel, which need no tool and no `unsafe`. Calls block, for well under a millisecond each.
//!
//! *Invariants:* every operation can be repeated, and can be cut off anywhere: what a crash leaves is found again by
//! name, from the records or from the bridge. Nothing outside the namespace it was opened for is ever touched, but
//! for the pods' own namespaces.

pub mod addresses;
mod cidr;
pub mod cni;
pub mod conntrack;
mod error;
pub mod guard;
mod held;
mod host;
pub mod namespace;
pub mod netlink;
pub mod nftables;
pub mod peers;
mod pods;
mod records;
pub mod route;
pub mod rules;
mod tunnel;

pub use cidr::Cidr;
pub use error::{Error, Result};
pub use held::{hold, let_go};
pub use pods::{Across, Options, PodNetwork};
pub use records::{Attachment, HostPort, Protocol};
