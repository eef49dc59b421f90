//! The part of `corten server` that makes backups: the socket for commands, and the schedules.

use std::sync::Arc;

use anyhow::{Context, bail};
use corten_base::Clock;
use corten_client::Client;
use corten_reconcile::Recorder;
use corten_serving::metrics::Exposition;
use corten_store::Store;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::job::Cluster;
use super::schedule::{self, Schedule, Schedules, State};
use super::socket::{self, Request, Response};
use super::{metrics, scheduler};

/// The connections that are served at a time.
const CONNECTIONS: usize = 16;

/// The parts of the server that backups need.
pub(crate) struct Settings {
    pub(crate) store: Store,
    pub(crate) data_dir: std::path::PathBuf,
    /// True if the store's values are encrypted on disk.
    pub(crate) is_encrypted: bool,
    /// The client that records events.
    pub(crate) client: Client,
}

/// The running part; it stops when it is dropped.
pub(crate) struct Backups {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

pub(super) struct Shared {
    pub(super) cluster: Cluster,
    /// Held while a backup is made: one at a time.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) schedules: Mutex<Schedules>,
    /// The reason why the file of schedules cannot be read. It is not overwritten then.
    damage: Option<String>,
    /// Signalled when schedules change.
    pub(super) changed: Notify,
    pub(super) recorder: Recorder,
}

impl Backups {
    /// Starts to serve commands and schedules. A failure is logged: the cluster works without them.
    pub(crate) fn start(settings: Settings) -> Backups {
        let Settings { store, data_dir, is_encrypted, client } = settings;
        let (schedules, damage) = match schedule::load(&data_dir) {
            Ok(schedules) => (schedules, None),
            Err(error) => {
                let err = format!("{error:#}");
                tracing::error!(err, "cannot read backup schedules; no scheduled backups are made");
                (Schedules::new(), Some(err))
            }
        };
        let listener = socket::bind(&data_dir);
        let mut tasks = JoinSet::new();
        let recorder = Recorder::start(&client, Clock::real(), &mut tasks);
        let shared = Arc::new(Shared {
            cluster: Cluster { store, data_dir, is_encrypted },
            turn: tokio::sync::Mutex::default(),
            schedules: Mutex::new(schedules),
            damage,
            changed: Notify::new(),
            recorder,
        });
        match listener {
            Ok(listener) => drop(tasks.spawn(serve(Arc::clone(&shared), listener))),
            Err(error) => tracing::error!(err = format!("{error:#}"), "cannot serve backup commands"),
        }
        tasks.spawn(scheduler::run(Arc::clone(&shared)));
        Backups { shared, _tasks: tasks }
    }

    /// The metrics of the schedules.
    pub(crate) fn metrics(&self) -> impl Fn(&mut Exposition) + Send + Sync + 'static {
        let shared = Arc::downgrade(&self.shared);
        move |out| {
            if let Some(shared) = shared.upgrade() {
                metrics::render(&shared.schedules.lock(), out);
            }
        }
    }
}

async fn serve(shared: Arc<Shared>, listener: UnixListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    let _place = place;
                    if let Err(error) = answer(&shared, stream).await {
                        tracing::debug!(err = format!("{error:#}"), "backup command failed");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(err = %error, "cannot accept backup commands; retrying");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(shared: &Shared, mut stream: UnixStream) -> anyhow::Result<()> {
    let request = socket::request(&mut stream).await?;
    let response = match carry_out(shared, request).await {
        Ok(response) => response,
        Err(error) => Response::Failed(format!("{error:#}")),
    };
    socket::send(&mut stream, &response).await
}

async fn carry_out(shared: &Shared, request: Request) -> anyhow::Result<Response> {
    match request {
        Request::Create(job, secrets) => {
            let _turn = shared.turn.lock().await;
            let report = job.run(&shared.cluster, secrets).await?;
            tracing::info!(backup = report.name, to = report.to, bytes = report.bytes, "backup created");
            Ok(Response::Created(report))
        }
        Request::Schedules => {
            shared.check()?;
            Ok(Response::Schedules(shared.schedules.lock().values().cloned().collect()))
        }
        Request::SetSchedule(schedule) => {
            schedule.check(shared.cluster.is_encrypted)?;
            // Reads the files and opens the place as the server will, so that a mistake shows now.
            let secrets = schedule.job.secrets()?;
            schedule.job.bucket.open(&schedule.job.to, secrets.credentials)?;
            shared.change(|schedules| set(schedules, schedule))
        }
        Request::DeleteSchedule(name) => shared.change(|schedules| {
            schedules.remove(&name).map(drop).with_context(|| format!("there is no schedule {name}"))
        }),
    }
}

/// Adds or replaces a schedule; what its earlier form achieved stays known.
fn set(schedules: &mut Schedules, schedule: Schedule) -> anyhow::Result<()> {
    let name = schedule.name().to_owned();
    let earlier = schedules.remove(&name).map(|(_, state)| state).unwrap_or_default();
    let state = State { since: Timestamp::now().to_string(), ..earlier };
    schedules.insert(name, (schedule, state));
    Ok(())
}

impl Shared {
    fn check(&self) -> anyhow::Result<()> {
        self.damage
            .as_ref()
            .map_or(Ok(()), |why| bail!("{why}; mend or remove the file and restart the server"))
    }

    /// Changes the schedules, on disk first.
    fn change(&self, change: impl FnOnce(&mut Schedules) -> anyhow::Result<()>) -> anyhow::Result<Response> {
        self.check()?;
        let mut schedules = self.schedules.lock();
        let mut changed = schedules.clone();
        change(&mut changed)?;
        schedule::save(&self.cluster.data_dir, &changed)?;
        *schedules = changed;
        drop(schedules);
        self.changed.notify_one();
        Ok(Response::Done)
    }
}
