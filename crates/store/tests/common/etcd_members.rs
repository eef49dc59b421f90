//! Clusters of three etcd members for tests, whose clients need certificates.

use std::{
    fs,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use corten_grpc::{Endpoint, KeepAlive};
use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use corten_store::EtcdOptions;
use rustls::{ClientConfig, RootCertStore};
use tempfile::{TempDir, tempdir};

use super::etcd_process::binary;

const START: Duration = Duration::from_secs(60);
const MEMBERS: usize = 3;

/// A running cluster, which ends with this.
pub(crate) struct EtcdMembers {
    members: Vec<Child>,
    dir: TempDir,
    /// The ports for clients and for other members.
    ports: Vec<(u16, u16)>,
    client: Arc<ClientConfig>,
}

impl EtcdMembers {
    pub(crate) fn start() -> EtcdMembers {
        let deadline = Instant::now() + START;
        loop {
            let dir = tempdir().expect("a directory");
            let client = certificates(&dir);
            let ports: Vec<(u16, u16)> = (0..MEMBERS).map(|_| (free_port(), free_port())).collect();
            let mut cluster = EtcdMembers { members: Vec::new(), dir, ports, client };
            cluster.members = (0..MEMBERS).map(|member| cluster.run(member)).collect();
            if (0..MEMBERS).all(|member| cluster.is_listening(member, deadline)) {
                return cluster;
            }
            // Another process took a port.
            assert!(Instant::now() < deadline, "etcd does not start");
        }
    }

    fn run(&self, member: usize) -> Child {
        let url = |scheme: &str, port: u16| format!("{scheme}://127.0.0.1:{port}");
        let (client, peer) = self.ports[member];
        let (client, peer) = (url("https", client), url("http", peer));
        let all = self.ports.iter().enumerate();
        let all: Vec<String> =
            all.map(|(number, (_, port))| format!("m{number}={}", url("http", *port))).collect();
        let file = |name: &str| self.dir.path().join(name);
        Command::new(binary())
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(file(&format!("data{member}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all.join(","), "--client-cert-auth", "--log-level", "error"])
            .args(["--enable-grpc-gateway=false", "--cert-file"])
            .arg(file("server.crt"))
            .arg("--key-file")
            .arg(file("server.key"))
            .arg("--trusted-ca-file")
            .arg(file("ca.crt"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd, which `cargo xtask prepare` installs")
    }

    fn is_listening(&mut self, member: usize, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if self.members[member].try_wait().expect("a child").is_some() {
                return false;
            }
            if std::net::TcpStream::connect(("127.0.0.1", self.ports[member].0)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// The options of a store that begins with one member.
    pub(crate) fn options(&self, first: usize) -> EtcdOptions {
        let urls = (0..MEMBERS).map(|number| self.ports[(first + number) % MEMBERS].0);
        let endpoints = urls.map(|port| {
            Endpoint::parse(&format!("https://127.0.0.1:{port}"), Some(&self.client)).expect("an endpoint")
        });
        EtcdOptions {
            prefix: "/test/".into(),
            root: String::new(),
            timeout: Duration::from_secs(30),
            compaction: None,
            keep_alive: KeepAlive { interval: Duration::from_secs(1), timeout: Duration::from_secs(1) },
            ..EtcdOptions::new(endpoints.collect())
        }
    }

    /// Ends a member as a power failure does.
    pub(crate) fn kill_9(&mut self, member: usize) {
        self.members[member].kill().expect("a child to kill");
        self.members[member].wait().expect("a dead child");
    }

    /// Starts a member again with the same data and ports.
    pub(crate) fn restart(&mut self, member: usize) {
        self.members[member] = self.run(member);
        assert!(self.is_listening(member, Instant::now() + START), "etcd does not start again");
    }

    /// Stops a member without closing its connections (`STOP`), or lets it continue (`CONT`).
    pub(crate) fn signal(&self, member: usize, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.members[member].id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send {name}");
    }
}

impl Drop for EtcdMembers {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

/// Writes the files of the members; returns the configuration of clients.
fn certificates(dir: &TempDir) -> Arc<ClientConfig> {
    let now = SystemTime::now();
    let authority = Authority::load_or_create(dir.path(), "ca", "etcd-ca", now).expect("an authority");
    fs::write(dir.path().join("ca.crt"), authority.pem()).expect("a file");
    let leaf = |usage, sans| {
        let request = LeafRequest { common_name: "etcd".to_owned(), organization: None, sans, usage };
        authority.issue(&request, now).expect("a certificate")
    };
    let server = leaf(LeafUsage::Server, Sans::default().with_address([127, 0, 0, 1].into()));
    let (certificate, key) = (dir.path().join("server.crt"), dir.path().join("server.key"));
    server.write(&certificate, &key).expect("files");
    let client = leaf(LeafUsage::Client, Sans::default());
    let mut roots = RootCertStore::empty();
    for root in corten_pki::pem_certificates(authority.pem()).expect("certificates") {
        roots.add(root).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(client.chain().expect("a chain"), client.key().expect("a key"));
    Arc::new(config.expect("a configuration"))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}
