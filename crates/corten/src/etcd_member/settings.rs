//! The settings of a member, in `DATA_DIR/etcd/member.json`: its name and addresses never change, because the other members
//! know it by them.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use corten_base::files;
use serde_json::{Value, json};

const FILE: &str = "member.json";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) address: IpAddr,
    pub(super) client_port: u16,
    pub(super) peer_port: u16,
    /// The client URLs of members of the cluster to join; empty for the first member.
    pub(super) seeds: Vec<String>,
    /// True once the member was in its cluster: then it never starts without its data.
    pub(super) is_started: bool,
}

/// The directory of etcd's data.
pub(super) fn data(data_dir: &Path) -> PathBuf {
    data_dir.join("etcd").join("data")
}

fn file(data_dir: &Path) -> PathBuf {
    data_dir.join("etcd").join(FILE)
}

impl Settings {
    pub(super) fn exists(data_dir: &Path) -> bool {
        file(data_dir).exists()
    }

    pub(super) fn load(data_dir: &Path) -> anyhow::Result<Option<Settings>> {
        let path = file(data_dir);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let settings = serde_json::from_str(&text).ok().as_ref().and_then(Settings::of);
        settings.map(Some).with_context(|| format!("{} is damaged; restore it from a backup", path.display()))
    }

    /// Chooses a name and writes the settings of a new member.
    pub(super) fn create(
        data_dir: &Path,
        address: IpAddr,
        (client_port, peer_port): (u16, u16),
        seeds: Vec<String>,
    ) -> anyhow::Result<Settings> {
        if client_port == 0 || peer_port == 0 || client_port == peer_port {
            bail!(
                "--etcd-member-client-port and --etcd-member-peer-port: give two ports that other servers can reach"
            );
        }
        let mut random = [0; 4];
        getrandom::fill(&mut random).context("cannot read random numbers")?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = format!("{}-{:08x}", host.trim().replace(['=', ','], "-"), u32::from_be_bytes(random));
        let settings = Settings { name, address, client_port, peer_port, seeds, is_started: false };
        let data = data(data_dir);
        files::private_directory(&data).with_context(|| format!("cannot create {}", data.display()))?;
        settings.write(data_dir)?;
        Ok(settings)
    }

    /// Records that the member is in its cluster.
    pub(super) fn record_start(&self, data_dir: &Path) -> anyhow::Result<()> {
        if self.is_started {
            return Ok(());
        }
        Settings { is_started: true, ..self.clone() }.write(data_dir)
    }

    /// Fails if the data of a member that was in its cluster is gone: it would take part with a vote that it has given before.
    pub(super) fn check_data(&self, data_dir: &Path) -> anyhow::Result<()> {
        let data = data(data_dir);
        if self.is_started && !data.join("member").exists() {
            bail!(
                "the data of the etcd member {} is missing in {}; restore it, or remove the member on another server with \
                 `corten etcd-member remove {}` and join with an empty data directory",
                self.name,
                data.display(),
                self.name
            );
        }
        Ok(())
    }

    fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = file(data_dir);
        files::replace_private(&path, self.to_json().to_string())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "address": self.address.to_string(), "clientPort": self.client_port,
            "peerPort": self.peer_port, "seeds": self.seeds, "isStarted": self.is_started,
        })
    }

    fn of(value: &Value) -> Option<Settings> {
        let port = |name: &str| u16::try_from(value[name].as_u64()?).ok();
        let seeds = value["seeds"].as_array()?.iter().map(|url| url.as_str().map(str::to_owned));
        Some(Settings {
            name: value["name"].as_str()?.to_owned(),
            address: value["address"].as_str()?.parse().ok()?,
            client_port: port("clientPort")?,
            peer_port: port("peerPort")?,
            seeds: seeds.collect::<Option<_>>()?,
            is_started: value["isStarted"].as_bool()?,
        })
    }

    pub(super) fn peer_url(&self) -> String {
        self.url(self.address, self.peer_port)
    }

    /// The URL for other servers.
    pub(super) fn client_url(&self) -> String {
        self.url(self.address, self.client_port)
    }

    /// The URL for this server.
    pub(super) fn local_url(&self) -> String {
        self.url([127, 0, 0, 1].into(), self.client_port)
    }

    fn url(&self, address: IpAddr, port: u16) -> String {
        format!("https://{}", std::net::SocketAddr::new(address, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path();
        assert_eq!(Settings::load(data_dir).unwrap(), None);
        let seeds = vec!["https://192.0.2.1:2379".to_owned()];
        let made = Settings::create(data_dir, "2001:db8::1".parse().unwrap(), (2379, 2380), seeds).unwrap();
        assert_eq!(Settings::load(data_dir).unwrap().as_ref(), Some(&made));
        assert_eq!(made.peer_url(), "https://[2001:db8::1]:2380");
        assert_eq!(made.local_url(), "https://127.0.0.1:2379");
        made.check_data(data_dir).unwrap();
        made.record_start(data_dir).unwrap();
        let started = Settings::load(data_dir).unwrap().unwrap();
        assert_eq!(started, Settings { is_started: true, ..made });
        assert!(started.check_data(data_dir).unwrap_err().to_string().contains("is missing"));
        std::fs::create_dir(data(data_dir).join("member")).unwrap();
        started.check_data(data_dir).unwrap();
        std::fs::write(file(data_dir), "{}").unwrap();
        assert!(Settings::load(data_dir).unwrap_err().to_string().contains("damaged"));
        assert!(Settings::create(data_dir, [192, 0, 2, 1].into(), (2379, 2379), Vec::new()).is_err());
    }
}
