//! The same tests where there is only cgroup version 2: in a kernel that runs as a process, Debian's `user-mode-linux`.
//!
//! Its root is this machine's, which it can only read; what the tests write is in its own memory. Modules come with it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long the kernel and everything in it may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// What the first process says when all is done.
const DONE: &str = "the tests ended with ";

/// What has to do with cgroups: a kernel without hardware is slow.
const TESTS: [&str; 7] = [
    "lifecycle::a_container_runs_and_its_end_is_known",
    "lifecycle::memory_is_limited",
    "lifecycle::resources_can_change_and_are_counted",
    "lifecycle::resources_reach_the_kernel",
    "lifecycle::without_its_supervisor_a_pod_is_dead",
    "security::devices_are_those_that_are_allowed",
    "security::privileged_containers_have_everything",
];

#[test]
fn everything_works_with_version_2_alone() {
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        // The other tests have just shown it.
        return;
    }
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let init = folder.path().join("init");
    std::fs::write(&init, script()).unwrap();
    std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = boot(&init, &folder.path().join("console"));
    let ran = format!("test result: ok. {} passed", TESTS.len());
    assert!(output.contains(&ran) && output.contains(&format!("{DONE}0")), "{output}");
}

/// The first process: mounts what there has to be, runs the tests and switches off.
fn script() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin RUST_BACKTRACE=0 TERM=dumb
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mkdir /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
busybox insmod /usr/lib/uml/modules/$(uname -r)/kernel/fs/overlayfs/overlay.ko
{} --exact {} --test-threads 2 --color never
echo \"{DONE}$?\"
echo o > /proc/sysrq-trigger
sleep 60
",
        program.display(),
        TESTS.join(" ")
    )
}

/// Runs the kernel to its end; what it and everything in it said.
fn boot(init: &Path, console: &Path) -> String {
    let output = std::fs::File::create(console).unwrap();
    let mut kernel = Command::new("linux.uml")
        .args(["rootfstype=hostfs", "rootflags=/", "ro", "mem=768M", "quiet", "con=null", "con0=null,fd:1"])
        .arg(format!("init={}", init.display()))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .expect("user-mode-linux is installed");
    let started = Instant::now();
    while kernel.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            kernel.kill().unwrap();
            kernel.wait().unwrap();
            panic!("the kernel takes too long:\n{}", std::fs::read_to_string(console).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    String::from_utf8_lossy(&std::fs::read(console).unwrap()).into_owned()
}
