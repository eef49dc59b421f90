//! A containerd for one test, in a temporary directory: another runtime for the same pods.
//!
//! Needs root, Debian's `containerd`, `runc`, `containernetworking-plugins` and `busybox-static`. It is a crate of its own
//! so that the tests of `corten-container` use it without building a server. The process is killed when the handle is
//! dropped; containers that a test leaves running are the test's to remove.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use corten_container::image::busybox_archive;
use serde_json::json;
use tempfile::TempDir;

/// The directory of Debian's CNI plugins.
const PLUGINS: &str = "/usr/lib/cni";
const PAUSE: &str = "docker.io/local/pause:1";
const BUSYBOX: &str = "docker.io/library/busybox:latest";
/// The time within which containerd must accept an image.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running containerd with two images: `docker.io/library/busybox:latest`, and the pause image of its sandboxes.
pub struct Containerd {
    process: Child,
    folder: TempDir,
}

impl Containerd {
    /// Starts containerd and imports the images.
    #[track_caller]
    pub fn start() -> Containerd {
        let folder = TempDir::with_prefix("corten-containerd-").expect("a temporary directory");
        let path = folder.path();
        let config = format!(
            r#"version = 2
root = "{0}/root"
state = "{0}/state"
[grpc]
address = "{0}/socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{PLUGINS}"
conf_dir = "{0}/cni"
"#,
            path.display()
        );
        std::fs::write(path.join("config.toml"), config).expect("a configuration is written");
        std::fs::create_dir(path.join("cni")).expect("a folder is made");
        std::fs::write(path.join("cni/10-test.conflist"), network(path)).expect("a network is written");
        let log = std::fs::File::create(path.join("log")).expect("a log is made");
        let process = Command::new("containerd")
            .arg("--config")
            .arg(path.join("config.toml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("containerd is installed");
        let containerd = Containerd { process, folder };
        containerd.import(PAUSE, &["sleep", "1000000"]);
        containerd.import(BUSYBOX, &["sh"]);
        containerd
    }

    /// The directory of its configuration, log and data.
    pub fn directory(&self) -> &Path {
        self.folder.path()
    }

    /// The URL of its CRI socket.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The ids of its containers, one a line.
    #[track_caller]
    pub fn containers(&self) -> String {
        let listed = self.ctr(&["containers", "ls", "-q"]).output().expect("ctr is installed");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8_lossy(&listed.stdout).into_owned()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn ctr(&self, arguments: &[&str]) -> Command {
        let mut ctr = Command::new("ctr");
        ctr.arg("--address").arg(self.socket()).args(["-n", "k8s.io"]).args(arguments);
        ctr
    }

    /// Imports a busybox image; the first import succeeds once containerd is ready.
    #[track_caller]
    fn import(&self, name: &str, command: &[&str]) {
        let archive = busybox_archive(&[name], command).expect("a static busybox is installed");
        let file = self.folder.path().join("image.tar");
        std::fs::write(&file, archive).expect("an archive is written");
        let started = Instant::now();
        loop {
            let mut ctr = self.ctr(&["images", "import"]);
            ctr.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
            if ctr.status().is_ok_and(|status| status.success()) {
                return;
            }
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(started.elapsed() < DEADLINE, "containerd does not import {name}:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // Both fail only if it has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A CNI configuration whose subnet depends on the process and the call, so that parallel tests rarely share one.
fn network(folder: &Path) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let subnet = format!("10.{}.{}.0/24", 192 + number / 256 % 32, number % 256);
    let ranges = json!([[{"subnet": subnet}]]);
    let addresses = json!({"type": "host-local", "dataDir": folder.join("ipam"), "ranges": ranges});
    json!({
        "cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "ptp", "ipam": addresses}],
    })
    .to_string()
}
