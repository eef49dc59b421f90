//! A cluster with one real node of this machine, and the pods that tests run on it.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use corten_testkit::{Client, Containerd, DataDirectory, Request, Server, busybox_archive, corten_binary};
use serde_json::{Value, json};

use crate::{Machine, eventually};

/// The path of the tests' pods.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// Maximum time for pods to terminate.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster with one real node and the image it needs.
pub struct Node {
    pub server: Server,
    pub directory: DataDirectory,
    pub name: String,
    containerd: Option<Containerd>,
    /// Further flags of the kubelet.
    flags: Vec<String>,
    /// The uids of all pods that were ever created.
    uids: Mutex<Vec<String>>,
}

/// The container runtime of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    Native,
    Containerd,
}

/// Runs tests with every runtime: a module for each.
#[macro_export]
macro_rules! on_every_runtime {
    ($($test:ident)*) => {
        mod native {
            $(#[test] fn $test() { super::$test($crate::pods::Runtime::Native); })*
        }
        mod containerd {
            $(#[test] fn $test() { super::$test($crate::pods::Runtime::Containerd); })*
        }
    };
}

impl Node {
    pub fn start(name: &str, runtime: Runtime) -> Node {
        Node::start_with(name, runtime, &[])
    }

    /// With flags of the kubelet, as in `max-pods=3`.
    pub fn start_with(name: &str, runtime: Runtime, flags: &[&str]) -> Node {
        let directory = DataDirectory::new();
        let containerd = match runtime {
            Runtime::Native => None,
            Runtime::Containerd => Some(Containerd::start()),
        };
        import(directory.path());
        let word = if containerd.is_some() { "containerd" } else { "native" };
        let name = format!("{name}-{word}-{}", std::process::id());
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let server = Node::serve(&directory, &name, containerd.as_ref(), &flags);
        Node { server, directory, name, containerd, flags, uids: Mutex::default() }
    }

    fn serve(
        directory: &DataDirectory,
        name: &str,
        containerd: Option<&Containerd>,
        flags: &[String],
    ) -> Server {
        let manifests = directory.path().join("manifests").display().to_string();
        let endpoint = containerd.map(Containerd::endpoint);
        let mut arguments = vec![
            "--node-name",
            name,
            "--kubelet-port",
            "0",
            "--healthz-port",
            "0",
            "--pod-manifest-path",
            &manifests,
            // Independent of the disk usage of this machine.
            "--kubelet-arg",
            "eviction-hard=memory.available<1Mi",
        ];
        arguments.extend(flags.iter().flat_map(|flag| ["--kubelet-arg", flag]));
        match &endpoint {
            Some(endpoint) => arguments.extend(["--container-runtime-endpoint", endpoint]),
            None => arguments.extend(["--pod-network", "none", "--runtime-handler", "runc=/usr/sbin/runc"]),
        }
        let server = Server::try_start(directory, &arguments).unwrap_or_else(|e| panic!("{e:?}"));
        let client = server.client();
        eventually("the node is ready", || {
            let node = client.get(format!("/api/v1/nodes/{name}"));
            node.status == 200 && condition(&node.expect(200), "Ready") == "True"
        });
        eventually("the default account", || {
            client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });
        server
    }

    pub fn client(&self) -> &Client {
        self.server.client()
    }

    /// Kills the process and starts another.
    pub fn replace(&mut self) {
        self.server.kill_9();
        self.server = Node::serve(&self.directory, &self.name, self.containerd.as_ref(), &self.flags);
    }

    pub fn create(&self, pod: &Value) {
        let made = self.client().post(PODS, pod).expect(201);
        let uid = made["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
        self.uids.lock().expect("no holder of the lock panics").push(uid);
    }

    pub fn pod(&self, name: &str) -> Value {
        self.client().get(format!("{PODS}/{name}")).expect(200)
    }

    /// The node as the API server has it.
    pub fn object(&self) -> Value {
        self.client().get(format!("/api/v1/nodes/{}", self.name)).expect(200)
    }

    pub fn log(&self, pod: &str, container: &str) -> String {
        let uid = self.pod(pod)["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
        let path = format!("/var/log/pods/default_{pod}_{uid}/{container}/0.log");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
    }

    /// The number of times that a container was started.
    pub fn attempts(&self, pod: &str, container: &str) -> u64 {
        let uid = self.pod(pod)["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
        let logs = std::fs::read_dir(format!("/var/log/pods/default_{pod}_{uid}/{container}"));
        let attempt = |name: &str| name.strip_suffix(".log").and_then(|attempt| attempt.parse::<u64>().ok());
        let attempts = logs.into_iter().flatten().flatten();
        attempts.filter_map(|log| attempt(log.file_name().to_str()?)).max().map_or(0, |last| last + 1)
    }

    /// The uids of the pods that have a directory on the node.
    pub fn pods_on_disk(&self) -> Vec<String> {
        let pods = std::fs::read_dir(self.directory.path().join("kubelet/pods"));
        pods.into_iter().flatten().flatten().filter_map(|pod| pod.file_name().into_string().ok()).collect()
    }

    /// Returns true if any pod that was ever created has a cgroup.
    fn has_cgroup(&self) -> bool {
        let uids = self.uids.lock().expect("no holder of the lock panics");
        uids.iter().any(|uid| cgroups(Path::new("/sys/fs/cgroup"), &format!("pod{uid}"), 4))
    }

    /// Deletes every pod and checks that nothing is left.
    pub fn end(&self) {
        let client = self.client();
        for pod in items(client) {
            let name = pod["metadata"]["name"].as_str().expect("pods have names");
            client.delete(format!("{PODS}/{name}?gracePeriodSeconds=1"));
        }
        eventually("all pods are gone", || items(client).is_empty());
        let empty = |path: &str| {
            std::fs::read_dir(self.directory.path().join(path))
                .is_ok_and(|mut entries| entries.next().is_none())
        };
        let places = ["kubelet/pods", "runtime/sandboxes", "runtime/containers"];
        for place in places.iter().take(if self.containerd.is_some() { 1 } else { 3 }) {
            eventually(&format!("nothing is left in {place}"), || empty(place));
        }
        if let Some(containerd) = &self.containerd {
            assert_eq!(containerd.containers(), "", "containers are left");
        }
        eventually("no cgroup is left", || !self.has_cgroup());
        let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts can be read");
        assert!(!mounts.contains(&self.directory.path().display().to_string()), "mounts are left:\n{mounts}");
    }
}

impl Drop for Node {
    /// A failed test leaves no containers behind either.
    fn drop(&mut self) {
        if std::thread::panicking() {
            delete_all_pods(self.server.client(), self.directory.path());
        }
    }
}

/// The network namespace of a pod of the native runtime.
#[track_caller]
pub fn inside(directory: &Path, pod: &str, address: IpAddr) -> Machine {
    let folders = std::fs::read_dir(directory.join("runtime/sandboxes")).expect("there are sandboxes");
    let records = folders.filter_map(|folder| {
        let text = std::fs::read(folder.ok()?.path().join("record.json")).ok()?;
        serde_json::from_slice::<Value>(&text).ok()
    });
    let mut living = records.filter(|record| record["stopped"] == false);
    let found = living.find(|record| record["config"]["metadata"]["name"] == pod);
    let supervisor = found.and_then(|record| record["pid"].as_u64()).expect("the pod has a supervisor");
    Machine::at(&format!("/proc/{supervisor}/ns/net"), address)
}

/// A data directory that contains the image of the tests.
pub fn with_image() -> DataDirectory {
    let directory = DataDirectory::new();
    import(directory.path());
    directory
}

/// The output of `corten` for a data directory.
pub fn corten(arguments: &[&str], directory: &DataDirectory) -> String {
    let output = Command::new(corten_binary())
        .args(arguments)
        .arg("--data-dir")
        .arg(directory.path())
        .output()
        .expect("corten runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Imports the image of the tests into a data directory.
#[track_caller]
pub fn import(directory: &Path) {
    let mut import = Command::new(corten_binary())
        .args(["image", "import", "--data-dir"])
        .arg(directory)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("images can be imported");
    let mut input = import.stdin.take().expect("input is piped");
    input.write_all(&busybox_archive()).expect("the archive is read");
    drop(input);
    assert!(import.wait().expect("the import ends").success());
}

/// Deletes all pods and waits until nothing of them is left, or until the deadline. Never fails: it runs at the end of
/// tests that may already have failed, and a second panic would hide the first one.
pub fn delete_all_pods(client: &Client, directory: &Path) {
    let Some(present) = names(client) else { return };
    for name in present {
        let path = format!("{PODS}/{name}?gracePeriodSeconds=1");
        // If the server is gone nothing is deleted; the wait below ends by itself.
        let _ = client.try_send(&Request::new("DELETE", path));
    }
    let sandboxes = directory.join("runtime/sandboxes");
    let has_some = || std::fs::read_dir(&sandboxes).is_ok_and(|mut left| left.next().is_some());
    let has_pods = || names(client).is_some_and(|names| !names.is_empty());
    let started = Instant::now();
    while (has_pods() || has_some()) && started.elapsed() < TERMINATION_TIMEOUT {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Deletes all pods and waits until the API server has none.
#[track_caller]
pub fn terminate_all(client: &Client) {
    for name in names(client).unwrap_or_default() {
        client.delete(format!("{PODS}/{name}?gracePeriodSeconds=1"));
    }
    eventually("all pods are deleted", || items(client).is_empty());
}

/// The names of the pods, or `None` if the server does not answer.
fn names(client: &Client) -> Option<Vec<String>> {
    let answer = client.try_send(&Request::new("GET", PODS)).ok()?;
    let list: Value = serde_json::from_slice(&answer.body).ok()?;
    let items = list["items"].as_array()?;
    Some(items.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

pub fn items(client: &Client) -> Vec<Value> {
    client.get(PODS).expect(200)["items"].as_array().cloned().unwrap_or_default()
}

/// Returns true if a cgroup of this name is below a folder.
fn cgroups(folder: &Path, name: &str, depth: u32) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink());
    folders.any(|path| path.ends_with(name) || depth > 0 && cgroups(&path, name, depth - 1))
}

pub fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found =
        conditions.iter().find(|c| c["type"] == kind).and_then(|c| c["status"].as_str().map(str::to_owned));
    found.unwrap_or_default()
}

pub fn container(name: &str, script: &str) -> Value {
    json!({
        "name": name, "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
    })
}

pub fn pod(name: &str, policy: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": containers},
    })
}

/// All events of a pod or a node as text.
pub fn events(client: &Client, name: &str) -> String {
    events_of(client, name)
        .iter()
        .map(|event| format!("{}\n", event["message"].as_str().unwrap_or_default()))
        .collect()
}

/// The events of a pod or a node: types, reasons and messages.
pub fn reasons(client: &Client, name: &str) -> Vec<String> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let line = |event: &Value| ["type", "reason", "message"].map(|field| text(event, field)).join(" ");
    events_of(client, name).iter().map(line).collect()
}

fn events_of(client: &Client, name: &str) -> Vec<Value> {
    let list = client.get("/api/v1/namespaces/default/events").expect(200);
    let mut events = list["items"].as_array().cloned().unwrap_or_default();
    events.retain(|event| event["involvedObject"]["name"] == name);
    events
}
