//! The command line: versions, and user errors, which are one line that says what to do, never a backtrace.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use corten_testkit::{DataDirectory, Server, corten_binary};
use tempfile::TempDir;

/// An ordinary user.
const UNPRIVILEGED: u32 = 65534;

/// The binary with every backtrace turned on.
fn corten(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command.envs([("RUST_BACKTRACE", "full"), ("RUST_LIB_BACKTRACE", "1"), ("CORTEN_LOG", "off")]);
    command
}

fn run(arguments: &[&str]) -> Output {
    corten(corten_binary()).args(arguments).output().expect("corten runs")
}

/// Checks that a command failed with one line on standard error that has these words.
#[track_caller]
fn assert_user_error(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "one line: {said}");
    assert!(said.starts_with("error: "), "{said}");
    for word in words {
        assert!(said.contains(word), "{word} is missing: {said}");
    }
}

#[test]
fn the_version_is_a_flag_and_a_command() {
    let flag = run(&["--version"]);
    let command = run(&["version"]);
    assert!(flag.status.success() && command.status.success());
    assert!(String::from_utf8_lossy(&flag.stdout).starts_with("corten "));
    assert_eq!(flag.stdout, command.stdout);
}

#[test]
fn a_missing_kubeconfig_is_explained() {
    for command in ["scheduler", "controller-manager", "proxy", "kubelet"] {
        assert_user_error(&run(&[command]), &["name a kubeconfig with --kubeconfig"]);
        let absent = run(&[command, "--kubeconfig", "/absent/config"]);
        assert_user_error(&absent, &["/absent/config", "--kubeconfig", "No such file"]);
    }
    let absent = run(&["token", "list", "--data-dir", "/absent"]);
    assert_user_error(&absent, &["/absent/admin.kubeconfig", "--kubeconfig", "No such file"]);
}

#[test]
fn a_wrong_flag_is_explained() {
    for command in ["server", "agent", "kubelet", "proxy", "scheduler", "controller-manager", "token"] {
        let output = run(&[command, "--no-such-flag"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("unexpected argument '--no-such-flag'"), "{said}");
        assert!(!said.contains("backtrace"), "{said}");
    }
    assert_user_error(&run(&["server", "--disable", "everything"]), &["everything", "choose from agent"]);
}

#[test]
fn a_port_in_use_is_explained() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it has an address").port().to_string();
    let directory = DataDirectory::new();
    let mut command = corten(corten_binary());
    command.args(["server", "--disable=agent", "--bind-address=127.0.0.1", "--secure-port", &port]);
    let output = command.arg("--data-dir").arg(directory.path()).output().expect("corten runs");
    assert_user_error(&output, &["cannot listen on 127.0.0.1:", "--secure-port", "Address already in use"]);
}

#[test]
fn a_data_directory_in_use_is_explained() {
    let server = Server::start();
    let mut command = corten(corten_binary());
    command.args(["server", "--disable=agent", "--secure-port=0", "--data-dir"]);
    let output = command.arg(server.directory().path()).output().expect("corten runs");
    assert_user_error(&output, &["in use by another process", "stop it first"]);
}

#[test]
fn an_ordinary_user_is_told_what_needs_root() {
    // A place that every user may enter, which the target directory need not be.
    let place = TempDir::new().expect("a temporary directory");
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let binary = place.path().join("corten");
    std::fs::copy(corten_binary(), &binary).expect("the binary is copied");
    for (arguments, remedy) in [
        (&["server", "--data-dir=/absent"][..], "--disable=agent"),
        (&["agent", "--server=https://192.0.2.1:6443", "--data-dir=/absent"], "`corten agent` as root"),
        (&["kubelet", "--kubeconfig=/absent"], "`corten kubelet` as root"),
        (&["server", "--disable=agent", "--data-dir=/absent"], "--data-dir"),
    ] {
        let mut command = corten(&binary);
        command.args(arguments).uid(UNPRIVILEGED).gid(UNPRIVILEGED).current_dir("/");
        assert_user_error(&command.output().expect("corten runs"), &[remedy]);
    }
}

#[test]
fn tokens_are_created_with_a_kubeconfig_that_is_elsewhere() {
    let (directory, elsewhere) = (DataDirectory::new(), TempDir::new().expect("a temporary directory"));
    let kubeconfig = elsewhere.path().join("config");
    let server = Server::try_start_with_kubeconfig(&directory, &kubeconfig).unwrap_or_else(|e| panic!("{e}"));
    let mut command = corten(corten_binary());
    let output = command.args(["token", "create", "--data-dir"]).arg(directory.path()).output();
    let output = output.expect("corten runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("K10"));
    let record = directory.path().join("admin.kubeconfig.path");
    let mode = std::fs::metadata(&record).expect("the place is recorded").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    drop(server);
}
