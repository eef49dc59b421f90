//! The tests of cgroups with version 2 only: in a kernel that runs as a process, Debian's `user-mode-linux`.
//!
//! Its root is this machine's root, read-only; what the tests write is in its own memory. Its modules come with the
//! package.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Deadline of the kernel and the tests in it.
const DEADLINE: Duration = Duration::from_secs(300);
/// Printed by the first process after the tests.
const DONE: &str = "the tests ended with ";

/// The tests of cgroups; a kernel without hardware is too slow for the others.
const TESTS: [&str; 7] = [
    "lifecycle::a_container_runs_and_its_exit_is_recorded",
    "lifecycle::memory_is_limited",
    "lifecycle::resources_can_change_and_are_counted",
    "lifecycle::resources_reach_the_kernel",
    "lifecycle::a_pod_dies_with_its_supervisor",
    "security::devices_are_those_that_are_allowed",
    "security::privileged_containers_have_everything",
];

#[test]
fn everything_works_with_version_2_alone() {
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        // The other tests have already used version 2.
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

/// The script of the first process: mounts file systems, runs the tests and powers off.
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

/// Runs the kernel until it exits; returns the console output.
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
        if started.elapsed() > DEADLINE {
            kernel.kill().unwrap();
            kernel.wait().unwrap();
            panic!("the kernel takes too long:\n{}", std::fs::read_to_string(console).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    String::from_utf8_lossy(&std::fs::read(console).unwrap()).into_owned()
}
