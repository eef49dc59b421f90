//! Real containers: what becomes of pods on a node of this machine, with the runtime that is built in and with
//! containerd. Nothing may be left of them in the end.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use corten_e2e::eventually;
use corten_testkit::{Client, Containerd, DataDirectory, Server, busybox_archive, corten_binary};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster with one real node and the image it needs.
struct Node {
    server: Server,
    directory: DataDirectory,
    name: String,
    containerd: Option<Containerd>,
    /// Of every pod that ever was.
    uids: Mutex<Vec<String>>,
}

/// What runs the containers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    Native,
    Containerd,
}

impl Node {
    fn start(name: &str, runtime: Runtime) -> Node {
        let directory = DataDirectory::new();
        let containerd = match runtime {
            Runtime::Native => None,
            Runtime::Containerd => Some(Containerd::start()),
        };
        let mut import = Command::new(corten_binary())
            .args(["image", "import", "--data-dir"])
            .arg(directory.path())
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("images can be imported");
        let mut input = import.stdin.take().expect("input is piped");
        input.write_all(&busybox_archive()).expect("the archive is read");
        drop(input);
        assert!(import.wait().expect("the import ends").success());
        let word = if containerd.is_some() { "containerd" } else { "native" };
        let name = format!("{name}-{word}-{}", std::process::id());
        let server = Node::serve(&directory, &name, containerd.as_ref());
        Node { server, directory, name, containerd, uids: Mutex::default() }
    }

    fn serve(directory: &DataDirectory, name: &str, containerd: Option<&Containerd>) -> Server {
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
        ];
        match &endpoint {
            Some(endpoint) => arguments.extend(["--container-runtime-endpoint", endpoint]),
            None => arguments.extend(["--pod-network", "none"]),
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

    fn client(&self) -> &Client {
        self.server.client()
    }

    /// The process dies and another takes its place.
    fn replace(&mut self) {
        self.server.kill_9();
        self.server = Node::serve(&self.directory, &self.name, self.containerd.as_ref());
    }

    fn create(&self, pod: &Value) {
        let made = self.client().post(PODS, pod).expect(201);
        let uid = made["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
        self.uids.lock().expect("nobody fails with it").push(uid);
    }

    fn pod(&self, name: &str) -> Value {
        self.client().get(format!("{PODS}/{name}")).expect(200)
    }

    fn log(&self, pod: &str, container: &str) -> String {
        let uid = self.pod(pod)["metadata"]["uid"].as_str().expect("pods have uids").to_owned();
        let path = format!("/var/log/pods/default_{pod}_{uid}/{container}/0.log");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
    }

    /// Whether any pod that ever was has a cgroup.
    fn has_cgroup(&self) -> bool {
        let uids = self.uids.lock().expect("nobody fails with it");
        uids.iter().any(|uid| cgroups(Path::new("/sys/fs/cgroup"), &format!("pod{uid}"), 4))
    }

    /// Deletes every pod; then nothing of any is left.
    fn end(&self) {
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
    /// A test that failed leaves no containers behind either.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for pod in items(self.server.client()) {
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                self.server.client().delete(format!("{PODS}/{name}?gracePeriodSeconds=1"));
            }
            std::thread::sleep(std::time::Duration::from_secs(4));
        }
    }
}

fn items(client: &Client) -> Vec<Value> {
    client.get(PODS).expect(200)["items"].as_array().cloned().unwrap_or_default()
}

/// Whether a cgroup of this name is below a folder.
fn cgroups(folder: &Path, name: &str, depth: u32) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !path.is_symlink());
    folders.any(|path| path.ends_with(name) || depth > 0 && cgroups(&path, name, depth - 1))
}

fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found =
        conditions.iter().find(|c| c["type"] == kind).and_then(|c| c["status"].as_str().map(str::to_owned));
    found.unwrap_or_default()
}

fn container(name: &str, script: &str) -> Value {
    json!({
        "name": name, "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
    })
}

fn pod(name: &str, policy: &str, containers: &[Value]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": containers},
    })
}

