//! Network policies. Each node enforces those that select its own pods, for the packets that it forwards to and from them.
//!
//! The desired state is computed purely: `policy` and `pod` parse objects, `model` computes the chains and sets of one IP
//! family, and `table` the changes of the kernel's table. Only `enforcer` acts, and `run` calls it.
//!
//! *Invariants:* a change is one transaction, so no packet ever passes that neither the old nor the new policies allow. Rules
//! stay when the process ends, and the next process replaces them in one transaction as well. Traffic between a pod and its
//! own node is always allowed, as with upstream's plugins.
//!
//! Never in here: the pod network itself, and Services.

pub mod enforcer;
pub mod inputs;
pub mod model;
mod names;
pub mod pod;
pub mod policy;
mod run;
pub mod table;

pub use enforcer::Enforcer;
pub use inputs::Inputs;
pub use run::{NotEnforced, Policies, start};
