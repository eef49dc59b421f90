//! The CRI over a socket, with Debian's containerd on the other side. Needs root.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use corten_container::image::busybox_archive;
    use corten_container::native::cgroup::Cgroups;
    use corten_container::remote::Remote;
    use corten_container::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A containerd of our own, in a folder of its own.
    struct Containerd {
        process: Child,
        folder: tempfile::TempDir,
    }

    impl Containerd {
        fn start() -> Containerd {
            let folder = tempfile::tempdir().unwrap();
            let config = format!(
                r#"version = 2
root = "{0}/root"
state = "{0}/state"
[grpc]
address = "{0}/socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/local/pause:1"
restrict_oom_score_adj = true
"#,
                folder.path().display()
            );
            fs::write(folder.path().join("config.toml"), config).unwrap();
            let log = fs::File::create(folder.path().join("log")).unwrap();
            let process = Command::new("containerd")
                .arg("--config")
                .arg(folder.path().join("config.toml"))
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .expect("containerd is installed");
            let containerd = Containerd { process, folder };
            containerd.import();
            containerd
        }

        fn socket(&self) -> PathBuf {
            self.folder.path().join("socket")
        }

        /// Waits for it, too: the import succeeds when containerd is ready.
        fn import(&self) {
            let file = self.folder.path().join("image.tar");
            let names = ["local/pause:1", "busybox:latest"];
            fs::write(&file, busybox_archive(&names, &["sleep", "1000000"]).unwrap()).unwrap();
            let deadline = std::time::Instant::now() + PATIENCE;
            while !self.try_import(&file) {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
                assert!(std::time::Instant::now() < deadline, "containerd takes no image:\n{log}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }

        fn try_import(&self, file: &Path) -> bool {
            let mut ctr = Command::new("ctr");
            ctr.arg("--address").arg(self.socket()).args(["-n", "k8s.io", "images", "import"]).arg(file);
            ctr.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        }
    }

    impl Drop for Containerd {
        fn drop(&mut self) {
            let _ = self.process.kill();
            let _ = self.process.wait();
            // Where both versions are mounted, runc makes cgroups in both.
            for cgroups in [Cgroups::detect().unwrap(), Cgroups::V2("/sys/fs/cgroup/unified".into())] {
                let _ = cgroups.remove(&parent(self.folder.path()));
            }
        }
    }

    /// The cgroup of everything in a test.
    fn parent(folder: &Path) -> String {
        let name = folder.file_name().unwrap().to_string_lossy().replace('.', "");
        format!("/corten-test-{name}")
    }

    fn pod(folder: &Path) -> PodSandboxConfig {
        let metadata = PodSandboxMetadata {
            name: "web".to_owned(),
            uid: "u-1".to_owned(),
            namespace: "default".to_owned(),
            attempt: 1,
        };
        let labels: Map = [("app".to_owned(), "web".to_owned())].into();
        let log_directory = folder.join("logs").to_string_lossy().into_owned();
        let mut pod = PodSandboxConfig { metadata, log_directory, labels, ..PodSandboxConfig::default() };
        pod.linux.cgroup_parent = parent(folder);
        // There is no network plugin here.
        pod.linux.security_context.namespace_options = NamespaceOptions {
            network: NamespaceMode::Node,
            pid: NamespaceMode::Container,
            ..Default::default()
        };
        pod
    }

    fn container(pod: &PodSandboxConfig, script: &str) -> ContainerConfig {
        let mut config = ContainerConfig {
            metadata: ContainerMetadata { name: "main".to_owned(), attempt: 2 },
            image: ImageSpec::new("docker.io/library/busybox:latest"),
            command: ["sh", "-c", script].map(str::to_owned).into(),
            envs: vec![("WORD".to_owned(), "hello".to_owned())],
            log_path: "main.log".to_owned(),
            ..ContainerConfig::default()
        };
        let security = &mut config.linux.security_context;
        security.namespace_options = pod.linux.security_context.namespace_options.clone();
        security.run_as_user = Some(7);
        config
    }

    async fn ended(remote: &Remote, id: &str) -> ContainerStatus {
        let wait = async {
            loop {
                let status = remote.container_status(id).await.unwrap();
                if status.state == ContainerState::Exited {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the container ends")
    }

    #[tokio::test]
    async fn containerd_does_what_it_is_asked() {
        let containerd = Containerd::start();
        let remote = Remote::new(&format!("unix://{}", containerd.socket().display()));
        assert_eq!(remote.version().await.unwrap().runtime_name, "containerd");
        let status = Runtime::status(&remote).await.unwrap();
        assert!(status.condition(RuntimeStatus::RUNTIME_READY).unwrap().status);

        let image = ImageSpec::new("docker.io/library/busybox:latest");
        let found = remote.image_status(&image).await.unwrap().unwrap();
        assert!(found.repo_tags.contains(&image.image) && found.size > 0, "{found:?}");
        assert!(remote.image_status(&ImageSpec::new("docker.io/library/none:1")).await.unwrap().is_none());
        assert_eq!(remote.list_images(None).await.unwrap().len(), 1);

        let pod = pod(containerd.folder.path());
        let sandbox = remote.run_pod_sandbox(&pod, "").await.unwrap();
        let filter = PodSandboxFilter { labels: pod.labels.clone(), ..PodSandboxFilter::default() };
        let listed = remote.list_pod_sandboxes(&filter).await.unwrap();
        assert_eq!(
            (listed.len(), &listed[0].metadata, listed[0].state),
            (1, &pod.metadata, PodSandboxState::Ready)
        );

        let config = container(&pod, "echo $WORD $(id -u); sleep 1000");
        let id = remote.create_container(&sandbox, &config, &pod).await.unwrap();
        remote.start_container(&id).await.unwrap();
        let command = ["sh", "-c", "echo out; echo err >&2; exit 3"].map(str::to_owned);
        let output = remote.exec_sync(&id, &command, PATIENCE).await.unwrap();
        let expected = ExecOutput { stdout: b"out\n".to_vec(), stderr: b"err\n".to_vec(), exit_code: 3 };
        assert_eq!(output, expected);
        let exec = ExecRequest {
            container_id: id.clone(),
            command: command.into(),
            stdout: true,
            ..Default::default()
        };
        let Streaming::Redirect(url) = remote.exec(&exec).await.unwrap() else {
            panic!("streams come by URL")
        };
        assert!(url.starts_with("http://"), "{url}");
        let running = remote.container_status(&id).await.unwrap();
        assert_eq!(
            (running.state, running.metadata.clone()),
            (ContainerState::Running, config.metadata.clone())
        );
        assert!(running.started_at.is_some() && running.finished_at.is_none());
        remote.stop_container(&id, Duration::ZERO).await.unwrap();
        assert_eq!(ended(&remote, &id).await.exit_code, 137);
        let log = fs::read_to_string(&running.log_path).unwrap();
        assert!(log.contains(" stdout F hello 7"), "{log}");

        remote.remove_pod_sandbox(&sandbox).await.unwrap();
        let gone = remote.container_status(&id).await.unwrap_err();
        assert!(gone.is_not_found(), "{gone}");
        remote.remove_pod_sandbox(&sandbox).await.unwrap();
    }

    #[tokio::test]
    async fn nobody_there_is_said() {
        let error = Remote::new("/nowhere/at/all.sock").version().await.unwrap_err();
        assert!(
            matches!(&error, Error::Unavailable(text) if text.contains("/nowhere/at/all.sock")),
            "{error}"
        );
    }
}
