//! The pod network on real packets, in network namespaces that live no longer than the test.

mod faults;
mod host_ports;
mod pods;
mod world;
