//! Policies on real packets: a node whose pods are network namespaces, and a machine outside it.

#[cfg(test)]
mod matrix;
#[cfg(test)]
mod single;
#[cfg(test)]
mod world;
