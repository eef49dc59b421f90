//! `corten etcd-member`: lists and removes the members of servers, defragments them, shows and disarms alarms; and runs the
//! member of this machine alone, without a server.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use corten_etcd_api::{AlarmType, Member as EtcdMember};

use super::certificates::Certificates;
use super::cluster::Cluster;
use super::settings::Settings;
use super::{MemberFlags, start};
use crate::hardening;
use crate::server::{log_to_stderr, outward_address};
use crate::stop_signals::StopSignals;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Data directory of the server on this machine.
    #[arg(long, default_value = "/var/lib/corten", global = true)]
    data_dir: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// List the members, with the version, the size and the alarms of each.
    List,
    /// Remove members, by name or ID: those of servers that are gone for good.
    Remove {
        #[arg(required = true)]
        members: Vec<String>,
    },
    /// Defragment all members, one after the other, which returns the space of deleted data to the file system.
    Defrag,
    /// List alarms, and with --disarm end them.
    Alarm {
        /// End all alarms: after space was freed, etcd takes writes again.
        #[arg(long)]
        disarm: bool,
    },
    /// Run the member of this machine until a signal, without a server: to move the cluster to another datastore.
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Address of this machine for other servers [default: the address of the default route].
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    #[command(flatten)]
    member: MemberFlags,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let data_dir = &args.data_dir;
        match &args.command {
            Command::List => list(&open(data_dir)?).await,
            Command::Remove { members } => remove(&open(data_dir)?, members).await,
            Command::Defrag => defragment(&open(data_dir)?).await,
            Command::Alarm { disarm } => alarm(&open(data_dir)?, *disarm).await,
            Command::Run(run) => run_member(data_dir, run).await,
        }
    })
}

/// The members as this machine's one knows them.
struct Open {
    certificates: Certificates,
    cluster: Cluster,
}

fn open(data_dir: &Path) -> anyhow::Result<Open> {
    let settings = Settings::load(data_dir)?;
    let settings = settings.with_context(|| {
        format!("{} has no etcd member; name another directory with --data-dir", data_dir.display())
    })?;
    let certificates = Certificates::load_or_issue(data_dir, &settings)?;
    let urls: Vec<String> =
        std::iter::once(settings.local_url()).chain(settings.seeds.iter().cloned()).collect();
    let cluster = Cluster::connect(&urls, &certificates)?;
    Ok(Open { certificates, cluster })
}

impl Open {
    /// One member by itself.
    fn only(&self, member: &EtcdMember) -> anyhow::Result<Cluster> {
        Cluster::connect(&member.client_urls, &self.certificates)
    }

    async fn members(&self) -> anyhow::Result<Vec<EtcdMember>> {
        self.cluster
            .members()
            .await
            .context("cannot list the etcd members; is the server of this machine running?")
    }
}

async fn list(open: &Open) -> anyhow::Result<()> {
    let members = open.members().await?;
    let alarms = open.cluster.alarms().await.unwrap_or_default();
    println!(
        "{:<18}{:<28}{:<10}{:<10}{:<12}{:<32}ALARMS",
        "ID", "NAME", "STATE", "VERSION", "SIZE", "PEER URL"
    );
    for member in members {
        let status = match open.only(&member) {
            Ok(only) => only.status().await,
            Err(error) => Err(error),
        };
        let (state, version, size) = match &status {
            Ok(status) if status.leader == member.id => {
                ("leader", status.version.clone(), megabytes(status.db_size))
            }
            Ok(status) if member.is_learner => ("learner", status.version.clone(), megabytes(status.db_size)),
            Ok(status) => ("follower", status.version.clone(), megabytes(status.db_size)),
            Err(_) => ("away", "-".to_owned(), "-".to_owned()),
        };
        let raised =
            alarms.iter().filter(|alarm| alarm.member_id == member.id).map(|alarm| name_of(alarm.alarm));
        let raised = raised.collect::<Vec<_>>().join(",");
        let id = format!("{:x}", member.id);
        let urls = member.peer_urls.join(",");
        println!("{id:<18}{:<28}{state:<10}{version:<10}{size:<12}{urls:<32}{raised}", member.name);
    }
    Ok(())
}

