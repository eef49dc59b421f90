//! Containers have the privileges and resources of their configuration, and no others.

use std::fs;

use corten_container::*;

use crate::support::*;

const DEFAULT_CAPABILITIES: &str = "00000000a80425fb";

#[tokio::test]
async fn containers_are_confined() {
    let node = Node::new().await;
    let script = "cat /proc/self/status; mkdir /x; echo root $?; ls /proc/kcore-hidden; id; ls /dev; mount";
    let (_, text) = node
        .run("confined", script, |config| {
            let security = &mut config.linux.security_context;
            security.run_as_username = "web".to_owned();
            security.supplemental_groups = vec![77];
            security.no_new_privs = true;
            security.seccomp = Some(SecurityProfile::RuntimeDefault);
            security.readonly_rootfs = true;
        })
        .await;
    for line in [
        "Seccomp:\t2",
        "NoNewPrivs:\t1",
        "CapEff:\t0000000000000000",
        &format!("CapBnd:\t{DEFAULT_CAPABILITIES}"),
        "root 1",
        "uid=33(web) gid=34 groups=34,40(log),77",
        "proc on /proc type proc (rw,nosuid,nodev,noexec,relatime)",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("kmsg") && text.contains("\nnull\n"), "{text}");
    node.end().await;
}

#[tokio::test]
async fn devices_are_those_that_are_allowed() {
    let node = Node::new().await;
    // Creating a device node is allowed; using it is not.
    let script =
        "mknod /tmp/null c 1 3; mknod /tmp/kmsg c 1 11; echo x > /tmp/null && echo null; cat < /tmp/kmsg";
    let (_, text) = node.run("devices", script, |_| {}).await;
    assert!(text.starts_with("null\n") && text.contains("Operation not permitted"), "{text}");
    node.end().await;
}

#[tokio::test]
async fn paths_are_masked_and_protected() {
    let node = Node::new().await;
    // Only one stream: lines of two may be interleaved.
    let script =
        "exec 2>&1; cat /proc/cpuinfo; ls /proc/irq; echo x > /proc/sys/kernel/domainname || echo refused";
    let (_, text) = node
        .run("masked", script, |config| {
            let security = &mut config.linux.security_context;
            security.masked_paths = words(&["/proc/cpuinfo", "/proc/irq", "/proc/not-there"]);
            security.readonly_paths = words(&["/proc/sys", "/proc/not-there"]);
        })
        .await;
    let text: Vec<&str> = text.lines().filter(|line| !line.contains("Read-only")).collect();
    assert_eq!(text, ["refused"]);
    node.end().await;
}

#[tokio::test]
async fn the_default_profile_refuses() {
    let node = Node::new().await;
    let ask = |profile| {
        move |config: &mut ContainerConfig| {
            config.linux.security_context.seccomp = Some(profile);
            config.linux.security_context.capabilities.add = words(&["SYS_ADMIN"]);
        }
    };
    fs::create_dir_all(node.path().join("seccomp")).unwrap();
    let profile = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
        {"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":28}]}"#;
    fs::write(node.path().join("seccomp/no-folders.json"), profile).unwrap();
    let (_, text) =
        node.run("own", "mkdir /x", ask(SecurityProfile::Localhost("no-folders.json".to_owned()))).await;
    assert!(text.contains("No space left on device"), "{text}");
    let (code, text) = node.run("free", "mkdir /x", ask(SecurityProfile::Unconfined)).await;
    assert_eq!(code, 0, "{text}");
    node.end().await;
}

#[tokio::test]
async fn volumes_are_seen_as_asked() {
    let node = Node::new().await;
    let volume = node.path().join("volume");
    fs::create_dir_all(&volume).unwrap();
    fs::write(volume.join("file"), "from the node").unwrap();
    let mount = |target: &str, readonly| Mount {
        container_path: target.to_owned(),
        host_path: volume.to_string_lossy().into_owned(),
        readonly,
        ..Mount::default()
    };
    let script = "cat /ro/file; echo; touch /ro/x 2>/dev/null || echo protected; echo new > /rw/inner/new; cat /etc/hosts";
    let (_, text) = node
        .run("volumes", script, |config| {
            let file = Mount {
                host_path: volume.join("file").to_string_lossy().into_owned(),
                ..mount("/etc/hosts", true)
            };
            config.mounts = vec![mount("/rw/inner/", false), mount("/ro", true), file];
        })
        .await;
    assert_eq!(text, "from the node\nprotected\nfrom the node");
    assert_eq!(fs::read_to_string(volume.join("new")).unwrap(), "new\n");
    node.end().await;
}

