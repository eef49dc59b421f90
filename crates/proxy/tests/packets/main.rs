//! Services on real packets: a node with pods, another node's pods, and clients outside, each a network namespace.

mod affinity;
mod cluster_ips;
mod datagrams;
mod external;
mod takeover;
mod world;