fn megabytes(bytes: i64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn name_of(alarm: AlarmType) -> &'static str {
    match alarm {
        AlarmType::NoSpace => "NOSPACE",
        AlarmType::Corrupt => "CORRUPT",
        _ => "NONE",
    }
}

/// The members with these names or ids. Pure.
fn select<'a>(members: &'a [EtcdMember], asked: &[String]) -> anyhow::Result<Vec<&'a EtcdMember>> {
    let mut selected = Vec::new();
    for text in asked {
        let is_meant = |member: &&EtcdMember| {
            (!member.name.is_empty() && member.name == *text) || format!("{:x}", member.id) == *text
        };
        let found = members.iter().find(is_meant);
        selected.push(
            found
                .with_context(|| format!("there is no etcd member {text}; see `corten etcd-member list`"))?,
        );
    }
    if selected.len() >= members.len() {
        bail!("the last etcd member cannot be removed");
    }
    Ok(selected)
}

async fn remove(open: &Open, asked: &[String]) -> anyhow::Result<()> {
    let members = open.members().await?;
    for member in select(&members, asked)? {
        let removed = open.cluster.remove(member.id).await;
        removed.with_context(|| format!("cannot remove the etcd member {}", member.name))?;
        println!("etcd member {:x} ({}) removed", member.id, member.name);
    }
    Ok(())
}

async fn defragment(open: &Open) -> anyhow::Result<()> {
    for member in open.members().await? {
        let only = open.only(&member)?;
        let done = only.defragment().await;
        done.with_context(|| format!("cannot defragment the etcd member {}", member.name))?;
        println!("etcd member {} defragmented", member.name);
    }
    Ok(())
}

async fn alarm(open: &Open, disarm: bool) -> anyhow::Result<()> {
    let alarms = open.cluster.alarms().await.context("cannot list the alarms of etcd")?;
    for alarm in &alarms {
        let name = name_of(alarm.alarm);
        if disarm {
            open.cluster.disarm(alarm).await.with_context(|| format!("cannot end the alarm {name}"))?;
        }
        println!("{name} of etcd member {:x}{}", alarm.member_id, if disarm { " ended" } else { "" });
    }
    Ok(())
}

async fn run_member(data_dir: &Path, args: &RunArgs) -> anyhow::Result<()> {
    log_to_stderr();
    hardening::prepare_data_directory(data_dir)?;
    if args.member.resets() {
        return args.member.reset(data_dir).await;
    }
    let settings = match Settings::load(data_dir)? {
        Some(settings) => settings,
        None if args.member.cluster_init => {
            let address =
                args.advertise_address.or_else(|| outward_address(false)).or_else(|| outward_address(true));
            let address = address
                .context("this machine has no default route; give its address with --advertise-address")?;
            let ports = (args.member.etcd_member_client_port, args.member.etcd_member_peer_port);
            Settings::create(data_dir, address, ports, Vec::new())?
        }
        None => bail!("{} has no etcd member; create one with --cluster-init", data_dir.display()),
    };
    let certificates = Certificates::load_or_issue(data_dir, &settings)?;
    let member = start(data_dir, &settings, &certificates).await?;
    eprintln!(
        "The etcd member serves {}. For `corten datastore migrate`, its files are {}, {} and {}.",
        settings.local_url(),
        certificates.path("ca.crt"),
        data_dir.join("pki/apiserver-etcd-client.crt").display(),
        data_dir.join("pki/apiserver-etcd-client.key").display(),
    );
    StopSignals::install()?.wait().await;
    member.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_selected_by_name_or_id() {
        let member = |id, name: &str| EtcdMember { id, name: name.to_owned(), ..EtcdMember::default() };
        let members = [member(0xa1, "one"), member(0xb2, "two"), member(0xc3, "")];
        let ids = |asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|text| (*text).to_owned()).collect();
            select(&members, &asked).map(|found| found.iter().map(|member| member.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["two", "a1"]).unwrap(), [0xb2, 0xa1]);
        assert_eq!(ids(&["c3"]).unwrap(), [0xc3], "a member that never started has no name");
        assert!(ids(&[""]).is_err() && ids(&["three"]).is_err());
        assert!(ids(&["a1", "b2", "c3"]).unwrap_err().to_string().contains("last"));
    }
}
