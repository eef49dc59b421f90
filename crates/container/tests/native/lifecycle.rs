//! Containers start, exit, are recovered, and leave nothing behind.

use std::fs;
use std::time::Duration;

use corten_container::native::cgroup::Cgroups;
use corten_container::*;

use crate::support::*;

#[tokio::test]
async fn a_container_runs_and_its_exit_is_recorded() {
    let node = Node::new().await;
    let mut events = node.runtime.events();
    let (sandbox, pod) = node.run_pod("web").await;
    let config = container("main", "echo out; echo err >&2; printf part; exit 3");
    let id = node.start(&sandbox, &pod, &config).await;
    let status = node.ended(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (3, "Error"));
    assert!(status.started_at.unwrap() <= status.finished_at.unwrap());

    let log = fs::read_to_string(&status.log_path).unwrap();
    assert!(status.log_path.ends_with("logs/web/main/0.log"), "{}", status.log_path);
    let mut lines: Vec<&str> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["stderr F err", "stdout F out", "stdout P part"]);
    let time: jiff::Timestamp = log.split_once(' ').unwrap().0.parse().unwrap();
    assert!(time >= status.started_at.unwrap() - Duration::from_secs(1));

    let mut kinds = Vec::new();
    while let Ok(event) = events.try_recv() {
        if event.container_id == id {
            kinds.push(event.kind);
        }
    }
    use ContainerEventKind::{Created, Started, Stopped};
    assert_eq!(kinds, [Created, Started, Stopped]);
    node.end().await;
}

#[tokio::test]
async fn pods_survive_a_restart_of_the_runtime() {
    let mut node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let stays = node.start(&sandbox, &pod, &container("stays", "while true; do sleep 1; done")).await;
    let goes = node.start(&sandbox, &pod, &container("goes", "cat /gate; exit 7")).await;
    node.ended(&goes).await;
    let before = node.processes();

    node.reopen().await;
    assert_eq!(node.processes(), before, "nothing was restarted");
    let status = node.runtime.pod_sandbox_status(&sandbox).await.unwrap();
    assert_eq!(status.state, PodSandboxState::Ready);
    assert_eq!(node.runtime.container_status(&goes).await.unwrap().exit_code, 7);
    let running = node.runtime.container_status(&stays).await.unwrap();
    assert_eq!(running.state, ContainerState::Running);
    assert_eq!(node.exec(&stays, "echo still here").await.stdout, b"still here\n");
    node.runtime.stop_container(&stays, Duration::ZERO).await.unwrap();
    assert_eq!(node.runtime.container_status(&stays).await.unwrap().exit_code, 137);
    node.end().await;
}

#[tokio::test]
async fn a_pod_dies_with_its_supervisor() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let id = node.start(&sandbox, &pod, &container("main", "sleep 1000")).await;
    let supervisor = node.processes()[0];
    let rss = fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap();
    let rss = rss.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().to_owned();
    let kilobytes: u64 = rss.trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes <= 1536, "a supervisor takes {rss}");

    let pid = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let status = node.ended(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (255, "Unknown"));
    let status = node.runtime.pod_sandbox_status(&sandbox).await.unwrap();
    assert_eq!(status.state, PodSandboxState::NotReady);
    node.end().await;
}

#[tokio::test]
async fn start_failures_are_reported() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let mut config = container("main", "");
    config.command = words(&["no-such-program"]);
    let id = node.runtime.create_container(&sandbox, &config, &pod).await.unwrap();
    let error = node.runtime.start_container(&id).await.unwrap_err();
    assert_eq!(error.to_string(), "exec: \"no-such-program\": executable file not found in $PATH");
    let status = node.runtime.container_status(&id).await.unwrap();
    assert_eq!((status.exit_code, status.reason.as_str()), (128, "StartError"));

    config.metadata.attempt = 1;
    config.image = ImageSpec::new("nothing:here");
    let error = node.runtime.create_container(&sandbox, &config, &pod).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let twice = node.runtime.run_pod_sandbox(&pod, "").await.unwrap_err();
    assert!(matches!(twice, Error::AlreadyExists(_)), "{twice}");
    node.end().await;
}

#[tokio::test]
async fn stopping_sends_the_signal_and_then_kills() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let polite = container("polite", "trap 'exit 5' TERM; echo ready; while true; do sleep 0.1; done");
    let polite = node.start(&sandbox, &pod, &polite).await;
    let deaf = node
        .start(&sandbox, &pod, &container("deaf", "trap '' TERM; echo ready; while true; do sleep 0.1; done"))
        .await;
    for id in [&polite, &deaf] {
        let log = node.runtime.container_status(id).await.unwrap().log_path;
        eventually("the container writes to its log", async || !text_of(&log).is_empty()).await;
    }
    node.runtime.stop_container(&polite, DEADLINE).await.unwrap();
    node.runtime.stop_container(&deaf, Duration::from_millis(200)).await.unwrap();
    assert_eq!(node.runtime.container_status(&polite).await.unwrap().exit_code, 5);
    assert_eq!(node.runtime.container_status(&deaf).await.unwrap().exit_code, 137);
    node.end().await;
}

