//! A runtime in a temporary directory with a busybox image, and checks that nothing is left behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use corten_base::Clock;
use corten_container::image::busybox_archive;
use corten_container::native::network::LoopbackOnly;
use corten_container::native::{Native, Options, cgroup::Cgroups};
use corten_container::*;

/// Deadline of every wait; tests wait for events, not for this.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Node {
    pub(crate) runtime: Native,
    folder: tempfile::TempDir,
    parent: String,
}

impl Node {
    pub(crate) async fn new() -> Node {
        let folder = tempfile::tempdir().unwrap();
        let runtime = open(folder.path()).await;
        let archive = busybox_archive(&["busybox:latest"], &["sh"]).unwrap();
        runtime.store().import(archive.as_slice()).unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy().replace('.', "");
        Node { runtime, folder, parent: format!("/corten-test-{name}") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Opens the runtime again, as another process would.
    pub(crate) async fn reopen(&mut self) {
        self.runtime = open(self.folder.path()).await;
    }

    pub(crate) fn pod(&self, name: &str) -> PodSandboxConfig {
        let mut pod = PodSandboxConfig {
            metadata: PodSandboxMetadata { name: name.to_owned(), ..PodSandboxMetadata::default() },
            hostname: name.to_owned(),
            log_directory: self.folder.path().join("logs").join(name).to_string_lossy().into_owned(),
            ..PodSandboxConfig::default()
        };
        pod.linux.cgroup_parent = format!("{}/{name}", self.parent);
        pod.linux.security_context.namespace_options.pid = NamespaceMode::Container;
        pod
    }

    pub(crate) async fn run_pod(&self, name: &str) -> (String, PodSandboxConfig) {
        self.run_pod_with(name, "").await
    }

    pub(crate) async fn run_pod_with(&self, name: &str, handler: &str) -> (String, PodSandboxConfig) {
        let pod = self.pod(name);
        (self.runtime.run_pod_sandbox(&pod, handler).await.unwrap(), pod)
    }

    pub(crate) async fn start(
        &self,
        sandbox: &str,
        pod: &PodSandboxConfig,
        config: &ContainerConfig,
    ) -> String {
        let id = self.runtime.create_container(sandbox, config, pod).await.unwrap();
        self.runtime.start_container(&id).await.unwrap();
        id
    }

    /// Runs a script in a pod of its own; returns its exit code and its log's text.
    pub(crate) async fn run(
        &self,
        name: &str,
        script: &str,
        ask: impl FnOnce(&mut ContainerConfig),
    ) -> (i32, String) {
        let (sandbox, pod) = self.run_pod(name).await;
        let mut config = container(name, script);
        ask(&mut config);
        let id = self.start(&sandbox, &pod, &config).await;
        let status = self.ended(&id).await;
        self.runtime.remove_pod_sandbox(&sandbox).await.unwrap();
        (status.exit_code, text_of(&status.log_path))
    }

    pub(crate) async fn ended(&self, id: &str) -> ContainerStatus {
        let mut events = self.runtime.events();
        let wait = async {
            loop {
                let status = self.runtime.container_status(id).await.unwrap();
                if status.state == ContainerState::Exited {
                    return status;
                }
                events.recv().await.unwrap();
            }
        };
        tokio::time::timeout(DEADLINE, wait).await.expect("the container ends")
    }

    pub(crate) async fn exec(&self, id: &str, script: &str) -> ExecOutput {
        self.runtime.exec_sync(id, &words(&["sh", "-c", script]), DEADLINE).await.unwrap()
    }

    /// The processes of everything below the node's cgroup.
    pub(crate) fn processes(&self) -> Vec<i32> {
        Cgroups::detect().unwrap().processes(&self.parent)
    }

    /// Removes every pod and checks that nothing is left.
    pub(crate) async fn end(self) {
        for sandbox in self.runtime.list_pod_sandboxes(&PodSandboxFilter::default()).await.unwrap() {
            self.runtime.remove_pod_sandbox(&sandbox.id).await.unwrap();
        }
        assert_eq!(self.processes(), Vec::<i32>::new(), "processes are left");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let here = self.folder.path().to_string_lossy().into_owned();
        assert!(!mounts.contains(&here), "mounts are left:\n{mounts}");
        for folder in ["sandboxes", "containers", "pins"] {
            assert_eq!(
                fs::read_dir(self.folder.path().join(folder)).unwrap().count(),
                0,
                "{folder} are left"
            );
        }
        let cgroups = Cgroups::detect().unwrap();
        for pods in cgroups.folders(&self.parent) {
            for pod in fs::read_dir(&pods).into_iter().flatten().flatten().filter(|pod| pod.path().is_dir()) {
                let left = fs::read_dir(pod.path()).unwrap().flatten().find(|entry| entry.path().is_dir());
                assert!(left.is_none(), "a cgroup is left: {left:?}");
            }
        }
        cgroups.remove(&self.parent).unwrap();
    }
}

impl Drop for Node {
    /// A failed test leaves no process running either.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Cgroups::detect().and_then(|cgroups| cgroups.remove(&self.parent));
        }
    }
}

async fn open(data_dir: &Path) -> Native {
    let options = Options {
        data_dir: data_dir.to_owned(),
        network: Arc::new(LoopbackOnly),
        registries: Default::default(),
        clock: Clock::real(),
        seccomp_dir: data_dir.join("seccomp"),
        handlers: handlers(),
        image_limits: Default::default(),
    };
    Native::open(options).await.unwrap()
}

/// Debian's other runtimes: `runc`, which the tests need, and `crun` where it is installed. crun fails where cgroups of
/// both versions are in use.
pub(crate) fn handlers() -> BTreeMap<String, PathBuf> {
    let mut handlers = BTreeMap::from([("runc".to_owned(), PathBuf::from("/usr/sbin/runc"))]);
    let crun = PathBuf::from("/usr/bin/crun");
    let both = fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").unwrap_or_default();
    if crun.exists() && both.trim().is_empty() {
        handlers.insert("crun".to_owned(), crun);
    }
    handlers
}

pub(crate) fn container(name: &str, script: &str) -> ContainerConfig {
    let mut config = ContainerConfig {
        metadata: ContainerMetadata { name: name.to_owned(), attempt: 0 },
        image: ImageSpec::new("busybox"),
        command: words(&["sh", "-c", script]),
        log_path: format!("{name}/0.log"),
        ..ContainerConfig::default()
    };
    config.linux.security_context.namespace_options.pid = NamespaceMode::Container;
    config
}

/// Polls a condition until it holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The text of a container's log, without timestamps and tags.
pub(crate) fn text_of(log: &str) -> String {
    let log = fs::read_to_string(log).unwrap();
    let mut text = String::new();
    for line in log.lines() {
        let mut fields = line.splitn(4, ' ');
        let (tag, words) = (fields.nth(2).unwrap(), fields.next().unwrap());
        text += words;
        if tag == "F" {
            text.push('\n');
        }
    }
    text
}
