//! Tests of stateful sets on a simulated cluster.

mod cluster;
mod order;
mod rollout;
mod volumes;
