//! The pod network that others bring: a chain of CNI plugins, as a configuration in a folder names them.
//!
//! [`config`] reads, [`plan`] says purely which plugin is run with what, [`answer`] understands what it says; only
//! [`run`] starts processes. Calls block for as long as plugins take, and no plugin is waited for without an end.
//!
//! *Invariants:* an attachment is written down, with the configuration that it was made with, before the first plugin
//! runs: whatever a crash or a new configuration leaves behind is deleted with what it was added with. A plugin is never
//! given a namespace that is not the one it was first given, whatever has its path now.

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
    #[error("{} is no CNI configuration: {reason}", path.display())]
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
    /// Where attachments are remembered.
    pub folder: PathBuf,
    /// Where configurations are; the first by name counts.
    pub conf_dir: PathBuf,
    /// Where plugins are.
    pub bin_dirs: Vec<PathBuf>,
}

/// A pod that is to be connected.
#[derive(Debug, Clone, Default)]
pub struct Pod {
    pub sandbox: String,
    /// A path that opens its network namespace.
    pub network: PathBuf,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// What plugins are told if their configuration says that they can do something with it.
    pub capabilities: Map<String, Value>,
}

/// The plugins of the node whose namespace it was opened in.
#[derive(Debug)]
pub struct Cni {
    options: Options,
    namespace: Namespace,
    records: Records,
    /// The last configuration whose plugins are all there and speak its version.
    good: Mutex<Option<List>>,
    /// Held alone while what nobody has any more is collected, and shared while pods come and go.
    quiet: RwLock<()>,
}

impl Cni {
    /// Takes over what is there.
    pub fn open(options: Options, namespace: Namespace) -> Result<Cni> {
        let records = Records::open(&options.folder)?;
        Ok(Cni { options, namespace, records, good: Mutex::new(None), quiet: RwLock::new(()) })
    }

    /// Why pods cannot be connected now, if they cannot.
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

    /// Connects a pod; its addresses, the primary one first.
    pub fn attach(&self, pod: &Pod) -> Result<Vec<IpAddr>> {
        let _busy = self.quiet.read();
        let list = config::first(&self.options.conf_dir)?;
        loopback(&pod.network)
            .map_err(|source| Error::System { operation: "turning on the pod's loopback".into(), source })?;
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

    /// Gives back what [`Cni::attach`] took. The namespace may be gone; doing it twice is fine, and so is a pod that was
    /// connected otherwise.
    pub fn detach(&self, sandbox: &str, network: &Path) -> Result<()> {
        let _busy = self.quiet.read();
        let Some(record) = self.records.read(sandbox)? else { return Ok(()) };
        let attachment = attachment(record.namespace(network), sandbox, &record);
        for invocation in plan::del(&record.list, &attachment, record.result.as_ref()) {
            self.invoke(&invocation)?;
        }
        self.records.remove(sandbox)
    }

    /// Whether a pod is still connected as it was; nothing is said of one that was connected otherwise.
    pub fn check(&self, sandbox: &str, network: &Path) -> Result<()> {
        let Some(record) = self.records.read(sandbox)? else { return Ok(()) };
        let attachment = attachment(record.namespace(network), sandbox, &record);
        let invocations = plan::check(&record.list, &attachment, record.result.as_ref());
        invocations.iter().try_for_each(|invocation| self.invoke(invocation).map(drop))
    }

    /// Has plugins give back what belongs to no attachment that is known.
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

/// An error with what is behind it.
fn described(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
