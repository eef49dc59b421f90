//! Corten for tests: starts the real binary, sends requests to it, stops it; or runs its components within the test, on a
//! clock that the test moves (`Cluster`).
//!
//! Every call blocks, with a deadline on every wait, so that a test is a straight line and a server that
//! hangs is a failure with a reason. Unexpected failures panic with the server's output; failures that a test may
//! expect are a `Result`.
//!
//! Invariants:
//! - A server listens on a free port and keeps its data in a directory of its own.
//! - Processes are ended by the handle that started them, at the latest when it is dropped.
//!
//! Not here: expectations. Those belong to the tests.

mod aggregated;
mod binary;
mod client;
mod cluster;
mod history;
mod http;
mod image;
mod kms_plugin;
mod own_service;
mod server;
mod tools;
mod webhook;

pub use aggregated::{AggregatedReply, AggregatedRequest, AggregatedServer};
pub use binary::{corten_binary, repository, target_directory};
pub use client::{Client, Identity, Request, Response, Watch, WatchEnd};
pub use cluster::{Between, Cluster, ClusterOptions};
pub use corten_testkit_containerd::Containerd;
pub use history::{Action, Events, History, List, Operation, Outcome, Seen, State};
pub use http::{Connection, DEADLINE};
pub use image::busybox_archive;
pub use kms_plugin::{KmsBehavior, KmsPlugin};
pub use server::{DataDirectory, ON_FULL_DISKS, Server, StartFailure};
pub use tools::{Output, Running, Tool};
pub use webhook::{ReceivedReview, Reply, Webhook};
