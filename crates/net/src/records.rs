//! The records of attached pods, in memory and on disk: one small file each, replaced atomically.
//!
//! After a crash of the process every record is as it was last written. Files are not synced: after a power failure no pod is
//! attached, and its record is removed whatever it contains.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use corten_base::files;
use serde::{Deserialize, Serialize};

use crate::error::During;
use crate::rules::Mapping;
use crate::{Cidr, Error, Result};

/// The addresses and host ports of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// With their networks' prefixes; the primary one first.
    pub addresses: Vec<Cidr>,
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
}

/// A host port of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPort {
    pub protocol: Protocol,
    /// `None` is any address of the node; the unspecified one is any of its family.
    pub host_ip: Option<IpAddr>,
    pub host_port: u16,
    pub pod_port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    #[serde(rename = "TCP")]
    Tcp,
    #[serde(rename = "UDP")]
    Udp,
    #[serde(rename = "SCTP")]
    Sctp,
}

impl Protocol {
    /// The IP protocol number.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        })
    }
}

impl HostPort {
    /// True if both would match the same packet.
    fn collides(&self, other: &HostPort) -> bool {
        let same_address = match (self.host_ip, other.host_ip) {
            (Some(a), Some(b)) => {
                a == b || a.is_ipv4() == b.is_ipv4() && (a.is_unspecified() || b.is_unspecified())
            }
            _ => true,
        };
        self.protocol == other.protocol && self.host_port == other.host_port && same_address
    }

    fn mapping(&self, pod: IpAddr) -> Option<Mapping> {
        if self.host_ip.is_some_and(|host| host.is_ipv4() != pod.is_ipv4()) {
            return None;
        }
        Some(Mapping {
            protocol: self.protocol,
            host_ip: self.host_ip.filter(|host| !host.is_unspecified()),
            host_port: self.host_port,
            pod,
            pod_port: self.pod_port,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Records {
    folder: PathBuf,
    by_sandbox: BTreeMap<String, Attachment>,
}

impl Records {
    /// Reads the records of a folder, and removes invalid files.
    pub(crate) fn load(folder: &Path) -> Result<Records> {
        let reading = || format!("cannot read {}", folder.display());
        files::private_directory(folder).during(format!("cannot create {}", folder.display()))?;
        let mut by_sandbox = BTreeMap::new();
        for entry in fs::read_dir(folder).during(reading())? {
            let path = entry.during(reading())?.path();
            let read = |path: &Path| {
                let sandbox = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.to_owned();
                Some((sandbox, serde_json::from_slice(&fs::read(path).ok()?).ok()?))
            };
            if let Some((sandbox, attachment)) = read(&path) {
                by_sandbox.insert(sandbox, attachment);
            } else {
                tracing::warn!(path = %path.display(), "removing invalid record of a pod network attachment");
                fs::remove_file(&path).during(format!("cannot remove {}", path.display()))?;
            }
        }
        Ok(Records { folder: folder.to_owned(), by_sandbox })
    }

    pub(crate) fn get(&self, sandbox: &str) -> Option<&Attachment> {
        self.by_sandbox.get(sandbox)
    }

    pub(crate) fn sandboxes(&self) -> impl Iterator<Item = &String> {
        self.by_sandbox.keys()
    }

    /// All addresses that pods have, each with its network's prefix.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Cidr> {
        self.by_sandbox.values().flat_map(|attachment| attachment.addresses.iter().copied())
    }

    pub(crate) fn mappings(&self) -> Vec<Mapping> {
        let of = |attachment: &Attachment| {
            let pods: Vec<IpAddr> = attachment.addresses.iter().map(Cidr::address).collect();
            let ports = attachment.host_ports.clone();
            pods.into_iter()
                .flat_map(move |pod| ports.clone().into_iter().filter_map(move |p| p.mapping(pod)))
        };
        self.by_sandbox.values().flat_map(of).collect()
    }

    /// Fails if another pod has one of the host ports.
    pub(crate) fn free(&self, sandbox: &str, wanted: &[HostPort]) -> Result<()> {
        for (owner, attachment) in self.by_sandbox.iter().filter(|(owner, _)| *owner != sandbox) {
            for port in wanted {
                if attachment.host_ports.iter().any(|taken| taken.collides(port)) {
                    let (port, protocol) = (port.host_port, port.protocol);
                    return Err(Error::HostPortTaken { port, protocol, owner: owner.clone() });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, sandbox: &str, attachment: Attachment) -> Result<()> {
        let path = self.path(sandbox)?;
        let unfinished = path.with_extension("new");
        let text = serde_json::to_vec(&attachment).map_err(io::Error::from);
        text.and_then(|text| files::write_private(&unfinished, text))
            .and_then(|()| fs::rename(&unfinished, &path))
            .during(format!("cannot write {}", path.display()))?;
        self.by_sandbox.insert(sandbox.to_owned(), attachment);
        Ok(())
    }

    pub(crate) fn remove(&mut self, sandbox: &str) -> Result<()> {
        let path = self.path(sandbox)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).during(format!("cannot remove {}", path.display()))
            }
            _ => {
                self.by_sandbox.remove(sandbox);
                Ok(())
            }
        }
    }

    fn path(&self, sandbox: &str) -> Result<PathBuf> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if sandbox.is_empty()
            || sandbox.starts_with('.')
            || sandbox.len() > 200
            || !sandbox.chars().all(plain)
        {
            return Err(Error::NotASandbox(sandbox.to_owned()));
        }
        Ok(self.folder.join(format!("{sandbox}{SUFFIX}")))
    }
}

const SUFFIX: &str = ".json";
