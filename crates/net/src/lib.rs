//! The pod network of one node: a bridge, a veth pair for each pod, addresses from the node's pod CIDRs, masquerading of
//! traffic that leaves the cluster, and host ports.
//!
//! [`PodNetwork`] is the built-in network; [`cni::Cni`] is a network of plugins. [`rules`] and [`addresses`] are pure; [`netlink`],
//! [`route`] and [`nftables`] talk to the kernel, without tools and without `unsafe`. Calls block, for well under a millisecond
//! each.
//!
//! *Invariants:* every operation is idempotent and may be interrupted anywhere: leftovers of a crash are found by name, in the
//! records or on the bridge. Nothing outside the namespace it was opened for is ever changed, except for the pods' own
//! namespaces.

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
pub use held::{assign_service_addresses, remove_service_addresses};
pub use pods::{Across, Options, PodNetwork};
pub use records::{Attachment, HostPort, Protocol};
