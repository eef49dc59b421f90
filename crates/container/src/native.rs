//! The native runtime: pods as kernel objects, with nothing installed.
//!
//! Every pod has one supervisor, a tiny process of its own that holds the pod's namespaces, starts its containers,
//! pumps their logs and writes down how they ended (`corten-sys` carries that program). This process only decides
//! and remembers: what was asked for is on disk before it happens, how containers ended is on disk before it is
//! told, and after a crash or an upgrade [`Native::open`] finds every pod as it is.
//!
//! *Invariants:* no mount is ever made in the node's mount namespace. A container without a supervisor does not
//! run. A record is written whole or not at all.

mod apparmor;
pub mod cgroup;
mod containers;
mod images;
mod link;
mod logs;
pub mod network;
mod oci;
mod plan;
mod records;
mod recovery;
mod runtime;
mod sandboxes;
pub mod seccomp;
mod stats;
mod streams;
pub mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use corten_base::Clock;
use corten_sys::supervisor::Program;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::image::Store;
use crate::registry::Registries;
use crate::{ContainerEvent, ContainerEventKind, Error, Result, blocking};
use cgroup::Cgroups;
use link::Link;
use network::Network;
use records::{ContainerRecord, Ended, SandboxRecord};

/// Where a runtime keeps things, and what it relies on.
pub struct Options {
    /// Images, layers, sandboxes and containers.
    pub data_dir: PathBuf,
    pub network: Arc<dyn Network>,
    pub registries: Registries,
    pub clock: Clock,
    /// Where seccomp profiles of the node are.
    pub seccomp_dir: PathBuf,
    /// Other OCI runtimes that RuntimeClasses may name, by their handlers' names.
    pub handlers: BTreeMap<String, PathBuf>,
}

/// Both services. Clones are the same runtime.
#[derive(Clone)]
pub struct Native(Arc<Inner>);

pub(crate) struct Inner {
    options: Options,
    cgroups: Cgroups,
    program: Program,
    store: Arc<Store>,
    state: Mutex<State>,
    events: broadcast::Sender<ContainerEvent>,
}

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, Sandbox>,
    containers: BTreeMap<String, Container>,
}

struct Sandbox {
    record: SandboxRecord,
    /// `None` once it is stopped or dead.
    link: Option<Link>,
}

struct Container {
    record: ContainerRecord,
    phase: Phase,
    /// Changes when it ends.
    ended: watch::Sender<bool>,
}

/// Where a container is in its life.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Created,
    Starting,
    Running { pid: u32, started_at: jiff::Timestamp },
    Exited(Ended),
}

impl Native {
    /// Opens the runtime at its folder and finds everything that is there.
    pub async fn open(mut options: Options) -> Result<Native> {
        let absolute = std::path::absolute(&options.data_dir);
        options.data_dir = absolute.map_err(|error| Error::internal("finding the data directory", error))?;
        let program = Program::load().map_err(|error| Error::internal("loading the supervisor", error))?;
        let cgroups = Cgroups::detect().map_err(|error| Error::internal("finding cgroups", error))?;
        let store = Arc::new(Store::open(&options.data_dir)?);
        let (events, _) = broadcast::channel(4096);
        let inner = Inner { options, cgroups, program, store, state: Mutex::default(), events };
        let native = Native(Arc::new(inner));
        native.recover().await?;
        Ok(native)
    }

    /// The images, for whoever brings some without a registry.
    pub fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    fn tell(&self, container_id: &str, sandbox_id: &str, kind: ContainerEventKind) {
        let event = ContainerEvent {
            container_id: container_id.to_owned(),
            pod_sandbox_id: sandbox_id.to_owned(),
            kind,
            at: self.0.options.clock.now(),
        };
        // That nobody listens is fine.
        let _ = self.0.events.send(event);
    }

    fn sandbox_folder(&self, id: &str) -> PathBuf {
        self.0.options.data_dir.join("sandboxes").join(id)
    }

    fn container_folder(&self, id: &str) -> PathBuf {
        self.0.options.data_dir.join("containers").join(id)
    }

    /// The link to a sandbox that runs.
    fn link(&self, sandbox_id: &str) -> Result<Link> {
        let state = self.0.state.lock();
        let sandbox = state.sandboxes.get(sandbox_id).ok_or_else(|| no_sandbox(sandbox_id))?;
        let stopped = || Error::FailedPrecondition(format!("pod sandbox {sandbox_id:?} is not running"));
        sandbox.link.clone().ok_or_else(stopped)
    }
}

fn no_sandbox(id: &str) -> Error {
    Error::NotFound(format!("pod sandbox {id:?} not found"))
}

fn no_container(id: &str) -> Error {
    Error::NotFound(format!("container {id:?} not found"))
}

/// An id like every runtime's: 64 hexadecimal digits, never the same.
fn new_id() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Error::Internal(format!("making an id: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
