//! `corten backup schedule`, and the file in which the server keeps its schedules.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use corten_api::schedule as cron;
use corten_base::files;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ServerFlags;
use super::create::JobFlags;
use super::job::Job;
use super::socket::{self, Request, Response};
use crate::table;

const FILE: &str = "backup-schedules.json";
const MAX_SCHEDULES: usize = 64;
const MAX_BYTES: u64 = 1 << 20;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Add a schedule, or replace the one of the same name.
    Set {
        /// Times of the backups in Cron's notation, in UTC unless it names a time zone: '0 3 * * *', '@hourly'.
        #[arg(long)]
        cron: String,
        #[command(flatten)]
        job: Box<JobFlags>,
    },
    /// List schedules with their last and next backups.
    List {
        #[command(flatten)]
        server: ServerFlags,
    },
    /// Delete a schedule; its backups stay.
    Delete {
        name: String,
        #[command(flatten)]
        server: ServerFlags,
    },
}

/// A schedule of the server. Its name is the set of its archives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Schedule {
    pub(super) cron: String,
    pub(super) job: Job,
}

/// The backups of a schedule so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct State {
    /// The time from which the next backup counts: when the schedule was set, or its last attempt began.
    pub(super) since: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_success: Option<String>,
    /// The reason why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<String>,
    #[serde(default)]
    pub(super) failures: u64,
}

impl Schedule {
    pub(super) fn name(&self) -> &str {
        &self.job.set
    }

    /// The next time after a time.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        cron::Schedule::parse(&self.cron).ok()?.next(after, &jiff::tz::TimeZone::UTC)
    }

    pub(super) fn check(&self, is_encrypted: bool) -> anyhow::Result<()> {
        cron::Schedule::parse(&self.cron).map_err(anyhow::Error::msg).context("--cron")?;
        ensure!(
            self.next(Timestamp::now()).is_some(),
            "--cron {:?} has no time in the next years",
            self.cron
        );
        let is_bucket = corten_backup::place::is_bucket(&self.job.to);
        ensure!(
            !is_bucket || self.job.bucket.s3_credentials_file.is_some(),
            "a schedule needs --s3-credentials-file: the server does not have the environment of this command"
        );
        if let Some(file) = &self.job.passphrase_file {
            ensure!(file.is_absolute(), "a schedule needs a --passphrase-file that the server can read");
        }
        self.job.check(is_encrypted)
    }
}

/// The schedules of a server by name.
pub(super) type Schedules = BTreeMap<String, (Schedule, State)>;

pub(super) fn load(data_dir: &Path) -> anyhow::Result<Schedules> {
    use io::Read;
    let path = data_dir.join(FILE);
    let failed = || format!("cannot read {}", path.display());
    let mut text = String::new();
    match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Schedules::new()),
        file => file.and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)).with_context(failed)?,
    };
    let all: Vec<(Schedule, State)> = serde_json::from_str(&text).with_context(failed)?;
    Ok(all.into_iter().map(|of| (of.0.name().to_owned(), of)).collect())
}

/// Replaces the file at once.
pub(super) fn save(data_dir: &Path, schedules: &Schedules) -> anyhow::Result<()> {
    ensure!(schedules.len() <= MAX_SCHEDULES, "a server has {MAX_SCHEDULES} schedules at most");
    let path = data_dir.join(FILE);
    let draft = path.with_extension("json.tmp");
    let all: Vec<&(Schedule, State)> = schedules.values().collect();
    let save = || -> io::Result<()> {
        files::write_private(&draft, serde_json::to_vec_pretty(&all)?)?;
        File::open(&draft)?.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(data_dir)?.sync_all()
    };
    save().with_context(|| format!("cannot write {}", path.display()))
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Set { cron, job } => {
            let schedule = Schedule { cron, job: job.job()? };
            schedule.check(false)?;
            let next = schedule.next(Timestamp::now()).context("--cron has no next time")?;
            let name = schedule.name().to_owned();
            ask(job.data_dir()?, &Request::SetSchedule(schedule)).await?;
            println!("schedule {name} set; its next backup is at {next}");
        }
        Command::List { server } => {
            let Response::Schedules(schedules) = ask(server.data_dir()?, &Request::Schedules).await? else {
                bail!("the server sent another answer");
            };
            let mut rows =
                vec![["NAME", "CRON", "TO", "KEEP", "LAST SUCCESS", "NEXT", "FAILURE"].map(str::to_owned)];
            rows.extend(schedules.iter().map(|(schedule, state)| row(schedule, state)));
            print!("{}", table::aligned(&rows));
        }
        Command::Delete { name, server } => {
            ask(server.data_dir()?, &Request::DeleteSchedule(name.clone())).await?;
            println!("schedule {name} deleted");
        }
    }
    Ok(())
}

async fn ask(data_dir: PathBuf, request: &Request) -> anyhow::Result<Response> {
    let response = socket::ask(&data_dir, request).await?;
    response.with_context(|| format!("no server runs on {}; schedules are the server's", data_dir.display()))
}

fn row(schedule: &Schedule, state: &State) -> [String; 7] {
    let since = state.since.parse().unwrap_or_else(|_| Timestamp::now());
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "<none>".to_owned());
    [
        schedule.name().to_owned(),
        schedule.cron.clone(),
        schedule.job.to.clone(),
        or_none(schedule.job.keep.map(|keep| keep.to_string())),
        or_none(state.last_success.clone()),
        or_none(schedule.next(since).map(|next| next.to_string())),
        or_none(state.failure.clone()),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::place::BucketFlags;
    use super::*;

    pub(in crate::backup) fn schedule(name: &str, cron: &str) -> Schedule {
        let (set, to, bucket) = (name.into(), "/backups".into(), BucketFlags::default());
        let job = Job { set, to, keep: None, passphrase_file: None, unencrypted: false, bucket };
        Schedule { cron: cron.into(), job }
    }

    #[test]
    fn schedules_survive_and_damaged_ones_are_not_dropped() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(load(scratch.path()).unwrap().is_empty());
        let state = State { since: "2026-01-01T00:00:00Z".into(), failures: 2, ..State::default() };
        let schedules = Schedules::from([("a".to_owned(), (schedule("a", "@hourly"), state))]);
        save(scratch.path(), &schedules).unwrap();
        assert_eq!(load(scratch.path()).unwrap(), schedules);
        fs::write(scratch.path().join(FILE), "[{]").unwrap();
        assert!(load(scratch.path()).is_err());
    }

    #[test]
    fn schedules_are_checked() {
        schedule("a", "*/5 * * * *").check(false).unwrap();
        for bad in ["", "* * *", "61 * * * *", "0 0 30 2 *"] {
            assert!(schedule("a", bad).check(false).is_err(), "{bad}");
        }
        let mut to_bucket = schedule("a", "@daily");
        to_bucket.job.to = "s3://bucket".into();
        assert!(to_bucket.check(false).unwrap_err().to_string().contains("--s3-credentials-file"));
    }
}
