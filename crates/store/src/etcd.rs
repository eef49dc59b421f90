//! The engine on etcd: writes are etcd's transactions, reads come from memory, which one watch keeps current.
//!
//! ```text
//! commit() ─► translate ─► Txn ─────────────► etcd
//!    ▲                                         │ watch
//!    └─ acknowledged when seen ◄─ live ◄─ feed ◄─ translate back
//! ```
//!
//! Invariants: a request is answered only when this process's own state has the revision of etcd's response, so that all
//! caches have it, and a client reads its own writes; the state only moves forward, over whole revisions; when the watch was
//! lost, nothing is missed: it continues from the last revision, or the differences to a new list are published as events.
//! While etcd does not respond, writes and consistent reads fail; they never use what may be outdated.
//!
//! Other processes may write below the same prefix at any time. What a transaction did is unknown if the connection was lost
//! before its response; the caller gets an error, and the watch shows the outcome.

mod compaction;
mod feed;
mod history;
mod keys;
mod lease;
mod pending;
mod progress;
mod rpc;
mod transaction;
mod translation;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use corten_grpc::{Channel, ChannelOptions, Endpoint, KeepAlive};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::AbortHandle};

use crate::{Error, Revision, live::Live};
use keys::Keys;
use pending::Pending;
use progress::Readers;
pub use translation::{Preparation, Translation, Unreadable};

/// The options of a store on etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    pub endpoints: Vec<Endpoint>,
    /// The prefix of all keys in etcd, with its slash: `/registry/`.
    pub prefix: String,
    /// The text in place of the prefix in the keys of this store.
    pub root: String,
    /// The time that a request may take.
    pub timeout: Duration,
    /// The time between compactions; `None` if another process compacts.
    pub compaction: Option<Duration>,
    /// Never writes anything, not even to learn how far a watch is: `catch_up` fails on servers that do not report it.
    pub read_only: bool,
    /// The time without traffic after which a connection is checked.
    pub keep_alive: KeepAlive,
}

impl EtcdOptions {
    pub fn new(endpoints: Vec<Endpoint>) -> EtcdOptions {
        let seconds = Duration::from_secs;
        // Where there is another member, one whose machine is gone is left soon. etcd refuses pings every five seconds or less.
        let (interval, timeout) =
            if endpoints.len() > 1 { (seconds(6), seconds(3)) } else { (seconds(30), seconds(10)) };
        EtcdOptions {
            endpoints,
            prefix: "/registry/".into(),
            root: "/registry/".into(),
            timeout: Duration::from_secs(60),
            compaction: Some(Duration::from_secs(5 * 60)),
            read_only: false,
            keep_alive: KeepAlive { interval, timeout },
        }
    }
}

/// A connected store.
pub(crate) struct Etcd {
    pub(crate) live: Arc<Live>,
    channel: Channel,
    keys: Keys,
    translation: Arc<dyn Translation>,
    timeout: Duration,
    is_read_only: bool,
    pending: Pending,
    readers: Readers,
    /// Signalled when the watch is to report its progress.
    wants_progress: Notify,
    /// True if etcd reports the progress of a watch in order with its events.
    has_ordered_progress: AtomicBool,
    closed: AtomicBool,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Etcd {
    /// Connects and loads the state. Keeps trying until etcd responds.
    pub(crate) async fn connect(
        options: EtcdOptions,
        translation: Arc<dyn Translation>,
    ) -> Result<Arc<Etcd>, Error> {
        let channel_options =
            ChannelOptions { keep_alive: Some(options.keep_alive), ..ChannelOptions::default() };
        let mut etcd = Etcd {
            live: Arc::new(Live::new(Default::default(), 0)),
            channel: Channel::new(options.endpoints, channel_options),
            keys: Keys::new(options.prefix, options.root),
            translation,
            timeout: options.timeout,
            is_read_only: options.read_only,
            pending: Pending::default(),
            readers: Readers::default(),
            wants_progress: Notify::new(),
            has_ordered_progress: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            tasks: Mutex::default(),
        };
        etcd.live = Arc::new(etcd.load().await?);
        let etcd = Arc::new(etcd);
        etcd.start(Arc::clone(&etcd).follow());
        if let Some(interval) = options.compaction.filter(|_| !options.read_only) {
            etcd.start(Arc::clone(&etcd).compact_periodically(interval));
        }
        Ok(etcd)
    }

    fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().push(tokio::spawn(task).abort_handle());
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn shut_down(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.tasks.lock().drain(..).for_each(|task| task.abort());
        self.live.observers.close();
    }
}

/// A revision in etcd's messages.
fn number(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// A revision or lease of etcd's messages, which is never negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
