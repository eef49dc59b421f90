//! etcd processes for tests: the `etcd` of the PATH, or the one that `ETCD` names, on a free port, with its data in a
//! temporary directory.

use std::{
    ffi::OsString,
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::{TempDir, tempdir};

const START: Duration = Duration::from_secs(60);

/// A running etcd, which ends with this.
pub(crate) struct EtcdServer {
    process: Child,
    dir: TempDir,
    pub(crate) port: u16,
    arguments: Vec<String>,
}

impl EtcdServer {
    /// Starts etcd with further arguments.
    pub(crate) fn start(arguments: &[&str]) -> EtcdServer {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let deadline = Instant::now() + START;
        loop {
            let (dir, port) = (tempdir().expect("a directory"), free_port());
            let process = run(&dir, port, &arguments);
            let mut server = EtcdServer { process, dir, port, arguments: arguments.clone() };
            if server.is_listening(deadline) {
                return server;
            }
            // Another process took the port.
            assert!(Instant::now() < deadline, "etcd does not start");
        }
    }

    /// Waits until the port accepts connections; false if the process ends.
    fn is_listening(&mut self, deadline: Instant) -> bool {
        while Instant::now() < deadline {
            if self.process.try_wait().expect("a child").is_some() {
                return false;
            }
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// The directory of its data.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends etcd as a power failure does.
    pub(crate) fn kill_9(&mut self) {
        self.process.kill().expect("a child to kill");
        self.process.wait().expect("a dead child");
    }

    /// Starts etcd again with the same data and port.
    pub(crate) fn restart(&mut self) {
        self.process = run(&self.dir, self.port, &self.arguments);
        assert!(self.is_listening(Instant::now() + START), "etcd does not start again");
    }

    /// Stops etcd without closing its connections (`STOP`), or lets it continue (`CONT`).
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot send {name}");
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The etcd to run: the one that `ETCD` names, or that of the PATH.
pub(crate) fn binary() -> OsString {
    std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

fn run(dir: &TempDir, port: u16, arguments: &[String]) -> Child {
    let url = format!("http://127.0.0.1:{port}");
    let data: PathBuf = dir.path().join("data");
    Command::new(binary())
        .arg("--data-dir")
        .arg(data)
        .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
        .args(["--listen-peer-urls", "http://127.0.0.1:0", "--log-level", "error"])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd, which `cargo xtask prepare` installs")
}
