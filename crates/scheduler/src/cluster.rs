//! Everything a decision is made from.

use crate::snapshot::Snapshot;
use crate::workloads::Workloads;

#[derive(Default)]
pub struct Cluster {
    pub snapshot: Snapshot,
    pub(crate) workloads: Workloads,
}
