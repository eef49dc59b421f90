//! Three machines become one cluster: nodes join by a token, their pods reach each other and find each other by name.

use std::process::{Child, Command, Stdio};

use corten_e2e::pods::{corten, terminate_all, with_image};
use corten_e2e::{Machine, Switch, eventually};
use corten_testkit::{Client, DataDirectory, ON_FULL_DISKS, Server, corten_binary};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// A node in a process of its own.
struct Agent {
    /// Lasts as long as the agent.
    _directory: DataDirectory,
    child: Child,
}

impl Agent {
    /// Joins with a token.
    fn start(
        machine: &Machine,
        name: &'static str,
        directory: DataDirectory,
        url: &str,
        token: &str,
    ) -> Agent {
        let child = machine.run(|| {
            let mut command = Command::new(corten_binary());
            command.args(["agent", "--server", url, "--node-name", name, "--pod-manifest-path", ""]);
            command.args(["--token", token, "--pod-network", "built-in"]);
            command.args(ON_FULL_DISKS).arg("--data-dir").arg(directory.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the agent's process starts")
        });
        Agent { _directory: directory, child }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready(client: &Client, node: &str) -> String {
    let node = client.get(format!("/api/v1/nodes/{node}"));
    if node.status != 200 {
        return "missing".to_owned();
    }
    let node = node.expect(200);
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|c| c["type"] == "Ready").and_then(|c| c["status"].as_str());
    found.unwrap_or("unsaid").to_owned()
}

fn pod(name: &str, node: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
            }],
        },
    })
}

fn get(client: &Client, name: &str) -> Value {
    client.get(format!("{PODS}/{name}")).expect(200)
}

fn running(client: &Client, name: &str) -> String {
    eventually(&format!("{name} runs"), || get(client, name)["status"]["phase"] == "Running");
    get(client, name)["status"]["podIP"].as_str().expect("it has an address").to_owned()
}

/// The log of a pod until it terminated, from the API server.
fn log_of(client: &Client, name: &str, node: &str, script: &str) -> String {
    client.post(PODS, &pod(name, node, script)).expect_status(201);
    eventually(&format!("{name} has ended"), || {
        matches!(get(client, name)["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    });
    log(client, name)
}

/// From the kubelet of its node, which has a certificate of the cluster.
fn log(client: &Client, name: &str) -> String {
    let path = format!("{PODS}/{name}/log");
    eventually(&format!("the log of {name} can be read"), || client.get(&path).status == 200);
    String::from_utf8(client.get(&path).body).expect("logs are text")
}

#[test]
fn three_machines_become_one_cluster() {
    let switch = Switch::new();
    let machines = [switch.machine(1), switch.machine(2), switch.machine(3)];
    let [first, second, third] = &machines;
    first.run(|| {
        let directory = with_image();
        let arguments = [
            "--node-name",
            "n1",
            "--pod-network",
            "built-in",
            "--bind-address",
            "0.0.0.0",
            "--pod-manifest-path",
            "",
        ];
        let server = Server::try_start(&directory, &arguments).unwrap_or_else(|e| panic!("{e:?}"));
        let client = server.client();
        let url = server.url().replace("127.0.0.1", "192.0.2.1");
        let token = corten(&["token", "create", "--ttl", "10m", "--description", "for the test"], &directory);
        let token = token.trim();
        assert!(corten(&["token", "list"], &directory).contains("for the test"));
        let _second = Agent::start(second, "n2", with_image(), &url, token);
        let _third = Agent::start(third, "n3", with_image(), &url, token);
        for node in ["n1", "n2", "n3"] {
            eventually(&format!("{node} is ready"), || ready(client, node) == "True");
        }
        // The token is not needed any more.
        let id =
            token.rsplit("::").next().and_then(|bare| bare.split('.').next()).expect("a token has an id");
        assert!(corten(&["token", "delete", id], &directory).contains("deleted"));
        eventually("the default account", || {
            client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });

        pods_reach_each_other(client);
        terminate_all(client);
    });
}

fn pods_reach_each_other(client: &Client) {
    let serve = "echo hello from $(hostname) > /tmp/index.html; exec busybox httpd -f -p 8080 -h /tmp";
    client.post(PODS, &pod("web", "n2", serve)).expect_status(201);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    client.post(SERVICES, &service).expect_status(201);
    let address = running(client, "web");
    for (name, node) in [("from-1", "n1"), ("from-2", "n2"), ("from-3", "n3")] {
        let script = format!(
            "for i in $(busybox seq 100); do
                 busybox timeout 3 wget -q -O - http://{address}:8080/ && break; sleep 0.2; done
             for i in $(busybox seq 100); do busybox timeout 3 wget -q -O - http://web/ && break; sleep 0.2; done
             busybox nslookup web.default.svc.cluster.local"
        );
        let log = log_of(client, name, node, &script);
        assert_eq!(log.matches("hello from web").count(), 2, "directly and by its name, from {node}:\n{log}");
        assert!(log.contains("Name:\tweb.default.svc.cluster.local"), "from {node}:\n{log}");
    }
}
