//! The native runtime: pods from kernel namespaces and cgroups, with nothing installed.
//!
//! Every pod has one supervisor, a small process that holds the pod's namespaces, starts its containers, writes their
//! logs and records their exits (`corten-sys` contains that program). This process only decides and records: a request
//! is on disk before it is carried out, an exit is on disk before it is reported, and after a crash or an upgrade
//! [`Native::open`] finds every pod in its actual state.
//!
//! *Invariants:* no mount is ever created in the node's mount namespace. A container never outlives its supervisor. A
//! record is written as a whole or not at all.

mod apparmor;
pub mod cgroup;
mod containers;
#[doc(hidden)]
pub mod fuzz;
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

use crate::image::{Limits, Store};
use crate::registry::Registries;
use crate::{ContainerEvent, ContainerEventKind, Error, Result, blocking};
use cgroup::Cgroups;
use link::Link;
use network::Network;
use records::{ContainerRecord, Ended, SandboxRecord};

/// The directories of a runtime, and its dependencies.
pub struct Options {
    /// Images, layers, sandboxes and containers.
    pub data_dir: PathBuf,
    pub network: Arc<dyn Network>,
    pub registries: Registries,
    pub clock: Clock,
    /// The directory of the node's seccomp profiles.
    pub seccomp_dir: PathBuf,
    /// Other OCI runtimes that RuntimeClasses may name, by their handlers' names.
    pub handlers: BTreeMap<String, PathBuf>,
    /// Limits on the resources that images may take on this machine.
    pub image_limits: Limits,
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

/// The state of a container.
#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Created,
    Starting,
    Running { pid: u32, started_at: jiff::Timestamp },
    Exited(Ended),
}

impl Native {
    /// Opens the runtime at its directory and recovers the pods in it.
    pub async fn open(mut options: Options) -> Result<Native> {
        let absolute = std::path::absolute(&options.data_dir);
        options.data_dir =
            absolute.map_err(|error| Error::internal("cannot resolve the data directory", error))?;
        let program =
            Program::load().map_err(|error| Error::internal("cannot load the pod supervisor", error))?;
        let cgroups = Cgroups::detect().map_err(|error| Error::internal("cannot detect cgroups", error))?;
        let store = Arc::new(Store::open(&options.data_dir)?.with_limits(options.image_limits));
        let (events, _) = broadcast::channel(4096);
        let inner = Inner { options, cgroups, program, store, state: Mutex::default(), events };
        let native = Native(Arc::new(inner));
        native.recover().await?;
        Ok(native)
    }

    /// The image store, for imports without a registry.
    pub fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    fn send_event(&self, container_id: &str, sandbox_id: &str, kind: ContainerEventKind) {
        let event = ContainerEvent {
            container_id: container_id.to_owned(),
            pod_sandbox_id: sandbox_id.to_owned(),
            kind,
            at: self.0.options.clock.now(),
        };
        // Fails only if there is no receiver.
        let _ = self.0.events.send(event);
    }

    fn sandbox_folder(&self, id: &str) -> PathBuf {
        self.0.options.data_dir.join("sandboxes").join(id)
    }

    fn container_folder(&self, id: &str) -> PathBuf {
        self.0.options.data_dir.join("containers").join(id)
    }

    /// The link to the supervisor of a running sandbox.
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

/// A random id of 64 hexadecimal digits, as other runtimes have them.
fn new_id() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Internal(format!("cannot generate an id: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