#[tokio::test]
async fn memory_is_limited() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let mut config = container("main", "x=0123456789abcdef; while true; do x=$x$x; done");
    config.linux.resources.memory_limit_in_bytes = 16 << 20;
    let id = node.start(&sandbox, &pod, &config).await;
    let status = node.ended(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
    node.end().await;
}

#[tokio::test]
async fn resources_can_change_and_are_counted() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let id = node.start(&sandbox, &pod, &container("main", "echo x > /file; sleep 1000")).await;
    let update =
        LinuxContainerResources { memory_limit_in_bytes: 64 << 20, cpu_shares: 512, ..Default::default() };
    node.runtime.update_container_resources(&id, &update).await.unwrap();
    let status = node.runtime.container_status(&id).await.unwrap();
    assert_eq!(status.resources.unwrap().cpu_shares, 512);

    let stats = node.runtime.container_stats(&id).await.unwrap();
    let memory = stats.memory.unwrap();
    assert!(memory.working_set_bytes.unwrap() > 0);
    assert!(memory.available_bytes.unwrap() < 64 << 20);
    assert!(stats.cpu.unwrap().usage_core_nano_seconds.unwrap() > 0);
    assert!(stats.process_count.unwrap() >= 1);
    let pod_stats = node.runtime.pod_sandbox_stats(&sandbox).await.unwrap();
    assert_eq!(pod_stats.containers.len(), 1);
    node.end().await;
}

#[tokio::test]
async fn resources_reach_the_kernel() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let mut config = container("main", "sleep 1000");
    config.linux.resources = LinuxContainerResources {
        memory_limit_in_bytes: 32 << 20,
        cpu_shares: 2048,
        cpu_quota: 50_000,
        cpu_period: 100_000,
        ..Default::default()
    };
    let id = node.start(&sandbox, &pod, &config).await;
    let cgroups = Cgroups::detect().unwrap();
    let path = format!("{}/{id}", pod.linux.cgroup_parent);
    let read = |controller: &str, file: &str| {
        let file = cgroups.folder(controller, &path).unwrap().join(file);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.trim().to_owned()
    };
    let limits = || match &cgroups {
        Cgroups::V1(_) => {
            let quota = format!("{} {}", read("cpu", "cpu.cfs_quota_us"), read("cpu", "cpu.cfs_period_us"));
            (read("memory", "memory.limit_in_bytes"), read("cpu", "cpu.shares"), quota)
        }
        Cgroups::V2(_) => (read("", "memory.max"), read("", "cpu.weight"), read("", "cpu.max")),
    };
    let weight = |v1: &str, v2: &str| if matches!(cgroups, Cgroups::V1(_)) { v1 } else { v2 }.to_owned();
    assert_eq!(limits(), ("33554432".to_owned(), weight("2048", "174"), "50000 100000".to_owned()));
    let update = LinuxContainerResources {
        memory_limit_in_bytes: 64 << 20,
        cpu_shares: 1024,
        cpu_quota: 200_000,
        cpu_period: 100_000,
        ..Default::default()
    };
    node.runtime.update_container_resources(&id, &update).await.unwrap();
    assert_eq!(limits(), ("67108864".to_owned(), weight("1024", "100"), "200000 100000".to_owned()));
    node.end().await;
}

#[tokio::test]
async fn logs_continue_in_a_new_file() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("web").await;
    let mut config = container("main", "echo one; cat; echo two");
    config.stdin = true;
    config.stdin_once = true;
    let id = node.start(&sandbox, &pod, &config).await;
    let log = node.runtime.container_status(&id).await.unwrap().log_path;
    eventually("the container writes to its log", async || !text_of(&log).is_empty()).await;
    let moved = format!("{log}.1");
    fs::rename(&log, &moved).unwrap();
    node.runtime.reopen_container_log(&id).await.unwrap();
    let attach = AttachRequest { container_id: id.clone(), stdin: true, ..AttachRequest::default() };
    let Streaming::Direct(session) = node.runtime.attach(&attach).await.unwrap() else { panic!() };
    drop(session);
    node.ended(&id).await;
    assert_eq!((text_of(&moved), text_of(&log)), ("one\n".to_owned(), "two\n".to_owned()));
    node.end().await;
}
