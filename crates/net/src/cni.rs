//! A pod network of CNI plugins, from a configuration file.
//!
//! [`config`] parses configurations, [`plan`] computes the plugins' invocations, purely, [`answer`] parses their output; only
//! [`run`] starts processes. Calls block for as long as plugins take, with a timeout for each plugin.
//!
//! *Invariants:* an attachment is recorded, with its configuration, before the first plugin runs: so after a crash or a
//! configuration change DEL uses the configuration of ADD. A plugin never gets another namespace than that of ADD, even if
//! the path now leads to another one.

pub mod answer;
pub mod config;
pub mod plan;
mod record;
mod run;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::namespace::Namespace;
use crate::route::{Change, Routing};
use config::List;
use plan::{Attachment, Invocation};
use record::{Record, Records};

/// The pod's interface, within the pod.
pub const INTERFACE: &str = "eth0";

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cni plugin not initialized: no network config found in {}", .0.display())]
    NoConfiguration(PathBuf),
    #[error("invalid CNI configuration {}: {reason}", path.display())]
    Configuration { path: PathBuf, reason: String },
    #[error("failed to find plugin {plugin:?} in path {folders:?}")]
    Missing { plugin: String, folders: Vec<PathBuf> },
    #[error("plugin type={plugin:?} failed ({command}): {reason}")]
    Plugin { plugin: String, command: String, reason: String },
    #[error("{operation}")]
    System { operation: String, source: io::Error },
}

#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of attachment records.
    pub folder: PathBuf,
    /// The folder of configurations, of which the first valid one by name is used.
    pub conf_dir: PathBuf,
    /// The folders of plugin binaries.
    pub bin_dirs: Vec<PathBuf>,
}

/// A pod to attach.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    pub sandbox: String,
    /// A path that opens its network namespace.
    pub network: PathBuf,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Capability arguments, for plugins whose configuration declares the capability.
    pub capabilities: Map<String, Value>,
}

/// The CNI network of the node in whose namespace it was opened.
#[derive(Debug)]
pub struct Cni {
    options: Options,
    namespace: Namespace,
    records: Records,
    /// The last configuration whose plugins are all installed and support its version.
    good: Mutex<Option<List>>,
    /// Held exclusively by garbage collection, and shared by ADD and DEL.
    quiet: RwLock<()>,
}

impl Cni {
    /// Opens the network, with the records of earlier processes.
    pub fn open(options: Options, namespace: Namespace) -> Result<Cni> {
        let records = Records::open(&options.folder)?;
        Ok(Cni { options, namespace, records, good: Mutex::new(None), quiet: RwLock::new(()) })
    }

    /// The reason why pods cannot be attached now; `None` if the network is ready.
    pub fn not_ready(&self) -> Option<String> {
        self.status().err().map(|error| described(&error))
    }

    fn status(&self) -> Result<()> {
        let list = config::first(&self.options.conf_dir)?;
        let mut good = self.good.lock();
        if good.as_ref() != Some(&list) {
            for invocation in plan::version(&list) {
                answer::speaks(&invocation.plugin, &self.invoke(&invocation)?, &list.version)?;
            }
            *good = Some(list.clone());
        }
        drop(good);
        plan::status(&list).iter().try_for_each(|invocation| self.invoke(invocation).map(drop))
    }

    /// Attaches a pod, and returns its addresses, the primary one first.
    pub fn attach(&self, pod: &Pod) -> Result<Vec<IpAddr>> {
        let _busy = self.quiet.read();
        let list = config::first(&self.options.conf_dir)?;
        loopback(&pod.network).map_err(|source| Error::System {
            operation: "cannot set up the pod's loopback interface".into(),
            source,
        })?;
        let mut record = Record::new(list, pod)?;
        self.records.write(&pod.sandbox, &record)?;
        let mut result = None;
        for index in 0..record.list.plugins.len() {
            let attachment = attachment(pod.network.to_string_lossy().into_owned(), &pod.sandbox, &record);
            let invocation = plan::add(&record.list, index, &attachment, result.as_ref());
            result = Some(answer::result(&invocation.plugin, &self.invoke(&invocation)?)?);
        }
        record.result = result;
        self.records.write(&pod.sandbox, &record)?;
        Ok(record.result.as_ref().map(|result| answer::addresses(result, INTERFACE)).unwrap_or_default())
    }

    /// Undoes [`Cni::attach`]. The namespace may be gone. Detaching twice, or a pod of another network, is no error.
    pub fn detach(&self, sandbox: &str, network: &Path) -> Result<()> {
        let _busy = self.quiet.read();
        let Some(record) = self.records.read(sandbox)? else { return Ok(()) };
        let attachment = attachment(record.namespace(network), sandbox, &record);
        for invocation in plan::del(&record.list, &attachment, record.result.as_ref()) {
            self.invoke(&invocation)?;
        }
        self.records.remove(sandbox)
    }

    /// Runs CHECK on a pod. Pods of another network pass.
    pub fn check(&self, sandbox: &str, network: &Path) -> Result<()> {
        let Some(record) = self.records.read(sandbox)? else { return Ok(()) };
        let attachment = attachment(record.namespace(network), sandbox, &record);
        let invocations = plan::check(&record.list, &attachment, record.result.as_ref());
        invocations.iter().try_for_each(|invocation| self.invoke(invocation).map(drop))
    }

    /// Runs GC, so that plugins release the resources of unknown attachments.
    pub fn collect_garbage(&self) -> Result<()> {
        let _alone = self.quiet.write();
        let list = config::first(&self.options.conf_dir)?;
        let known = self.records.sandboxes_of(&list.name)?;
        plan::gc(&list, &known).iter().try_for_each(|invocation| self.invoke(invocation).map(drop))
    }

    fn invoke(&self, invocation: &Invocation) -> Result<Vec<u8>> {
        run::run(invocation, &self.options.bin_dirs, &self.namespace)
    }
}

fn attachment<'a>(network: String, sandbox: &'a str, record: &'a Record) -> Attachment<'a> {
    Attachment { sandbox, network, args: &record.args, capabilities: &record.capabilities }
}

fn loopback(network: &Path) -> io::Result<()> {
    let mut routing = Routing::open(&Namespace::open(network)?)?;
    match routing.link("lo")? {
        Some(link) => routing.change_link(link.index, Change { up: true, ..Change::default() }),
        None => Ok(()),
    }
}

/// An error with its sources.
fn described(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
