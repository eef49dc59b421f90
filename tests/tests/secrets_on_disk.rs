//! Other users of a node's machine can read no Secret, neither from files nor from memory.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corten_e2e::pods::{Node, Runtime, condition, container, pod};
use corten_e2e::{eventually, on_every_runtime};
use serde_json::{Value, json};

/// The uid of a local user without privileges.
const UNPRIVILEGED: u32 = 65534;
const VALUE: &str = "a-value-that-is-nowhere-else";

/// A pod with a Secret in every possible form.
fn knowing(name: &str) -> Value {
    let mut main = container(
        "main",
        "cat /secret/token /all/token /etc/hostname > /dev/null && (echo > /secret/new) 2>/dev/null; \
         echo $? $TOKEN; sleep 100000",
    );
    main["args"] = json!(["--token=$(TOKEN)"]);
    main["env"] =
        json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "token"}}}]);
    main["volumeMounts"] = json!([
        {"name": "s", "mountPath": "/secret"}, {"name": "p", "mountPath": "/all"}, {"name": "d", "mountPath": "/me"},
    ]);
    let mut pod = pod(name, "Always", &[main]);
    pod["spec"]["securityContext"] = json!({"runAsUser": 1000});
    pod["spec"]["volumes"] = json!([
        {"name": "s", "secret": {"secretName": "hidden"}},
        {"name": "p", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}}, {"secret": {"name": "hidden"}},
        ]}},
        {"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]);
    pod
}

/// Every file and directory below a path on the same disk.
fn on_disk(root: &Path) -> Vec<PathBuf> {
    let device = fs::metadata(root).expect("it is there").dev();
    let (mut found, mut ahead) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                ahead.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// The names of the files on disk that contain the secret.
fn holders(root: &Path) -> Vec<String> {
    let files = on_disk(root).into_iter().filter(|path| path.is_file() && !path.is_symlink());
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes())
    };
    let mut names: Vec<String> =
        files.filter(holds).filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

fn open_to_others(root: &Path, runtime: Runtime) -> Vec<PathBuf> {
    let wide = |path: &Path| fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
    let places =
        ["", "store", "pki", "kubelet", "kubelet/pods", "runtime", "runtime/containers", "runtime/layers"];
    let places = places.iter().map(|place| root.join(place));
    let store =
        fs::read_dir(root.join("store")).expect("there is a store").flatten().map(|entry| entry.path());
    let records = on_disk(&root.join("runtime"));
    let records = records.into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ["record.json", "process.json", "config.json", "images.json"].contains(&name.as_ref())
    });
    let all = places.chain(store).chain(records);
    // Nothing opens the native runtime's folder if it is not in use.
    all.filter(|path| runtime == Runtime::Native || !path.starts_with(root.join("runtime")))
        .filter(|path| wide(path))
        .collect()
}

/// Returns true if another user of the machine can run a program of an image, or read a key.
fn reaches(root: &Path) -> bool {
    let program = on_disk(&root.join("runtime")).into_iter().find(|path| path.ends_with("bin/busybox"));
    let program = program.into_iter().map(|program| (program, vec!["true".to_owned()]));
    let read = ["pki/ca.key", "store/witness", "admin.kubeconfig"]
        .iter()
        .map(|file| (PathBuf::from("/bin/cat"), vec![root.join(file).display().to_string()]));
    program.chain(read).any(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments).uid(UNPRIVILEGED).gid(UNPRIVILEGED).current_dir("/");
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        ended.is_ok_and(|status| status.success())
    })
}

fn widen(root: &Path) {
    for path in on_disk(root).iter().map(PathBuf::as_path).chain([root]) {
        let Ok(metadata) = fs::symlink_metadata(path) else { continue };
        let wide = if metadata.is_dir() { 0o755 } else { 0o644 };
        let ours =
            !path.starts_with(root.join("runtime/layers")) && !path.to_string_lossy().contains("/upper");
        if (metadata.is_dir() || metadata.is_file()) && ours {
            let mode = metadata.permissions().mode() | wide;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it can be widened");
        }
    }
}

/// The types of file systems mounted below a path.
fn mounted(root: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string("/proc/self/mounts").expect("mounts are told");
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    });
    let mut found: Vec<(String, String)> =
        lines.filter(|(place, _)| place.starts_with(&root.display().to_string())).collect();
    found.sort();
    found
}

fn other_users_find_nothing(runtime: Runtime) {
    let mut node = Node::start("hidden", runtime);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hidden"}, "stringData": {"token": VALUE},
    });
    node.client().post("/api/v1/namespaces/default/secrets", &secret).expect_status(201);
    node.create(&knowing("knowing"));
    eventually("the pod runs", || condition(&node.pod("knowing"), "Ready") == "True");
    eventually("it reads and cannot write", || node.log("knowing", "main") == format!("1 {VALUE}\n"));
    let root = node.directory.path().to_owned();
    let uid = node.pod("knowing")["metadata"]["uid"].as_str().expect("it has a uid").to_owned();
    let volumes = root.join("kubelet/pods").join(&uid).join("volumes");
    let places = mounted(&volumes);
    let kinds: Vec<&str> = places.iter().map(|(_, kind)| kind.as_str()).collect();
    // With the pod's own token, which admission adds.
    assert_eq!(kinds, ["tmpfs"; 4], "{places:?}");
    // The store holds the object; there the value is in base64.
    let expected: &[&str] = if runtime == Runtime::Native { &["process.json"] } else { &[] };
    assert_eq!(holders(&root), expected);
    assert_eq!(open_to_others(&root, runtime), Vec::<PathBuf>::new());
    let messages = node.server.messages();
    assert!(!messages.contains(VALUE) && !messages.contains("eyJhbGciOi"), "a secret or a token is logged");

    widen(&root);
    node.replace();
    assert_eq!(mounted(&volumes), places, "volumes outlive the kubelet");
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].clone();
    eventually("the pod is found again", || condition(&node.pod("knowing"), "Ready") == "True");
    assert_eq!(restarts(&node.pod("knowing")), 0);
    eventually("what was open is narrowed", || open_to_others(&root, runtime).is_empty());
    assert!(!reaches(&root));

    let limits = fs::read_to_string(format!("/proc/{}/limits", node.server.process_id())).expect("limits");
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).expect("there is one");
    assert_eq!(cores.split_whitespace().nth(4), Some("0"), "{cores}");
    node.end();
    assert_eq!(holders(&root), Vec::<String>::new(), "nothing of it is left");
}

on_every_runtime! {
    other_users_find_nothing
}
