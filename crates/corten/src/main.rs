//! Corten: Kubernetes in one binary. This file parses the command line and calls the command; it decides nothing.
//!
//! An error is one line on standard error, without a backtrace whatever `RUST_BACKTRACE` says: most errors of a command are
//! mistakes in how it is run.

mod agent;
mod backup;
mod bench;
mod certificate;
mod component;
mod controller_manager;
mod datastore;
mod dns;
mod etcd;
mod etcd_client;
mod etcd_member;
mod hardening;
mod history;
mod image;
mod image_flags;
mod join;
mod kubeconfig;
mod kubelet;
mod node;
mod pod_network;
mod proxy;
mod scheduler;
mod secrets_encrypt;
mod server;
mod server_join;
mod stop_signals;
mod table;
mod token;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use server::ServerLine;
use server_join::Flags;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Kubernetes in one binary.
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
    /// Create, list and delete bootstrap tokens, with which machines join the cluster.
    Token(token::Args),
    /// Run only the controllers, against any Kubernetes API server.
    ControllerManager(Box<controller_manager::Args>),
    /// Run only the scheduler, against any Kubernetes API server.
    Scheduler(scheduler::Args),
    /// Make, list, schedule and restore backups of a cluster.
    Backup(Box<backup::Args>),
    /// Show the certificates of a server, and replace them while it runs.
    Certificate(certificate::Args),
    /// Show the encryption of Secrets in the datastore, and replace its keys.
    SecretsEncrypt(secrets_encrypt::Args),
    /// List every change of an object.
    History(Box<history::HistoryArgs>),
    /// Print an object as it was at a time.
    Show(Box<history::ShowArgs>),
    /// Bring an object or a namespace back as it was.
    Undo(Box<history::UndoArgs>),
    /// Move the objects of a cluster between datastores.
    Datastore(datastore::Args),
    /// List, remove and maintain the etcd members of servers that were started with --cluster-init.
    EtcdMember(etcd_member::command::Args),
    /// Serve etcd's v3 API from an embedded store, as a cluster of one member.
    Etcd(Box<etcd::Args>),
    /// Run only the service proxy, against any Kubernetes API server.
    Proxy(proxy::Args),
    /// Run only the kubelet, against any Kubernetes API server.
    Kubelet(Box<kubelet::Args>),
    /// Import, export, list, remove and pull images.
    Image(image::Args),
    /// Run benchmarks of this build on this machine.
    Bench(bench::Args),
    /// Print the version.
    Version,
}

impl Command {
    /// True if the process holds secrets of a cluster, which must not leave it.
    fn holds_secrets(&self) -> bool {
        !matches!(self, Command::Image(_) | Command::Bench(_) | Command::Version)
    }
}

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(cli, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, matches: &ArgMatches) -> anyhow::Result<()> {
    if cli.command.holds_secrets() {
        hardening::protect_process()?;
        corten_sys::limits::raise_descriptors().context("cannot raise the limit of open files")?;
    }
    match cli.command {
        Command::Server(args) => {
            let line =
                ServerLine { args: *args, flags: flags(matches), given: given(matches), again: server_again };
            server::run(line)
        }
        Command::Agent(args) => agent::run(&args),
        Command::Token(args) => token::run(args),
        Command::ControllerManager(args) => controller_manager::run(&args),
        Command::Scheduler(args) => scheduler::run(args),
        Command::Backup(args) => backup::run(*args),
        Command::Certificate(args) => certificate::run(&args),
        Command::SecretsEncrypt(args) => secrets_encrypt::run(&args),
        Command::History(args) => history::history(&args),
        Command::Show(args) => history::show(&args),
        Command::Undo(args) => history::undo(&args),
        Command::Datastore(args) => datastore::run(args),
        Command::EtcdMember(args) => etcd_member::command::run(&args),
        Command::Etcd(args) => etcd::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Kubelet(args) => kubelet::run(&args),
        Command::Image(args) => image::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Version => {
            print!("{}", Cli::command().render_version());
            Ok(())
        }
    }
}

/// Parses the command line of `corten server` again, with further arguments behind it.
fn server_again(more: &[String]) -> anyhow::Result<(server::Args, Flags)> {
    let line = std::env::args_os().chain(more.iter().map(OsString::from));
    let matches = Cli::command().try_get_matches_from(line)?;
    match Cli::from_arg_matches(&matches)?.command {
        Command::Server(args) => Ok((*args, flags(&matches))),
        _ => bail!("the command is not `corten server`"),
    }
}

/// The names of the flags on the command line.
fn given(matches: &ArgMatches) -> BTreeSet<String> {
    let Some((_, chosen)) = matches.subcommand() else { return BTreeSet::new() };
    let is_given = |id: &&clap::Id| chosen.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    chosen.ids().filter(is_given).map(|id| id.as_str().replace('_', "-")).collect()
}

/// The flags of the chosen command and their values, defaults included, sorted by name.
fn flags(matches: &ArgMatches) -> Flags {
    let Some((_, chosen)) = matches.subcommand() else { return Vec::new() };
    let mut flags: Flags = chosen
        .ids()
        // Groups of flags have the names of their types.
        .filter(|id| !id.as_str().starts_with(|first: char| first.is_ascii_uppercase()))
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
