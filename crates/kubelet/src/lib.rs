//! The node's agent: runs the pods that are bound to this node and tells the API server what became of them.
//!
//! Decisions are pure (`actions`, `status`); effects are in one place each. It speaks Kubernetes through
//! `corten_client` and containers through `corten_container`, and knows neither server nor runtime.

mod actions;
mod backoff;
mod config;
mod downward;
mod environment;
mod expansion;
mod names;
mod observed;
mod pod;
mod resources;
mod status;

pub use actions::{Actions, Kill, KillReason, Knowledge, NewSandbox, Probed, actions};
pub use observed::{Found, Observed, Sandbox};
pub use pod::{Container, HostNamespace, Pod, RestartPolicy, Role, Source};
pub use status::{Ended, Known, Readiness, Waiting, status};
