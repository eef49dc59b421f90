//! `corten backup`: copies of a cluster, in a directory or in a bucket, and the way back.
//!
//! ```text
//! create ─► socket of the server in the data directory ─► copy ─► archive ─► place ─► retention
//!        └► no server: the store itself
//! restore ─► verify the whole archive ─► build a store beside the old one ─► replace it by renaming
//! ```
//!
//! An archive has the private keys of the cluster, which are more than any role of the API gives. So only the user who can read
//! the data directory anyway can have one made: through a Unix socket there, never through the API.

mod copy;
mod create;
mod job;
mod lock;
mod metrics;
mod place;
mod replace;
mod restore;
mod schedule;
mod scheduler;
mod server;
mod socket;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, Subcommand};

pub(crate) use lock::enter;
pub(crate) use server::{Backups, Settings};

/// Make, list and restore backups of a cluster.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a backup of the server's store, keys and certificates.
    Create(Box<create::Args>),
    /// List backups.
    List(Box<create::ListArgs>),
    /// Replace the store, keys and certificates of a stopped server by those of a backup.
    Restore(Box<restore::Args>),
    /// Have the server make backups at the times of a Cron expression.
    Schedule(Box<schedule::Args>),
}

/// The server on this machine.
#[derive(clap::Args)]
struct ServerFlags {
    /// Data directory of the server on this machine.
    #[arg(long, default_value = "/var/lib/corten")]
    data_dir: PathBuf,
}

impl ServerFlags {
    /// The data directory, absolute: the server has another working directory.
    fn data_dir(&self) -> anyhow::Result<PathBuf> {
        std::path::absolute(&self.data_dir).context("cannot resolve --data-dir")
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the async runtime")?.block_on(async {
        match args.command {
            Command::Create(args) => create::create(&args).await,
            Command::List(args) => create::list(&args).await,
            Command::Restore(args) => restore::restore(&args).await,
            Command::Schedule(args) => schedule::run(*args).await,
        }
    })
}
