//! Corten: Kubernetes, whole, in one binary. This file parses and hands over; it decides nothing.

mod agent;
mod agent_flags;
mod bench;
mod component;
mod controller_manager;
mod dns;
mod image;
mod join;
mod kubelet;
mod network_policy;
mod node_runtime;
mod peers;
mod pod_network;
mod private;
mod proxy;
mod scheduler;
mod server;
mod stop_signals;
mod token;

use anyhow::Context;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

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
    Server(Box<server::Args>),
    /// Run a node that joins a cluster.
    Agent(Box<agent::Args>),
    /// Make, list and take back invitations to the cluster.
    Token(token::Args),
    /// Run the controllers alone, against any Kubernetes.
    ControllerManager(Box<controller_manager::Args>),
    /// Run the scheduler alone, against any Kubernetes.
    Scheduler(scheduler::Args),
    /// Run the service proxy alone, against any Kubernetes.
    Proxy(proxy::Args),
    /// Run a node alone, on any Kubernetes.
    Kubelet(Box<kubelet::Args>),
    /// Import, export, list, remove and pull images.
    Image(image::Args),
    /// Measure this machine and this build.
    Bench(bench::Args),
}

impl Command {
    /// Whether it is a part of a cluster, or shows its secrets: what it holds stays with it.
    fn is_part(&self) -> bool {
        !matches!(self, Command::Image(_) | Command::Bench(_))
    }
}

fn main() -> anyhow::Result<()> {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if cli.command.is_part() {
        private::protect_process()?;
        corten_sys::limits::raise_descriptors().context("raising the limit on descriptors")?;
    }
    match cli.command {
        Command::Server(args) => server::run(*args, flags(&matches)),
        Command::Agent(args) => agent::run(&args),
        Command::Token(args) => token::run(args),
        Command::ControllerManager(args) => controller_manager::run(&args),
        Command::Scheduler(args) => scheduler::run(args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Kubelet(args) => kubelet::run(&args),
        Command::Image(args) => image::run(args),
        Command::Bench(args) => bench::run(args),
    }
}

/// The flags of the chosen command, given or defaulted, by name.
fn flags(matches: &ArgMatches) -> Vec<(String, String)> {
    let Some((_, chosen)) = matches.subcommand() else { return Vec::new() };
    let mut flags: Vec<(String, String)> = chosen
        .ids()
        .filter_map(|id| {
            let values = chosen.try_get_raw(id.as_str()).ok()??;
            let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
            Some((id.as_str().replace('_', "-"), values.join(",")))
        })
        .collect();
    flags.sort();
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_can_be_parsed() {
        Cli::command().debug_assert();
    }
}
