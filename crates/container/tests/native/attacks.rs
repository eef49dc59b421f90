//! Images, volumes and containers that try to escape. Each test reproduces a vulnerability of a container runtime.
//!
//! The target is a file of the node with a secret: no attack may read it, write to it or change its owner.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use corten_container::image::busybox_archive;
use corten_container::*;
use tar::{Builder, EntryType, Header};

use crate::support::*;

const SECRET: &str = "the key of the cluster's authority";

/// A file that only the node's root may read, outside of everything that containers mount.
fn secret(node: &Node) -> PathBuf {
    let path = node.path().join("secret");
    fs::write(&path, SECRET).unwrap();
    std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
    // After the owner, whose change would clear the bit.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4700)).unwrap();
    path
}

fn assert_untouched(secret: &std::path::Path) {
    let data = fs::metadata(secret).unwrap();
    assert_eq!(
        (data.uid(), data.gid(), data.mode() & 0o7777),
        (1234, 1234, 0o4700),
        "the node's file changed"
    );
    assert_eq!(fs::read_to_string(secret).unwrap(), SECRET);
}

/// An entry of an image's layer on top of busybox.
enum Entry<'a> {
    Link(&'a str, &'a str),
    File(&'a str, &'a str),
    Directory(&'a str),
    /// A directory that root alone may enter.
    Closed(&'a str),
}

/// An image of busybox with a layer on top.
fn import(node: &Node, name: &str, entries: &[Entry<'_>]) {
    use std::io::Read;
    let whole = busybox_archive(&[name], &["sh"]).unwrap();
    let mut base = Vec::new();
    for entry in tar::Archive::new(whole.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().to_string_lossy() == "layer.tar" {
            entry.read_to_end(&mut base).unwrap();
        }
    }
    let header = |kind, size: usize, mode| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header
    };
    let mut layer = Builder::new(Vec::new());
    for entry in entries {
        match entry {
            Entry::Link(path, target) => {
                layer.append_link(&mut header(EntryType::Symlink, 0, 0o777), path, target).unwrap();
            }
            Entry::File(path, text) => {
                let mut header = header(EntryType::Regular, text.len(), 0o644);
                layer.append_data(&mut header, path, text.as_bytes()).unwrap();
            }
            Entry::Directory(path) => {
                layer
                    .append_data(&mut header(EntryType::Directory, 0, 0o755), path, std::io::empty())
                    .unwrap();
            }
            Entry::Closed(path) => {
                layer
                    .append_data(&mut header(EntryType::Directory, 0, 0o700), path, std::io::empty())
                    .unwrap();
            }
        }
    }
    let layer = layer.into_inner().unwrap();
    let digest = |bytes: &[u8]| image::Digest::of(bytes).to_string();
    let config = serde_json::json!({
        "architecture": image::Platform::here().architecture, "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(&base), digest(&layer)]},
    })
    .to_string();
    let manifest =
        serde_json::json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["a.tar", "b.tar"]}])
            .to_string();
    let mut archive = Builder::new(Vec::new());
    for (path, bytes) in [
        ("config.json", config.as_bytes()),
        ("a.tar", &base),
        ("b.tar", &layer),
        ("manifest.json", manifest.as_bytes()),
    ] {
        archive.append_data(&mut header(EntryType::Regular, bytes.len(), 0o644), path, bytes).unwrap();
    }
    node.runtime.store().import(archive.into_inner().unwrap().as_slice()).unwrap();
}

/// A pod whose containers share processes.
async fn sharing_pod(node: &Node, name: &str) -> (String, PodSandboxConfig) {
    let mut pod = node.pod(name);
    pod.linux.security_context.namespace_options.pid = NamespaceMode::Pod;
    (node.runtime.run_pod_sandbox(&pod, "").await.unwrap(), pod)
}

fn sharing(name: &str, script: &str) -> ContainerConfig {
    let mut config = container(name, script);
    config.linux.security_context.namespace_options.pid = NamespaceMode::Pod;
    config
}

