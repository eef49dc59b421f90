//! Policies on real packets: a node whose pods are network namespaces, and somebody outside it.

mod matrix;
mod single;
mod world;
