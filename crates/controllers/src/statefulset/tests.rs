//! What stateful sets do about their pods and claims, on a cluster of a few trees.

mod cluster;
mod order;
mod rollout;
mod volumes;
