//! `corten datastore`: moves a cluster's objects between datastores.

mod copy;
mod marker;
mod migrate;
mod progress;
mod side;

use clap::{Parser, Subcommand};

pub(crate) use marker::{check_complete, check_moved};

/// Move the objects of a cluster between datastores.
#[derive(Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy all objects to another datastore, check that they are equal, and leave the source as it is.
    Migrate(Box<migrate::Args>),
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Migrate(args) => migrate::run(&args),
    }
}
