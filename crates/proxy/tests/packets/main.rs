//! Services on real packets: a node with pods, another node's pods, and clients outside, each a network namespace.

#[cfg(test)]
mod affinity;
#[cfg(test)]
mod associations;
#[cfg(test)]
mod cluster_ips;
#[cfg(test)]
mod datagrams;
#[cfg(test)]
mod external;
#[cfg(test)]
mod takeover;
#[cfg(test)]
mod world;
