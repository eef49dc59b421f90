//! A containerd of the benchmark's own, with the image of its pods. It is killed when it is dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use corten_container::image::busybox_archive;
use serde_json::json;

use super::{IMAGE, SCRIPT};

/// Debian's directory of CNI plugins.
const PLUGINS: &str = "/usr/lib/cni";
const PAUSE: &str = "corten.local/pause:1";
/// The deadline for its start.
const LIMIT: Duration = Duration::from_secs(30);

pub(super) struct Containerd {
    process: Child,
    folder: PathBuf,
}

/// True if containerd and CNI plugins are installed.
pub(super) fn is_installed() -> bool {
    let runs = |program: &str| {
        let mut command = Command::new(program);
        let said = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        said.is_ok_and(|status| status.success())
    };
    runs("containerd") && runs("ctr") && Path::new(PLUGINS).join("ptp").exists()
}

/// True if a process is containerd itself, and not a shim.
pub(super) fn is_one(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "containerd")
}

impl Containerd {
    pub(super) fn start(folder: &Path) -> anyhow::Result<Containerd> {
        fs::create_dir_all(folder.join("cni")).context("cannot create a directory for containerd")?;
        fs::write(folder.join("config.toml"), configuration(folder))
            .context("cannot configure containerd")?;
        fs::write(folder.join("cni/10-bench.conflist"), network(folder))
            .context("cannot configure a network")?;
        let log = File::create(folder.join("log")).context("cannot create a log file for containerd")?;
        let process = Command::new("containerd")
            .arg("--config")
            .arg(folder.join("config.toml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start containerd")?;
        let containerd = Containerd { process, folder: folder.to_owned() };
        containerd.import("pause", &busybox_archive(&[PAUSE], &["sleep", "1000000"])?)?;
        containerd.import("bench", &busybox_archive(&[IMAGE], &["sh", "-c", SCRIPT])?)?;
        Ok(containerd)
    }

    pub(super) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// Succeeds as soon as containerd is ready.
    fn import(&self, name: &str, archive: &[u8]) -> anyhow::Result<()> {
        let file = self.folder.join(format!("{name}.tar"));
        fs::write(&file, archive).context("cannot write an archive")?;
        let started = Instant::now();
        loop {
            let mut ctr = Command::new("ctr");
            ctr.arg("--address").arg(self.socket()).args(["-n", "k8s.io", "images", "import"]).arg(&file);
            let imported = ctr.stdout(Stdio::null()).stderr(Stdio::null()).status();
            if imported.context("cannot run ctr")?.success() {
                return Ok(());
            }
            if started.elapsed() > LIMIT {
                bail!("containerd does not import images");
            }
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

fn configuration(folder: &Path) -> String {
    format!(
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
        folder.display()
    )
}

fn network(folder: &Path) -> String {
    let ranges = json!([[{"subnet": "10.251.0.0/22"}]]);
    let addresses = json!({"type": "host-local", "dataDir": folder.join("ipam"), "ranges": ranges});
    json!({"cniVersion": "0.4.0", "name": "bench", "plugins": [{"type": "ptp", "ipam": addresses}]})
        .to_string()
}
