//! Upstream's API server and its etcd, as child processes with the certificates of the benchmark.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use corten_pki::{KubeconfigNames, Sans, ServerPki, write_kubeconfig};
use tokio::process::{Child, Command};

use super::Server;
use crate::http::Target;
use crate::process::ServerProcess;

/// The binaries of upstream.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub kube_apiserver: PathBuf,
    pub etcd: PathBuf,
}

/// The member of etcd that upstream's server writes to. It is killed when it is dropped: its data are deleted.
pub(crate) struct Etcd {
    _child: Child,
    pub(super) pid: u32,
}

impl Upstream {
    /// Starts both with an empty data directory, without any other component.
    pub(crate) async fn start(&self, dir: &Path) -> anyhow::Result<Server> {
        let [port] = free_ports()?;
        let (etcd, url) = Etcd::start(&self.etcd, dir)?;
        let pki_dir = dir.join("pki");
        let sans = Sans::apiserver(Ipv4Addr::LOCALHOST.into());
        let pki = ServerPki::load_or_create(&pki_dir, &sans, SystemTime::now())?;
        let credentials = pki.admin_credentials(&format!("https://127.0.0.1:{port}"));
        let kubeconfig = dir.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &credentials, KubeconfigNames::default())?;
        let target = Arc::new(Target::new(&credentials).await?);
        let file = |name: &str| pki_dir.join(name).into_os_string();
        let mut arguments: Vec<OsString> = Vec::new();
        let flags: [(&str, OsString); 13] = [
            ("--etcd-servers", url.into()),
            ("--secure-port", port.to_string().into()),
            ("--bind-address", "127.0.0.1".into()),
            ("--advertise-address", "127.0.0.1".into()),
            ("--tls-cert-file", file("apiserver.crt")),
            ("--tls-private-key-file", file("apiserver.key")),
            ("--client-ca-file", file("ca.crt")),
            ("--service-account-key-file", file("sa.pub")),
            ("--service-account-signing-key-file", file("sa.key")),
            ("--service-account-issuer", "https://kubernetes.default.svc.cluster.local".into()),
            ("--service-cluster-ip-range", "10.96.0.0/16".into()),
            ("--authorization-mode", "Node,RBAC".into()),
            // It refuses loopback addresses otherwise.
            ("--endpoint-reconciler-type", "none".into()),
        ];
        for (flag, value) in flags {
            arguments.extend([flag.into(), value]);
        }
        let log = dir.join("server.log");
        let process =
            ServerProcess::start_at(&target, &self.kube_apiserver, &arguments, "/readyz", &log).await?;
        Ok(Server { process, etcd: Some(etcd), kubeconfig })
    }
}

impl Etcd {
    /// Starts a member with an empty data directory; returns it and its URL.
    pub(crate) fn start(binary: &Path, dir: &Path) -> anyhow::Result<(Etcd, String)> {
        let [client, peer] = free_ports()?;
        let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let log = fs::File::create(dir.join("etcd.log"))?;
        let child = Command::new(binary)
            .arg("--data-dir")
            .arg(dir.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let pid = child.id().context("etcd exited at once")?;
        Ok((Etcd { _child: child, pid }, client))
    }
}

/// Ports that no process listens on.
fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut open = Vec::with_capacity(N);
    for _ in 0..N {
        open.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&open) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}
