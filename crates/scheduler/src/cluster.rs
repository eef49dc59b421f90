//! The whole state that a scheduling decision depends on.

use crate::budgets::Budgets;
use crate::snapshot::Snapshot;
use crate::storage::Storage;
use crate::workloads::Workloads;

#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) workloads: Workloads,
    pub(crate) budgets: Budgets,
    pub(crate) storage: Storage,
}
