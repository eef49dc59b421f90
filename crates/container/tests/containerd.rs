//! The CRI client against Debian's containerd. Needs root.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use corten_container::native::cgroup::Cgroups;
    use corten_container::remote::Remote;
    use corten_container::*;
    use corten_testkit_containerd::Containerd;

    const DEADLINE: Duration = Duration::from_secs(60);

    /// The parent cgroup of a test's pods; removed at the end of the test.
    struct ParentCgroup(String);

    impl Drop for ParentCgroup {
        fn drop(&mut self) {
            // Where both versions are mounted, runc creates cgroups in both.
            for cgroups in [Cgroups::detect().unwrap(), Cgroups::V2("/sys/fs/cgroup/unified".into())] {
                let _ = cgroups.remove(&self.0);
            }
        }
    }

    fn pod(folder: &Path, cgroup: &ParentCgroup) -> PodSandboxConfig {
        let metadata = PodSandboxMetadata {
            name: "web".to_owned(),
            uid: "u-1".to_owned(),
            namespace: "default".to_owned(),
            attempt: 1,
        };
        let labels: Map = [("app".to_owned(), "web".to_owned())].into();
        let log_directory = folder.join("logs").to_string_lossy().into_owned();
        let mut pod = PodSandboxConfig { metadata, log_directory, labels, ..PodSandboxConfig::default() };
        pod.linux.cgroup_parent = cgroup.0.clone();
        // Without the CNI plugins: this is about the CRI.
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
        tokio::time::timeout(DEADLINE, wait).await.expect("the container ends")
    }

    #[tokio::test]
    async fn containerd_runs_a_pod() {
        // Declared first, so that it is removed after containerd has been killed.
        let cgroup = ParentCgroup(format!("/corten-test-containerd-{}", std::process::id()));
        let containerd = Containerd::start();
        let remote = Remote::new(&containerd.endpoint());
        assert_eq!(remote.version().await.unwrap().runtime_name, "containerd");
        let status = Runtime::status(&remote).await.unwrap();
        assert!(status.condition(RuntimeStatus::RUNTIME_READY).unwrap().status);

        let image = ImageSpec::new("docker.io/library/busybox:latest");
        let found = remote.image_status(&image).await.unwrap().unwrap();
        assert!(found.repo_tags.contains(&image.image) && found.size > 0, "{found:?}");
        assert!(remote.image_status(&ImageSpec::new("docker.io/library/none:1")).await.unwrap().is_none());
        assert_eq!(remote.list_images(None).await.unwrap().len(), 2, "busybox and the pause image");

        let pod = pod(containerd.directory(), &cgroup);
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
        let output = remote.exec_sync(&id, &command, DEADLINE).await.unwrap();
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
    async fn a_missing_socket_is_reported() {
        let error = Remote::new("/nowhere/at/all.sock").version().await.unwrap_err();
        assert!(
            matches!(&error, Error::Unavailable(text) if text.contains("/nowhere/at/all.sock")),
            "{error}"
        );
    }
}