/// Starts a container; returns its log when it has ended, or the error of the start.
async fn attempt(
    node: &Node,
    sandbox: &str,
    pod: &PodSandboxConfig,
    config: &ContainerConfig,
) -> std::result::Result<String, String> {
    let id = node.runtime.create_container(sandbox, config, pod).await.map_err(|error| error.to_string())?;
    let started = node.runtime.start_container(&id).await.map_err(|error| error.to_string());
    let text = match started {
        Ok(()) => Ok(text_of(&node.ended(&id).await.log_path)),
        Err(error) => Err(error),
    };
    node.runtime.remove_container(&id).await.unwrap();
    text
}

/// CVE-2024-21626 and CVE-2016-9962: a working directory outside of the root.
#[tokio::test]
async fn no_working_directory_leads_out() {
    let node = Node::new().await;
    let secret = secret(&node);
    let (sandbox, pod) = sharing_pod(&node, "cwd").await;
    import(
        &node,
        "links:latest",
        &[Entry::Link("escape", "/proc/1/root"), Entry::Link("self", "/proc/self/cwd")],
    );
    let places = ["/escape", "/self/../../..", "/proc/1/root", "/proc/1/cwd", "/proc/self/root/../.."];
    let places = places.iter().map(|&place| place.to_owned());
    let descriptors = (3..16).flat_map(|number| {
        [format!("/proc/self/fd/{number}"), format!("/proc/self/fd/{number}/../../../../..")]
    });
    for (number, place) in places.chain(descriptors).enumerate() {
        let script = format!("cat .{0}; cat ../..{0}; cat ../../../../../../..{0}", secret.display());
        let mut config = sharing(&format!("c{number}"), &script);
        config.image = ImageSpec::new("links");
        config.linux.security_context.capabilities.add = words(&["SYS_PTRACE"]);
        config.working_dir.clone_from(&place);
        let text = attempt(&node, &sandbox, &pod, &config).await.unwrap_or_else(|error| error);
        assert!(!text.contains(SECRET), "{place}: {text}");
    }
    assert_untouched(&secret);
    node.end().await;
}

/// As in runc's tests: a working directory that the container's user may not enter is entered nevertheless, at the
/// start and for commands, because the node's administrator configured it.
#[tokio::test]
async fn a_working_directory_may_be_closed_to_its_user() {
    let node = Node::new().await;
    import(&node, "closed:latest", &[Entry::Closed("closed")]);
    let (sandbox, pod) = node.run_pod("closed").await;
    let mut config = container("main", "pwd; exec sleep 1000");
    config.image = ImageSpec::new("closed");
    config.working_dir = "/closed".to_owned();
    config.linux.security_context.run_as_user = Some(1000);
    let id = node.start(&sandbox, &pod, &config).await;
    let ran = node.exec(&id, "pwd; ls . || echo kept out").await;
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), "/closed\nkept out\n");
    node.end().await;
}

