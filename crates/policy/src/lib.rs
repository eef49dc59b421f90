//! Network policies: who may reach whom. Each node enforces those that select pods of its own, for what it passes on to
//! and from them.
//!
//! What shall be is decided purely: `policy` and `pod` read objects, `model` says what they mean for one IP family, and
//! `table` what has to change in the kernel. Only `enforcer` acts, and `run` tells it when.
//!
//! *Invariants:* a change is one transaction, so that at no moment anything passes that neither the old nor the new
//! policies let through. Rules stay when the process ends, and its successor replaces them in one transaction as well.
//! What a pod exchanges with its own node is never judged, as upstream has it.
//!
//! Never in here: the pod network itself, and where Services lead.

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
