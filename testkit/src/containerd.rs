//! Debian's containerd, of a test's own: another runtime for the same pods. Needs root and a network plugin.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use crate::http::DEADLINE;
use crate::image::{busybox_archive, image_archive};

/// Where Debian has network plugins.
const PLUGINS: &str = "/usr/lib/cni";
const PAUSE: &str = "docker.io/local/pause:1";

/// A containerd in a folder of its own, with the image of the tests.
pub struct Containerd {
    process: Child,
    folder: TempDir,
}

impl Containerd {
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
        containerd.import("pause", &image_archive(PAUSE, &["sleep", "1000000"]));
        containerd.import("busybox", &busybox_archive());
        containerd
    }

    /// Where it is reached.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The containers that are left.
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

    /// Waits for it, too: the import succeeds when containerd is ready.
    #[track_caller]
    fn import(&self, name: &str, archive: &[u8]) {
        let file = self.folder.path().join(format!("{name}.tar"));
        std::fs::write(&file, archive).expect("an archive is written");
        let started = Instant::now();
        loop {
            let mut ctr = self.ctr(&["images", "import"]);
            ctr.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
            if ctr.status().is_ok_and(|status| status.success()) {
                return;
            }
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(started.elapsed() < DEADLINE, "containerd takes no image:\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        // It is gone either way.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A network of pods that nobody else on this machine has, most likely.
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
