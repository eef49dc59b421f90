//! Real containers: what becomes of pods on a node of this machine. Nothing may be left of them in the end.

use std::io::Write;
use std::process::{Command, Stdio};

use corten_e2e::eventually;
use corten_testkit::{Client, DataDirectory, Server, busybox_archive, corten_binary};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster with one real node and the image it needs.
struct Node {
    server: Server,
    directory: DataDirectory,
    name: String,
}

impl Node {
    fn start(name: &str) -> Node {
        let directory = DataDirectory::new();
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
        let name = format!("{name}-{}", std::process::id());
        let server = Node::serve(&directory, &name);
        Node { server, directory, name }
    }

    fn serve(directory: &DataDirectory, name: &str) -> Server {
        let server = Server::try_start(
            directory,
            &["--node-name", name, "--kubelet-port", "0", "--pod-network", "none"],
        )
        .unwrap_or_else(|e| panic!("{e:?}"));
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
        self.server = Node::serve(&self.directory, &self.name);
    }

    fn create(&self, pod: &Value) {
        self.client().post(PODS, pod).expect_status(201);
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
        for place in ["kubelet/pods", "runtime/sandboxes", "runtime/containers"] {
            eventually(&format!("nothing is left in {place}"), || empty(place));
        }
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

#[test]
fn a_pod_runs_and_leaves_nothing() {
    let node = Node::start("runs");
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

#[test]
fn what_goes_wrong_is_told() {
    let node = Node::start("wrong");
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

#[test]
fn probes_decide_who_is_ready_and_who_lives() {
    let node = Node::start("probes");
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

#[test]
fn containers_outlive_the_process_that_started_them() {
    let mut node = Node::start("outlive");
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
