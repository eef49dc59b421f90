//! `corten backup create` and `corten backup list`.

use std::path::PathBuf;

use anyhow::{Context, bail};
use corten_backup::place::is_bucket;

use super::ServerFlags;
use super::job::{Cluster, Job, Report};
use super::place::{self, BucketFlags};
use super::socket::{self, Request, Response};
use crate::{datastore, table};

/// The flags of a backup, for now or for a schedule.
#[derive(clap::Args)]
pub(super) struct JobFlags {
    /// Place of the backups: a directory, or s3://BUCKET/PREFIX [default: DATA_DIR/backups].
    #[arg(long, value_name = "DIR|URL")]
    to: Option<String>,
    /// Name that the backups begin with.
    #[arg(long, default_value = "corten")]
    name: String,
    /// Number of backups with this name to keep; older ones are deleted [default: all].
    #[arg(long)]
    keep: Option<u32>,
    /// File whose first line is the passphrase that encrypts the backup; - is stdin.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    /// Write the backup in plain text although the store is encrypted.
    #[arg(long)]
    unencrypted: bool,
    #[command(flatten)]
    bucket: BucketFlags,
    #[command(flatten)]
    server: ServerFlags,
}

impl JobFlags {
    pub(super) fn data_dir(&self) -> anyhow::Result<PathBuf> {
        self.server.data_dir()
    }

    pub(super) fn job(&self) -> anyhow::Result<Job> {
        let passphrase_file = match &self.passphrase_file {
            Some(file) if file.as_os_str() == "-" => Some(file.clone()),
            file => place::absolute(file.as_deref())?,
        };
        Ok(Job {
            set: self.name.clone(),
            to: place::location(self.to.as_deref(), &self.data_dir()?)?,
            keep: self.keep,
            passphrase_file,
            unencrypted: self.unencrypted,
            bucket: self.bucket.absolute()?,
        })
    }
}

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    job: JobFlags,
    /// EncryptionConfiguration of the store, if no server runs.
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Place of the backups: a directory, or s3://BUCKET/PREFIX [default: DATA_DIR/backups].
    #[arg(long, value_name = "DIR|URL")]
    from: Option<String>,
    #[command(flatten)]
    bucket: BucketFlags,
    #[command(flatten)]
    server: ServerFlags,
}

pub(super) async fn create(args: &Args) -> anyhow::Result<()> {
    let (job, data_dir) = (args.job.job()?, args.job.data_dir()?);
    job.check(false)?;
    let request = Request::Create(job, args.job.job()?.secrets()?);
    let report = match socket::ask(&data_dir, &request).await? {
        Some(Response::Created(report)) => report,
        Some(_) => bail!("the server sent another answer"),
        None => create_without_server(request, args, data_dir).await?,
    };
    print(&report);
    Ok(())
}

/// Makes the backup of a store that no server uses.
async fn create_without_server(request: Request, args: &Args, data_dir: PathBuf) -> anyhow::Result<Report> {
    let Request::Create(job, secrets) = request else { bail!("not a backup") };
    let _in_use = super::enter(&data_dir)?;
    let config = args.encryption_provider_config.as_deref();
    let store = datastore::open_directory(&data_dir, config)
        .context("no server runs, so the store is read itself")?;
    let cluster = Cluster { store, data_dir, is_encrypted: config.is_some() };
    let report = job.run(&cluster, secrets).await;
    let store = cluster.store;
    tokio::task::spawn_blocking(|| store.close()).await.context("cannot close the store")?;
    report
}

fn print(report: &Report) {
    let Report { name, to, objects, revision, .. } = report;
    println!("{name}: {objects} objects at revision {revision}, {}, in {to}", table::size(report.bytes));
    for name in &report.removed {
        println!("{name}: deleted");
    }
    if let Some(why) = &report.retention_failure {
        eprintln!("warning: the backup was made, but older ones were not deleted: {why}");
    }
}

pub(super) async fn list(args: &ListArgs) -> anyhow::Result<()> {
    let location = place::location(args.from.as_deref(), &args.server.data_dir()?)?;
    let credentials = is_bucket(&location).then(|| args.bucket.credentials()).transpose()?;
    let place = args.bucket.open(&location, credentials)?;
    let now = jiff::Timestamp::now();
    let mut rows = vec![["NAME", "AGE", "SIZE", "REVISION", "ENCRYPTED", "VERSION"].map(str::to_owned)];
    for stored in place.list().await.with_context(|| format!("cannot list {location}"))? {
        let age = table::short(now.duration_since(stored.name.created).as_secs().max(0));
        let (name, size) = (stored.name.to_string(), table::size(stored.bytes));
        rows.push(match place.header(&stored.name).await {
            Ok(header) => {
                let encrypted = if header.is_encrypted() { "yes" } else { "no" };
                [name, age, size, header.revision.to_string(), encrypted.to_owned(), header.version]
            }
            Err(error) => [name, age, size, "<damaged>".to_owned(), String::new(), error.to_string()],
        });
    }
    print!("{}", table::aligned(&rows));
    Ok(())
}
