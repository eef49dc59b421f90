//! `corten datastore`: moves a cluster's objects between datastores.

mod copy;
mod marker;
mod migrate;
mod progress;
mod side;

use std::path::Path;

use clap::{Parser, Subcommand};
use corten_store::Store;

pub(crate) use copy::{ROOT as REGISTRY, is_copied};
pub(crate) use marker::check_complete;
pub(crate) use migrate::fill;
use side::Role;
pub(crate) use side::Side;

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

/// Opens the store of a data directory that no server uses, only to read it.
pub(crate) fn open_directory(data_dir: &Path, encryption: Option<&Path>) -> anyhow::Result<Store> {
    side::open_directory(data_dir, encryption, Role::Source)
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Migrate(args) => migrate::run(&args),
    }
}
