//! Containers of other OCI runtimes: Debian's `runc`, and `crun` where it is installed. They behave like all others.

use std::time::Duration;

use corten_container::*;

use crate::support::*;

#[tokio::test]
async fn another_runtime_starts_containers() {
    for handler in handlers().keys() {
        starts_containers(handler).await;
    }
}

#[tokio::test]
async fn start_failures_of_other_runtimes_are_reported() {
    for handler in handlers().keys() {
        tells_what_it_cannot_start(handler).await;
    }
}

#[tokio::test]
async fn containers_of_other_runtimes_are_killed_like_all_others() {
    for handler in handlers().keys() {
        is_killed_like_the_native_runtime(handler).await;
    }
}

#[tokio::test]
async fn containers_of_another_runtime_share_their_pod() {
    for handler in handlers().keys() {
        shares_a_pod(handler).await;
    }
}

async fn starts_containers(handler: &str) {
    let mut node = Node::new().await;
    let (sandbox, pod) = node.run_pod_with("web", handler).await;
    let mut config = container(
        "main",
        "echo out; echo err >&2; hostname; trap 'exit 5' TERM; while true; do sleep 1; done",
    );
    config.linux.security_context.seccomp = Some(SecurityProfile::RuntimeDefault);
    let id = node.start(&sandbox, &pod, &config).await;
    let short = node.start(&sandbox, &pod, &container("short", "exit 3")).await;
    assert_eq!(node.ended(&short).await.exit_code, 3);
    let seen = node.exec(&id, "cat /proc/1/status | grep Seccomp:; mount | grep -c ' / type overlay'").await;
    assert_eq!(String::from_utf8_lossy(&seen.stdout), "Seccomp:\t2\n1\n");

    node.reopen().await;
    let status = node.runtime.container_status(&id).await.unwrap();
    assert_eq!(status.state, ContainerState::Running);
    node.runtime.stop_container(&id, DEADLINE).await.unwrap();
    let status = node.ended(&id).await;
    assert_eq!(status.exit_code, 5);
    let mut lines: Vec<String> = text_of(&status.log_path).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["err", "out", "web"]);
    node.end().await;
}

async fn tells_what_it_cannot_start(handler: &str) {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod_with("web", handler).await;
    let mut config = container("main", "true");
    config.command = words(&["/no/such/program"]);
    let id = node.runtime.create_container(&sandbox, &config, &pod).await.unwrap();
    let error = node.runtime.start_container(&id).await.unwrap_err().to_string();
    assert!(error.contains("/no/such/program") && error.contains("OCI runtime"), "{error}");
    let status = node.ended(&id).await;
    assert_eq!(status.exit_code, 128);
    node.end().await;
}

async fn is_killed_like_the_native_runtime(handler: &str) {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod_with("web", handler).await;
    let id = node
        .start(&sandbox, &pod, &container("main", "trap '' TERM; sleep 100000 & wait; sleep 100000"))
        .await;
    node.runtime.stop_container(&id, Duration::ZERO).await.unwrap();
    assert_eq!(node.ended(&id).await.exit_code, 137);
    node.start(&sandbox, &pod, &container("other", "sleep 100000")).await;
    node.end().await;
}

async fn shares_a_pod(handler: &str) {
    let node = Node::new().await;
    let mut pod = node.pod("web");
    pod.linux.security_context.namespace_options.pid = NamespaceMode::Pod;
    let sandbox = node.runtime.run_pod_sandbox(&pod, handler).await.unwrap();
    let shared = |name: &str, script: &str| {
        let mut config = container(name, script);
        config.linux.security_context.namespace_options.pid = NamespaceMode::Pod;
        config
    };
    let first = node.start(&sandbox, &pod, &shared("first", "echo kept > /dev/shm/a; exec sleep 4711")).await;
    let second = node.start(&sandbox, &pod, &shared("second", "sleep 100000")).await;
    let wait = "until [ -s /dev/shm/a ]; do sleep 0.1; done; cat /dev/shm/a; ps | grep -c '[s]leep 4711'";
    assert_eq!(node.exec(&second, wait).await.stdout, b"kept\n1\n");
    node.runtime.stop_container(&first, Duration::ZERO).await.unwrap();
    node.end().await;
}

#[tokio::test]
async fn unconfigured_handlers_are_refused() {
    let node = Node::new().await;
    let error = node.runtime.run_pod_sandbox(&node.pod("web"), "kata").await.unwrap_err();
    assert_eq!(error.to_string(), "no runtime for \"kata\" is configured");
    node.end().await;
}