/// A running container replaces its working directory with a link; then a command is run in it.
#[tokio::test]
async fn no_command_starts_in_a_directory_that_leads_out() {
    let node = Node::new().await;
    let secret = secret(&node);
    let (sandbox, pod) = sharing_pod(&node, "exec").await;
    for (name, target) in [("root", "/proc/1/root"), ("cwd", "/proc/1/cwd"), ("fd", "/proc/self/fd/9")] {
        let mut config =
            sharing(name, &format!("cd /; rmdir /w; ln -s {target} /w; echo changed; exec sleep 1000"));
        config.working_dir = "/w".to_owned();
        let id = node.start(&sandbox, &pod, &config).await;
        let log = node.runtime.container_status(&id).await.unwrap().log_path;
        tokio::time::timeout(DEADLINE, async {
            while !fs::read_to_string(&log).unwrap().contains("changed") {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let script = format!("pwd; cat .{0}; echo written > .{0}", secret.display());
        let ran = node.runtime.exec_sync(&id, &words(&["sh", "-c", &script]), DEADLINE).await;
        let said = format!("{ran:?}");
        assert!(ran.is_err(), "{target}: {said}");
        node.runtime.stop_container(&id, std::time::Duration::ZERO).await.unwrap();
    }
    assert_untouched(&secret);
    node.end().await;
}

/// The init process of a shared process namespace has no access to the node, although a container may trace it.
#[tokio::test]
async fn the_init_process_of_a_pod_has_no_access_to_the_node() {
    let node = Node::new().await;
    let secret = secret(&node);
    let (sandbox, pod) = sharing_pod(&node, "keeper").await;
    let script = format!(
        "exec 2>&1; cat /proc/1/root{0} /proc/1/cwd{0}; echo root; ls -A /proc/1/root; echo end; \
         for fd in /proc/1/fd/*; do readlink $fd; cat $fd{0}; done 2>&1; grep -E 'Uid|CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/1/status",
        secret.display()
    );
    let mut config = sharing("tracer", &script);
    config.linux.security_context.capabilities.add = words(&["SYS_PTRACE"]);
    let text = attempt(&node, &sandbox, &pod, &config).await.unwrap();
    assert!(!text.contains(SECRET), "{text}");
    assert!(text.contains("root\nend\n"), "its root is empty: {text}");
    for line in text.lines().filter(|line| line.starts_with('/')) {
        assert!(
            line.ends_with("Not a directory") || line.contains("No such file"),
            "it has a file open: {text}"
        );
    }
    for expected in [
        "Uid:\t65535",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    node.end().await;
}

/// A container with CAP_SYS_PTRACE waits for processes that are about to join it, and inspects them.
#[tokio::test]
async fn processes_that_join_a_container_have_no_access_to_the_node() {
    let node = Node::new().await;
    let secret = secret(&node);
    let (sandbox, pod) = node.run_pod("joining").await;
    let script = format!(
        "while :; do for p in /proc/[0-9]*; do cat $p/root{0} $p/cwd{0} && echo read; \
         for fd in $p/fd/*; do cat $fd{0} $fd/../../../../../../../{0} && echo read; done; done; done 2>/dev/null",
        secret.display()
    );
    let mut config = container("watcher", &script);
    config.linux.security_context.capabilities.add = words(&["SYS_PTRACE"]);
    let id = node.start(&sandbox, &pod, &config).await;
    for _ in 0..50 {
        assert_eq!(node.exec(&id, "true").await.exit_code, 0);
    }
    let log = node.runtime.container_status(&id).await.unwrap().log_path;
    let text = text_of(&log);
    assert!(!text.contains(SECRET) && !text.contains("read"), "{text}");
    node.end().await;
}

/// CVE-2016-9962, CVE-2024-21626: the first process and commands inherit only the standard streams.
#[tokio::test]
async fn no_descriptor_is_inherited() {
    let node = Node::new().await;
    let script = "ls /proc/self/fd | wc -l";
    let (_, text) = node.run("first", script, |_| ()).await;
    // The three streams, and the directory that `ls` reads.
    assert_eq!(text.trim(), "4");
    let (sandbox, pod) = node.run_pod("commands").await;
    let id = node.start(&sandbox, &pod, &container("main", "exec sleep 1000")).await;
    assert_eq!(String::from_utf8(node.exec(&id, script).await.stdout).unwrap().trim(), "4");
    node.end().await;
}

/// CVE-2019-5736: writing to the runtime's own program through the process that is about to run a command.
#[tokio::test]
async fn the_supervisors_program_cannot_be_changed() {
    let node = Node::new().await;
    import(&node, "self:latest", &[Entry::Link("bin/itself", "/proc/self/exe")]);
    let (sandbox, pod) = node.run_pod("program").await;
    let script = "while :; do for p in /proc/[0-9]*; do cat /bin/true > $p/exe; done; done 2>/dev/null";
    let mut config = container("writer", script);
    config.image = ImageSpec::new("self");
    config.linux.security_context.capabilities.add = words(&["SYS_PTRACE"]);
    let id = node.start(&sandbox, &pod, &config).await;
    for _ in 0..20 {
        let command = words(&["/bin/itself"]);
        // The program runs as the container and exits, because it has no supervisor's input.
        assert_ne!(node.runtime.exec_sync(&id, &command, DEADLINE).await.unwrap().exit_code, 0);
    }
    let text = attempt(&node, &sandbox, &pod, &container("after", "echo unchanged")).await;
    assert_eq!(text.as_deref(), Ok("unchanged\n"));
    assert_eq!(node.run("another", "echo unchanged", |_| ()).await.1, "unchanged\n");
    node.end().await;
}

/// CVE-2019-19921, CVE-2023-28642: `/proc` or `/sys` that is a link.
#[tokio::test]
async fn the_kernels_file_systems_lie_where_they_belong() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("links").await;
    for (name, entries) in [
        ("proc", vec![Entry::Directory("other"), Entry::Link("proc", "/other")]),
        ("nowhere", vec![Entry::Link("proc", "/tmp/nowhere")]),
        ("sys", vec![Entry::Directory("other"), Entry::Link("sys", "other")]),
        ("dev", vec![Entry::Directory("other"), Entry::Link("dev", "/other")]),
        ("file", vec![Entry::File("proc", "a file")]),
    ] {
        import(&node, &format!("{name}:latest"), &entries);
        let mut config = container(name, "ls -d /proc/self /other/self");
        config.image = ImageSpec::new(name);
        config.linux.security_context.masked_paths = words(&["/proc/kcore", "/sys/firmware"]);
        let error = attempt(&node, &sandbox, &pod, &config).await.expect_err(name);
        assert!(error.contains("cannot mount"), "{name}: {error}");
    }
    node.end().await;
}

/// CVE-2019-16884, CVE-2023-27561 and others: a volume in `/proc`.
#[tokio::test]
async fn volumes_stay_out_of_proc() {
    let node = Node::new().await;
    let volume = node.path().join("volume");
    fs::create_dir_all(volume.join("attr")).unwrap();
    fs::write(volume.join("file"), "from the volume").unwrap();
    import(
        &node,
        "links:latest",
        &[
            Entry::Link("to-proc", "/proc"),
            Entry::Link("to-sys", "/proc/sys"),
            Entry::Link("to-attr", "proc/self/attr"),
        ],
    );
    let (sandbox, pod) = node.run_pod("proc").await;
    let bind = |target: &str, source: PathBuf| Mount {
        container_path: target.to_owned(),
        host_path: source.to_string_lossy().into_owned(),
        ..Mount::default()
    };
    for (number, target) in [
        "/proc",
        "/proc/",
        "/./proc",
        "/x/../proc",
        "/proc/sys",
        "/proc/self",
        "/proc/self/attr",
        "/proc/1/attr",
        "/to-proc",
        "/to-sys",
        "/to-sys/kernel",
        "/to-attr",
        "/",
    ]
    .iter()
    .enumerate()
    {
        let mut config = container(&format!("c{number}"), "echo started");
        config.image = ImageSpec::new("links");
        config.mounts = vec![bind(target, volume.clone())];
        let refused = attempt(&node, &sandbox, &pod, &config).await;
        assert!(refused.is_err(), "{target}: {refused:?}");
    }
    for (number, target) in
        ["/proc/sys/kernel/core_pattern", "/proc/kcore", "/to-proc/uptime"].iter().enumerate()
    {
        let mut config = container(&format!("f{number}"), "echo started");
        config.image = ImageSpec::new("links");
        config.mounts = vec![bind(target, volume.join("file"))];
        let refused = attempt(&node, &sandbox, &pod, &config).await;
        assert!(refused.is_err(), "{target}: {refused:?}");
    }
    let mut config = container("allowed", "cat /proc/uptime; ls /proc-of-node/1/ns >/dev/null && echo seen");
    config.mounts = vec![bind("/proc/uptime", volume.join("file")), bind("/proc-of-node", "/proc".into())];
    let text = attempt(&node, &sandbox, &pod, &config).await.unwrap();
    assert_eq!(text, "from the volumeseen\n");
    node.end().await;
}

/// CVE-2025-31133, CVE-2025-52565, CVE-2025-52881: a volume at `/dev` with links in place of devices.
#[tokio::test]
async fn a_volume_in_the_place_of_dev_fakes_nothing() {
    let node = Node::new().await;
    let secret = secret(&node);
    let volume = node.path().join("volume");
    fs::create_dir_all(volume.join("pts")).unwrap();
    for name in ["null", "zero", "full", "random", "tty", "console", "ptmx", "pts/ptmx", "fd"] {
        symlink(&secret, volume.join(name)).unwrap();
    }
    import(&node, "links:latest", &[Entry::Link("d", "/dev"), Entry::Directory("empty")]);
    let masked = words(&["/proc/keys", "/proc/timer_list", "/proc/acpi", "/sys/firmware", "/empty"]);
    let script = "stat -c '%n %F %t:%T' /proc/keys; ls -A /sys/firmware /empty; cat /proc/keys";
    for target in ["/dev", "/d", "/dev/"] {
        let (sandbox, pod) = node.run_pod(&format!("dev{}", target.len())).await;
        for tty in [false, true] {
            let mut config = container(&format!("tty-{tty}"), script);
            config.image = ImageSpec::new("links");
            config.tty = tty;
            config.linux.security_context.masked_paths.clone_from(&masked);
            config.mounts = vec![Mount {
                container_path: target.to_owned(),
                host_path: volume.to_string_lossy().into_owned(),
                ..Mount::default()
            }];
            match attempt(&node, &sandbox, &pod, &config).await {
                Ok(text) => {
                    assert!(!text.contains(SECRET), "{target}: {text}");
                    assert!(text.contains("/proc/keys character special file 1:3"), "{target}: {text}");
                    assert!(!tty, "a terminal was made of a link: {text}");
                }
                Err(error) => assert!(tty && error.contains("terminal"), "{target}: {error}"),
            }
        }
        assert_untouched(&secret);
    }
    node.end().await;
}

/// CVE-2016-3697: an image's user whose name is a number.
#[tokio::test]
async fn a_users_number_is_not_looked_up_as_a_name() {
    let node = Node::new().await;
    let passwd = "1000:x:0:0:root:/root:/bin/sh\nroot:x:0:0:root:/root:/bin/sh\n";
    import(
        &node,
        "users:latest",
        &[Entry::File("etc/passwd", passwd), Entry::File("etc/group", "1000:x:0:1000\n")],
    );
    let (_, text) = node
        .run("user", "id -u; echo $HOME", |config| {
            config.image = ImageSpec::new("users");
            config.linux.security_context.run_as_user = Some(1000);
        })
        .await;
    assert_eq!(text, "1000\n/\n");
    node.end().await;
}

/// An image whose `/etc/passwd` is a link to the node's, or endless.
#[tokio::test]
async fn the_nodes_users_are_not_the_images() {
    let node = Node::new().await;
    let listed = fs::read_to_string("/etc/passwd").unwrap();
    let name = listed.lines().filter_map(|line| line.split(':').next()).find(|&name| name != "root").unwrap();
    for (image, entries) in [
        ("folder", vec![Entry::Link("etc", "/proc/self/root/etc")]),
        ("file", vec![Entry::Link("etc/passwd", "../../../../../../../../../etc/passwd")]),
        ("device", vec![Entry::Link("etc/passwd", "/dev/zero")]),
    ] {
        import(&node, &format!("{image}:latest"), &entries);
        let (sandbox, pod) = node.run_pod(image).await;
        let mut config = container("main", "id");
        config.image = ImageSpec::new(image);
        config.linux.security_context.run_as_username = name.to_owned();
        let error = attempt(&node, &sandbox, &pod, &config).await.expect_err(image);
        assert!(error.contains("unable to find user"), "{image}: {error}");
    }
    node.end().await;
}

/// As in runc's tests of masked and read-only paths.
#[tokio::test]
async fn masks_stay() {
    let node = Node::new().await;
    import(&node, "masked:latest", &[Entry::Directory("testdir"), Entry::File("testfile", SECRET)]);
    let script = "exec 2>/dev/null; cat /testfile; ls -A /testdir; \
        touch /testdir/x || echo 1; rm -f /testfile || echo 2; rm -rf /testdir || echo 3; umount /testfile || echo 4; \
        umount /testdir || echo 5; { echo x > /proc/sys/kernel/hostname; } || echo 6; umount /proc/sys || echo 7";
    for (name, read_only) in [("writable", false), ("read-only", true)] {
        let (_, text) = node
            .run(name, script, |config| {
                config.image = ImageSpec::new("masked");
                let security = &mut config.linux.security_context;
                security.masked_paths =
                    words(&["/testdir", "/testfile", "/testdir", "/testfile", "/not-there"]);
                security.readonly_paths = words(&["/proc/sys", "/proc/not-there"]);
                security.readonly_rootfs = read_only;
            })
            .await;
        let text: Vec<&str> = text.lines().filter(|line| line.len() == 1).collect();
        assert_eq!(text, ["1", "2", "3", "4", "5", "6", "7"], "{name}");
    }
    node.end().await;
}

/// Users of a container can use its devices, whatever the node's umask is; dangling links do not prevent mounts.
#[tokio::test]
async fn ordinary_containers_still_work() {
    let node = Node::new().await;
    fs::write(node.path().join("hosts"), "hosts of the pod\n").unwrap();
    import(
        &node,
        "dangling:latest",
        &[Entry::Link("jump", "/tmp/foo/bar"), Entry::Link("etc/hosts", "/jump/baz/hosts")],
    );
    let (_, text) = node
        .run(
            "devices",
            "echo x > /dev/null && echo written; stat -c %a /dev/null /dev/tty; cat /etc/hosts",
            |config| {
                config.image = ImageSpec::new("dangling");
                config.linux.security_context.run_as_user = Some(1000);
                config.mounts = vec![Mount {
                    container_path: "/etc/hosts".to_owned(),
                    host_path: node.path().join("hosts").to_string_lossy().into_owned(),
                    ..Mount::default()
                }];
            },
        )
        .await;
    assert_eq!(text, "written\n666\n666\nhosts of the pod\n");
    node.end().await;
}

/// As in runc's tests of mounts: the order of paths decides, not that of the list; a dangling link at the end of a path is
/// followed inside the root; cgroups are read-only.
#[tokio::test]
async fn mounts_are_made_as_runc_makes_them() {
    let node = Node::new().await;
    let (outer, inner) = (node.path().join("outer"), node.path().join("inner"));
    for folder in [outer.join("inner"), inner.clone()] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(outer.join("file"), "outer\n").unwrap();
    fs::write(inner.join("file"), "inner\n").unwrap();
    import(&node, "order:latest", &[Entry::Link("etc/hosts", "/tmp/hosts")]);
    let bind = |target: &str, source: PathBuf, readonly| Mount {
        container_path: target.to_owned(),
        host_path: source.to_string_lossy().into_owned(),
        readonly,
        ..Mount::default()
    };
    let script = "exec 2>/dev/null; cat /data/inner/file /data/file /etc/hosts /tmp/hosts; \
        touch /data/inner/x && echo writable; touch /data/x || echo protected; \
        if [ -e /sys/fs/cgroup/cgroup.procs ]; then set -- /sys/fs/cgroup; else set -- /sys/fs/cgroup/*; fi; \
        for cgroup; do touch $cgroup/x && echo $cgroup; mkdir $cgroup/y && echo $cgroup; done";
    let (code, text) = node
        .run("order", &format!("{script}; true"), |config| {
            config.image = ImageSpec::new("order");
            config.mounts = vec![
                bind("/data/inner", inner.clone(), false),
                bind("/etc/hosts", inner.join("file"), true),
                bind("/data", outer.clone(), true),
            ];
        })
        .await;
    assert_eq!((code, text.as_str()), (0, "inner\nouter\ninner\ninner\nwritable\nprotected\n"));
    node.end().await;
}

/// A container that shares the processes of another one sees them in its own `/proc`, with its own masks.
#[tokio::test]
async fn a_container_sees_the_processes_of_its_target() {
    let node = Node::new().await;
    let secret = secret(&node);
    let (sandbox, pod) = node.run_pod("target").await;
    let mut target = container("target", "exec sleep 4321");
    target.linux.security_context.capabilities.add = words(&["SYS_PTRACE"]);
    let target = node.start(&sandbox, &pod, &target).await;
    let script = format!(
        "ps; cat /proc/1/root{0}; stat -c %t:%T /proc/keys; ls /proc/1/root/bin/busybox",
        secret.display()
    );
    let mut config = container("debugger", &script);
    let security = &mut config.linux.security_context;
    security.namespace_options.pid = NamespaceMode::Target;
    security.namespace_options.target_id.clone_from(&target);
    security.capabilities.add = words(&["SYS_PTRACE"]);
    security.masked_paths = words(&["/proc/keys"]);
    let text = attempt(&node, &sandbox, &pod, &config).await.unwrap();
    assert!(text.contains("sleep 4321") && text.contains("1:3") && !text.contains(SECRET), "{text}");
    assert!(text.lines().any(|line| line == "/proc/1/root/bin/busybox"), "{text}");
    node.end().await;
}

/// Runs this test program in a container, with the node's libraries; `part` is the test to run there.
fn runs_itself(config: &mut ContainerConfig, part: &str) {
    let bind = |path: &str, source: String| Mount {
        container_path: path.to_owned(),
        host_path: source,
        readonly: true,
        ..Mount::default()
    };
    let program = std::env::current_exe().unwrap().to_string_lossy().into_owned();
    config.mounts.push(bind("/attacker", program));
    let libraries = ["/usr/lib", "/lib", "/lib64"].into_iter().filter(|path| fs::exists(path).unwrap());
    config.mounts.extend(libraries.map(|path| bind(path, path.to_owned())));
    config.command = words(&["/attacker", "--exact", part, "--nocapture"]);
}

/// The attacker's part of the test below: takes the sockets of processes that are about to become a container's, and
/// claims on them that the container is another process of the node.
#[test]
fn forges_messages_of_other_processes() {
    use rustix::net::{SendFlags, SocketType, send, sockopt::socket_type};
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let Ok(victim) = std::env::var("VICTIM") else { return };
    let own = i32::try_from(std::process::id()).unwrap();
    let mut last = own;
    println!("watching");
    loop {
        for number in last + 1..last + 4 {
            let Ok(process) = pidfd_open(Pid::from_raw(number).unwrap(), PidfdFlags::empty()) else {
                continue;
            };
            for descriptor in 3..32 {
                let Ok(taken) = pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty()) else { continue };
                if socket_type(&taken) == Ok(SocketType::SEQPACKET) {
                    let said = send(&taken, format!("\0process {victim}").as_bytes(), SendFlags::NOSIGNAL);
                    println!("said {said:?}");
                }
            }
            last = number;
        }
    }
}

/// A container with CAP_SYS_PTRACE takes the socket of a process that is about to become a container, and answers the
/// supervisor in its place: the supervisor must not take another process of the node for the container.
#[tokio::test]
async fn no_container_can_forge_its_process_id() {
    let node = Node::new().await;
    let secret = secret(&node);
    let (sandbox, pod) = sharing_pod(&node, "speaker").await;
    let mut victim = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let mut config = sharing("attacker", "");
    runs_itself(&mut config, "attacks::forges_messages_of_other_processes");
    config.envs = vec![("VICTIM".to_owned(), victim.id().to_string())];
    config.linux.security_context.capabilities.add = words(&["SYS_PTRACE"]);
    let attacker = node.start(&sandbox, &pod, &config).await;
    let log = node.runtime.container_status(&attacker).await.unwrap().log_path;
    tokio::time::timeout(DEADLINE, async {
        while !fs::read_to_string(&log).unwrap().contains("watching") {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    // The attacker can make starts fail in its own pod, and nothing else.
    let mut read = Vec::new();
    for number in 0..40 {
        let config = sharing(&format!("c{number}"), "exec sleep 1000");
        let id = node.runtime.create_container(&sandbox, &config, &pod).await.unwrap();
        if node.runtime.start_container(&id).await.is_ok() {
            let command = words(&["cat", &secret.to_string_lossy()]);
            let ran = node.runtime.exec_sync(&id, &command, DEADLINE).await;
            read.extend(ran.ok().map(|ran| String::from_utf8(ran.stdout).unwrap()));
        }
        if fs::read_to_string(&log).unwrap().matches("said").count() > 4 {
            break;
        }
    }
    let said = text_of(&log);
    let alive = victim.try_wait().unwrap().is_none();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(alive && read.iter().all(String::is_empty), "{read:?} {said}");
    node.end().await;
}

/// A container that shares a volume replaces the folder in which another one's volume is being mounted with a link to a
/// third volume: a read-only mount must not become writable, wherever it ends up.
#[tokio::test]
async fn a_read_only_volume_is_never_writable() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("swapped").await;
    let folder = |name: &str| {
        let path = node.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let (shared, decoy, kept) = (folder("shared"), folder("decoy"), folder("kept"));
    fs::create_dir_all(shared.join("place/inner")).unwrap();
    symlink("/decoy", shared.join("link")).unwrap();
    let bind = |target: &str, source: &std::path::Path, readonly| Mount {
        container_path: target.to_owned(),
        host_path: source.to_string_lossy().into_owned(),
        readonly,
        ..Mount::default()
    };
    let done = std::sync::Arc::new(AtomicBool::new(false));
    let (over, place) = (done.clone(), shared.clone());
    let swapper = std::thread::spawn(move || {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        while !over.load(Ordering::Relaxed) {
            renameat_with(CWD, place.join("place"), CWD, place.join("link"), RenameFlags::EXCHANGE).unwrap();
        }
    });
    let mut written = Vec::new();
    for number in 0..40 {
        let script =
            "for path in /shared/place /shared/link; do echo x > $path/inner/file; done 2>/dev/null; :";
        let mut config = container(&format!("c{number}"), script);
        config.mounts = vec![
            bind("/shared", &shared, false),
            bind("/decoy/inner", &decoy, false),
            bind("/shared/place/inner", &kept, true),
        ];
        let text = attempt(&node, &sandbox, &pod, &config).await;
        if kept.join("file").exists() {
            written.push(text);
            break;
        }
    }
    done.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(written.is_empty(), "the read-only volume was written to");
    node.end().await;
}

/// A process outside of the container that got its output keeps writing after the container has ended.
#[tokio::test]
async fn an_endless_output_does_not_outlast_its_container() {
    use std::io::Write;
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("endless").await;
    let id = node.start(&sandbox, &pod, &container("main", "exec sleep 1000")).await;
    let words = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pid = node.processes().into_iter().find(|&pid| words(pid).contains("sleep")).unwrap();
    let output = fs::File::options().write(true).open(format!("/proc/{pid}/fd/1")).unwrap();
    rustix::pipe::fcntl_setpipe_size(&output, 1 << 20).unwrap();
    let writers = [(); 8].map(|()| {
        let mut output = output.try_clone().unwrap();
        std::thread::spawn(move || while output.write_all(&[b'\n'; 65536]).is_ok() {})
    });
    drop(output);
    node.runtime.stop_container(&id, std::time::Duration::ZERO).await.unwrap();
    node.ended(&id).await;
    // Nothing reads it any more.
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    node.end().await;
}

/// A pod that mounts the folder of logs replaces another pod's log, or its folder, with a pipe or a link.
#[tokio::test]
async fn logs_are_written_to_their_own_folder() {
    let node = Node::new().await;
    let (sandbox, pod) = node.run_pod("logs").await;
    let outside = node.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let folder = PathBuf::from(&pod.log_directory);
    fs::create_dir_all(folder.join("pipe")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe/0.log"), mode).unwrap();
    symlink(&outside, folder.join("folder")).unwrap();
    fs::create_dir(folder.join("file")).unwrap();
    symlink(outside.join("0.log"), folder.join("file/0.log")).unwrap();
    for name in ["pipe", "folder", "file"] {
        let config = container(name, "echo written");
        let started = attempt(&node, &sandbox, &pod, &config);
        let started = tokio::time::timeout(DEADLINE, started).await.expect("the supervisor answers");
        assert!(started.is_err(), "{name}: {started:?}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let text = attempt(&node, &sandbox, &pod, &container("good", "echo written")).await;
    assert_eq!(text.as_deref(), Ok("written\n"));
    node.end().await;
}
