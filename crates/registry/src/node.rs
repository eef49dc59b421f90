//! `node.k8s.io`.

pub(crate) mod runtimeclasses;
