//! `corten certificate`: the end of every certificate of a server, and their replacement while it runs.
//!
//! The commands change files of `DATA_DIR/pki`; the server follows them (`server::certificates`). *Invariant:* a leaf is only
//! removed, never written: the server issues it, or its next start.

mod rotate_ca;

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use corten_base::Clock;
use corten_pki::{RolloverStage, identity_of, pem_certificates};
use jiff::Timestamp;

use crate::kubeconfig::AdminFlags;
use crate::server;

/// The leaves of a server, by the name of their files.
const LEAVES: [&str; 4] = ["apiserver", "admin", "apiserver-kubelet-client", "front-proxy-client"];
const AUTHORITIES: [&str; 5] = ["ca", "ca-next", "ca-previous", "ca-cross", "front-proxy-ca"];
const POLL: Duration = Duration::from_millis(200);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    admin: AdminFlags,
    /// Time to wait for the server and for each step of all nodes.
    #[arg(long, global = true, default_value = "5m0s", value_parser = server::parse_duration)]
    timeout: Duration,
}

#[derive(Subcommand)]
enum Command {
    /// Show all certificates and when they end.
    Check,
    /// Replace leaf certificates and their keys now.
    Rotate {
        /// Certificates to replace: apiserver, admin, apiserver-kubelet-client, front-proxy-client [default: all].
        #[arg(value_parser = LEAVES)]
        names: Vec<String>,
    },
    /// Replace the cluster's CA. Continues an interrupted replacement.
    RotateCa,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let directory = args.admin.data_dir.join("pki");
    ensure!(
        directory.is_dir(),
        "{} has no certificates; name the data directory with --data-dir",
        directory.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        match &args.command {
            Command::Check => check(&directory),
            Command::Rotate { names } => rotate(&directory, names, args.timeout).await,
            Command::RotateCa => rotate_ca::run(args, &directory).await,
        }
    })
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    name: String,
    subject: String,
    until: Timestamp,
    state: String,
}

fn check(directory: &Path) -> anyhow::Result<()> {
    let now = Clock::real().now();
    let rows = rows(directory, now)?;
    println!("{:<26} {:<32} {:<21} STATE", "CERTIFICATE", "SUBJECT", "VALID UNTIL");
    for Row { name, subject, until, state } in &rows {
        println!("{name:<26} {subject:<32} {:<21} {state}", until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }
    match RolloverStage::of(directory)? {
        RolloverStage::Settled => {}
        _ => println!("\nThe CA is being replaced; `corten certificate rotate-ca` continues."),
    }
    ensure!(rows.iter().all(|row| row.until > now), "a certificate has expired");
    Ok(())
}

fn rows(directory: &Path, now: Timestamp) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for name in AUTHORITIES.into_iter().chain(LEAVES) {
        let path = directory.join(format!("{name}.crt"));
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let read = || format!("cannot read {}", path.display());
        let first = pem_certificates(&text).with_context(read)?.into_iter().next().with_context(read)?;
        let identity = identity_of(&first).with_context(read)?;
        let until = Timestamp::try_from(identity.not_after).with_context(read)?;
        let days = until.duration_since(now).as_hours() / 24;
        let state = if until <= now { "expired".to_owned() } else { format!("{days} days left") };
        rows.push(Row { name: name.to_owned(), subject: identity.common_name, until, state });
    }
    Ok(rows)
}

/// Removes leaves, and waits until the server has issued new ones.
async fn rotate(directory: &Path, names: &[String], timeout: Duration) -> anyhow::Result<()> {
    let names: Vec<&str> =
        if names.is_empty() { LEAVES.to_vec() } else { names.iter().map(String::as_str).collect() };
    for name in &names {
        let path = directory.join(format!("{name}.crt"));
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    let issued = async {
        while names.iter().any(|name| !directory.join(format!("{name}.crt")).exists()) {
            Clock::real().sleep(POLL).await;
        }
    };
    if Clock::real().timeout(timeout, issued).await.is_none() {
        bail!("no server issued the certificates in time; the next start of `corten server` does");
    }
    println!("replaced: {}", names.join(", "));
    Ok(())
}

/// The time of this machine.
fn now() -> SystemTime {
    Clock::real().now().into()
}

#[cfg(test)]
mod tests {
    use corten_pki::{Sans, ServerPki};

    use super::*;

    #[test]
    fn all_certificates_are_listed_with_their_end() {
        let directory = tempfile::tempdir().unwrap();
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        ServerPki::load_or_create(directory.path(), &Sans::default(), start.into()).unwrap();
        let listed = rows(directory.path(), start + jiff::SignedDuration::from_hours(24)).unwrap();
        let names: Vec<&str> = listed.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            names,
            ["ca", "front-proxy-ca", "apiserver", "admin", "apiserver-kubelet-client", "front-proxy-client"]
        );
        let admin = &listed[3];
        assert_eq!((admin.subject.as_str(), admin.state.as_str()), ("system:admin", "364 days left"));
        let late = rows(directory.path(), start + jiff::SignedDuration::from_hours(366 * 24)).unwrap();
        assert_eq!(late[2].state, "expired");
    }
}