#[tokio::test]
async fn a_pods_containers_share_what_the_pod_has() {
    let node = Node::new().await;
    let mut pod = node.pod("shared");
    pod.linux.security_context.namespace_options.pid = NamespaceMode::Pod;
    pod.linux.sysctls.insert("net.ipv4.ip_unprivileged_port_start".to_owned(), "77".to_owned());
    let sandbox = node.runtime.run_pod_sandbox(&pod, "").await.unwrap();
    let shared = |name: &str, script: &str| {
        let mut config = container(name, script);
        config.linux.security_context.namespace_options.pid = NamespaceMode::Pod;
        config
    };
    let writer = node
        .start(&sandbox, &pod, &shared("writer", "echo word > /dev/shm/word; sleep 1000 & sleep 2000"))
        .await;
    let script = "until cat /dev/shm/word; do :; done; ps; cat /proc/sys/net/ipv4/ip_unprivileged_port_start";
    let reader = node.start(&sandbox, &pod, &shared("reader", script)).await;
    let text = text_of(&node.ended(&reader).await.log_path);
    assert!(text.contains("word\n") && text.contains("sleep 2000") && text.contains("\n77\n"), "{text}");
    node.runtime.stop_container(&writer, std::time::Duration::ZERO).await.unwrap();
    node.end().await;
}

#[tokio::test]
async fn privileged_containers_have_everything() {
    let node = Node::new().await;
    let mut pod = node.pod("host");
    let options = &mut pod.linux.security_context.namespace_options;
    *options = NamespaceOptions {
        network: NamespaceMode::Node,
        pid: NamespaceMode::Node,
        ipc: NamespaceMode::Node,
        ..Default::default()
    };
    let options = options.clone();
    let sandbox = node.runtime.run_pod_sandbox(&pod, "").await.unwrap();
    let mut config = container(
        "main",
        "hostname; ls /dev; ls -l /proc/self/ns/net /proc/self/ns/pid; grep CapEff /proc/self/status",
    );
    config.linux.security_context.privileged = true;
    config.linux.security_context.namespace_options = options;
    let id = node.start(&sandbox, &pod, &config).await;
    let status = node.ended(&id).await;
    let text = text_of(&status.log_path);
    for name in ["net", "pid"] {
        let own = fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert!(text.contains(&*own.to_string_lossy()), "{name}: {text}");
    }
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(text.starts_with(&hostname) && text.contains("kmsg"), "{text}");
    assert!(!text.contains(DEFAULT_CAPABILITIES), "{text}");
    node.end().await;
}

/// A folder of the node that is mounted and shared, until it is dropped.
struct SharedFolder(std::path::PathBuf);

impl SharedFolder {
    fn new(path: std::path::PathBuf) -> SharedFolder {
        fs::create_dir_all(&path).unwrap();
        let folder = SharedFolder(path);
        folder.mount(&["-t", "tmpfs", "tmpfs"]);
        folder.mount(&["--make-shared"]);
        folder
    }

    fn mount(&self, how: &[&str]) {
        let status = std::process::Command::new("mount").args(how).arg(&self.0).status().unwrap();
        assert!(status.success(), "mount {how:?}");
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        let _ =
            std::process::Command::new("umount").args(["--recursive".as_ref(), self.0.as_os_str()]).status();
    }
}

#[tokio::test]
async fn mounts_propagate_as_asked() {
    let node = Node::new().await;
    let folder = SharedFolder::new(node.path().join("shared"));
    let (sandbox, pod) = node.run_pod("propagation").await;
    let mut containers = Vec::new();
    for (name, propagation) in [
        ("private", MountPropagation::Private),
        ("slave", MountPropagation::HostToContainer),
        ("shared", MountPropagation::Bidirectional),
    ] {
        let mut config = container(name, "sleep 1000");
        config.linux.security_context.privileged = true;
        let host_path = folder.0.to_string_lossy().into_owned();
        config.mounts =
            vec![Mount { container_path: "/v".to_owned(), host_path, propagation, ..Mount::default() }];
        containers.push(node.start(&sandbox, &pod, &config).await);
    }
    let outer = folder.0.join("outer");
    fs::create_dir(&outer).unwrap();
    let status =
        std::process::Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&outer).status().unwrap();
    assert!(status.success());
    fs::write(outer.join("file"), "").unwrap();
    let mut seen = Vec::new();
    for id in &containers {
        seen.push(node.exec(id, "ls /v/outer/file").await.exit_code == 0);
        let script = format!("mkdir /v/{0} && mount -t tmpfs inner /v/{0}", &id[..8]);
        let made = node.exec(id, &script).await;
        assert_eq!(made.exit_code, 0, "{}", String::from_utf8_lossy(&made.stderr));
    }
    assert_eq!(seen, [false, true, true], "what the node mounts");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let back: Vec<bool> =
        containers.iter().map(|id| mounts.contains(&format!("shared/{}", &id[..8]))).collect();
    assert_eq!(back, [false, false, true], "what containers mount");
    drop(folder);
    node.end().await;
}
