//! Corten: Kubernetes, whole, in one binary. This file parses and hands over; it decides nothing.

mod bench;
mod server;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Kubernetes, whole, in one binary.
#[derive(Parser)]
#[command(name = "corten", version, about, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a cluster on this machine.
    Server(server::Args),
    /// Measure this machine and this build.
    Bench(bench::Args),
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Command::Server(args) => server::run(args),
        Command::Bench(args) => bench::run(args),
    }
}
