//! The pod network on real packets, in network namespaces that live no longer than the test. Needs root.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod host_ports;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod plugins;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod spoofing;
#[cfg(test)]
mod world;