fn a_pod_runs_and_leaves_nothing(runtime: Runtime) {
    let node = Node::start("runs", runtime);
    let mut asked = pod(
        "job",
        "Never",
        &[container("main", "echo $WHO; cat /shared/x /cm/a; echo bye > /dev/termination-log")],
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "from cm"}});
    node.client().post("/api/v1/namespaces/default/configmaps", &config).expect_status(201);
    asked["spec"]["initContainers"] = json!([container("first", "echo made > /shared/x")]);
    asked["spec"]["volumes"] =
        json!([{"name": "w", "emptyDir": {}}, {"name": "c", "configMap": {"name": "cm"}}]);
    let mounts = json!([{"name": "w", "mountPath": "/shared"}, {"name": "c", "mountPath": "/cm"}]);
    asked["spec"]["initContainers"][0]["volumeMounts"] = mounts.clone();
    asked["spec"]["containers"][0]["volumeMounts"] = mounts;
    asked["spec"]["containers"][0]["env"] =
        json!([{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    node.create(&asked);
    eventually("the end of the pod", || node.pod("job")["status"]["phase"] == "Succeeded");
    assert_eq!(node.log("job", "main"), "job\nmade\nfrom cm\n");
    let state = &node.pod("job")["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&state["reason"], &state["message"]), (&json!("Completed"), &json!("bye\n")), "{state}");
    node.end();
}

fn what_goes_wrong_is_told(runtime: Runtime) {
    let node = Node::start("wrong", runtime);
    node.create(&pod("crash", "Always", &[container("main", "exit 3")]));
    let mut hungry = pod("hungry", "Never", &[container("main", "tail /dev/zero")]);
    hungry["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "16Mi"}});
    node.create(&hungry);
    let mut lacking = pod("lacking", "Always", &[container("main", "sleep 1000")]);
    lacking["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k"}}}]);
    node.create(&lacking);
    let mut absent = pod("absent", "Always", &[container("main", "true")]);
    absent["spec"]["containers"][0]["image"] = json!("absent:1");
    absent["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    node.create(&absent);
    let state = |name: &str| node.pod(name)["status"]["containerStatuses"][0]["state"].clone();
    eventually("the crash", || state("crash")["waiting"]["reason"] == "CrashLoopBackOff");
    eventually("the end for want of memory", || state("hungry")["terminated"]["reason"] == "OOMKilled");
    eventually("the secret that is missing", || {
        state("lacking")["waiting"]
            == json!({"reason": "CreateContainerConfigError", "message": "secret \"none\" not found"})
    });
    eventually("the image that is missing", || state("absent")["waiting"]["reason"] == "ErrImageNeverPull");
    node.end();
}

fn probes_decide_who_is_ready_and_who_lives(runtime: Runtime) {
    let node = Node::start("probes", runtime);
    let mut asked = pod("web", "Always", &[container("main", "touch /tmp/ok; sleep 1000")]);
    let probe =
        json!({"exec": {"command": ["test", "-e", "/tmp/ok"]}, "periodSeconds": 1, "failureThreshold": 1});
    asked["spec"]["containers"][0]["readinessProbe"] = probe.clone();
    asked["spec"]["containers"][0]["livenessProbe"] = json!({
        "exec": {"command": ["sh", "-c", "test -e /tmp/ok && rm /tmp/ok"]},
        "periodSeconds": 1, "initialDelaySeconds": 2, "failureThreshold": 1,
    });
    node.create(&asked);
    eventually("readiness", || condition(&node.pod("web"), "Ready") == "True");
    eventually("a restart", || {
        node.pod("web")["status"]["containerStatuses"][0]["restartCount"].as_i64() > Some(0)
    });
    node.end();
}

fn containers_outlive_the_process_that_started_them(runtime: Runtime) {
    let mut node = Node::start("outlive", runtime);
    for index in 0..5 {
        node.create(&pod(&format!("p{index}"), "Always", &[container("main", "sleep 100000")]));
    }
    let ready = |node: &Node| items(node.client()).iter().filter(|p| condition(p, "Ready") == "True").count();
    eventually("all run", || ready(&node) == 5);
    let ids = |node: &Node| -> Vec<Value> {
        let mut ids: Vec<_> = items(node.client())
            .iter()
            .map(|p| {
                let status = &p["status"]["containerStatuses"][0];
                json!([p["metadata"]["name"], status["containerID"], status["restartCount"]])
            })
            .collect();
        ids.sort_by_key(Value::to_string);
        ids
    };
    let before = ids(&node);
    node.replace();
    eventually("all run again", || ready(&node) == 5);
    assert_eq!(ids(&node), before, "none was restarted");
    node.end();
}

fn manifests_run_without_being_asked_for(runtime: Runtime) {
    let node = Node::start("static", runtime);
    let directory = node.directory.path().join("manifests");
    std::fs::create_dir(&directory).expect("a folder is made");
    let write = |script: &str| {
        let manifest = pod("web", "Always", &[container("main", script)]).to_string();
        std::fs::write(directory.join("web.json"), manifest).expect("a manifest is written");
    };
    let name = format!("web-{}", node.name);
    let path = format!("{PODS}/{name}");
    let shown = || Some(node.client().get(&path)).filter(|shown| shown.status == 200).map(|s| s.expect(200));
    let hash = |pod: &Value| pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].clone();
    let runs = || shown().filter(|pod| condition(pod, "Ready") == "True");

    write("echo first; sleep 100000");
    eventually("the mirror is ready", || runs().is_some());
    let first = runs().expect("it is ready");
    assert_eq!(first["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Node");
    let id = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();

    node.client().delete(&path);
    let again = || runs().filter(|pod| pod["metadata"]["uid"] != first["metadata"]["uid"]);
    eventually("the mirror is back", || again().is_some());
    assert_eq!(id(&again().expect("it is back")), id(&first), "the pod itself goes on");

    write("echo second; sleep 100000");
    eventually("another pod takes its place", || runs().is_some_and(|pod| hash(&pod) != hash(&first)));
    std::fs::remove_file(directory.join("web.json")).expect("the manifest is removed");
    eventually("the mirror is gone", || shown().is_none());
    node.end();
}

fn what_was_missing_comes(runtime: Runtime) {
    let node = Node::start("comes", runtime);
    let client = node.client();
    let mut lacking = pod("lacking", "Always", &[container("main", "cat /c/a; sleep 100000")]);
    lacking["spec"]["containers"][0]["env"] =
        json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    node.create(&lacking);
    let mut unmounted = pod("unmounted", "Always", &[container("main", "cat /c/a; sleep 100000")]);
    unmounted["spec"]["volumes"] = json!([{"name": "c", "configMap": {"name": "c"}}]);
    unmounted["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "c", "mountPath": "/c"}]);
    node.create(&unmounted);
    let mut hung = pod("hung", "Always", &[container("main", "sleep 100000")]);
    hung["spec"]["terminationGracePeriodSeconds"] = json!(2);
    hung["spec"]["containers"][0]["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["sleep", "100000"]}}});
    node.create(&hung);
    let reason =
        |name: &str| node.pod(name)["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    eventually("the secret is missed", || reason("lacking") == "CreateContainerConfigError");
    eventually("the volume is missed", || events(client, "unmounted").contains("configmap \"c\" not found"));
    eventually("the pod with a hook runs", || condition(&node.pod("hung"), "Ready") == "True");
    client.delete(format!("{PODS}/hung"));
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "eA=="}});
    client.post("/api/v1/namespaces/default/secrets", &secret).expect_status(201);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}});
    client.post("/api/v1/namespaces/default/configmaps", &config).expect_status(201);
    eventually("the secret came", || condition(&node.pod("lacking"), "Ready") == "True");
    eventually("the volume came", || condition(&node.pod("unmounted"), "Ready") == "True");
    eventually("the hook holds nobody up", || client.get(format!("{PODS}/hung")).status == 404);
    node.end();
}

/// Everything that was told about a pod.
fn events(client: &Client, pod: &str) -> String {
    let list = client.get("/api/v1/namespaces/default/events").expect(200);
    let about = list["items"].as_array().cloned().unwrap_or_default();
    let about = about.iter().filter(|event| event["involvedObject"]["name"] == pod);
    about.map(|event| format!("{}\n", event["message"].as_str().unwrap_or_default())).collect()
}

macro_rules! on_every_runtime {
    ($($test:ident)*) => {
        mod native {
            $(#[test] fn $test() { super::$test(super::Runtime::Native); })*
        }
        mod containerd {
            $(#[test] fn $test() { super::$test(super::Runtime::Containerd); })*
        }
    };
}

on_every_runtime! {
    a_pod_runs_and_leaves_nothing
    what_goes_wrong_is_told
    probes_decide_who_is_ready_and_who_lives
    containers_outlive_the_process_that_started_them
    manifests_run_without_being_asked_for
    what_was_missing_comes
}
