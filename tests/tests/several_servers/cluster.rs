//! The machines: servers with their etcd members, agents, and one from which clients send requests.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use corten_e2e::pods::{self, corten, with_image};
use corten_e2e::{Machine, Switch, eventually};
use corten_pki::Credentials;
use corten_testkit::{Client, DataDirectory, ON_FULL_DISKS, Server, corten_binary};
use serde_json::{Value, json};

/// The number of servers, and of agents.
pub(crate) const COUNT: usize = 3;
const PODS: &str = "/api/v1/namespaces/default/pods";
const FIRST: &str = "https://192.0.2.1:6443";

/// A process of the cluster, which can be ended and started again.
pub(crate) struct Process {
    pub(crate) child: Child,
}

pub(crate) struct Cluster {
    pub(crate) switch: Switch,
    /// A server and an etcd member are on each.
    pub(crate) servers: Vec<Machine>,
    pub(crate) nodes: Vec<Machine>,
    /// The machine of clients.
    pub(crate) outside: Machine,
    pub(crate) processes: Processes,
    credentials: Vec<Credentials>,
    /// The network namespace of a pod on each node.
    pub(crate) pods: Vec<Machine>,
}

/// The processes, and what they need to start again.
pub(crate) struct Processes {
    pub(crate) etcd: Vec<Process>,
    pub(crate) servers: Vec<Server>,
    pub(crate) agents: Vec<Process>,
    etcd_data: DataDirectory,
    agent_data: Vec<DataDirectory>,
    token: String,
}

impl Process {
    pub(crate) fn kill(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot send {name}");
}

fn etcd(number: usize, machine: &Machine, data: &Path) -> Process {
    let url = |port: u16| format!("http://{}:{port}", machine.address);
    let all: Vec<String> = (0..COUNT).map(|n| format!("m{n}=http://192.0.2.{}:2380", n + 1)).collect();
    let child = machine.run(|| {
        Command::new(std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into()))
            .args(["--name", &format!("m{number}"), "--data-dir"])
            .arg(data.join(format!("m{number}")))
            .args(["--listen-client-urls", &url(2379), "--advertise-client-urls", &url(2379)])
            .args(["--listen-peer-urls", &url(2380), "--initial-advertise-peer-urls", &url(2380)])
            .args(["--initial-cluster", &all.join(","), "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd, which `cargo xtask prepare` installs")
    });
    Process { child }
}

/// A server: the first one, or one that joins it with a token.
fn server(machine: &Machine, directory: &DataDirectory, token: Option<&str>) -> Server {
    let address = machine.address.to_string();
    let members: Vec<String> = (1..=COUNT).map(|n| format!("http://192.0.2.{n}:2379")).collect();
    let members = members.join(",");
    machine.run(|| {
        let mut arguments = vec!["--disable=agent", "--bind-address=0.0.0.0", "--secure-port=6443"];
        arguments.extend(["--advertise-address", &address, "--etcd-servers", &members]);
        arguments.extend(token.into_iter().flat_map(|token| ["--server", FIRST, "--token", token]));
        Server::try_start(directory, &arguments).unwrap_or_else(|failure| panic!("{failure}"))
    })
}

fn agent(number: usize, machine: &Machine, directory: &DataDirectory, token: &str) -> Process {
    let child = machine.run(|| {
        Command::new(corten_binary())
            // It learns the other servers.
            .args(["agent", "--server", FIRST, "--node-name", &node_name(number)])
            .args(["--token", token, "--pod-manifest-path", "", "--pod-network", "built-in", "--data-dir"])
            .arg(directory.path())
            .args(ON_FULL_DISKS)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the agent's process starts")
    });
    Process { child }
}

fn node_name(number: usize) -> String {
    format!("n{number}")
}

impl Cluster {
    /// Runs a test with a cluster that serves.
    pub(crate) fn with(test: impl FnOnce(&mut Cluster)) {
        let switch = Switch::new();
        let machines = |first: u8| (first..).take(COUNT).map(|number| switch.machine(number)).collect();
        let (servers, nodes): (Vec<Machine>, Vec<Machine>) = (machines(1), machines(11));
        let outside = switch.machine(21);
        let etcd_data = DataDirectory::new();
        let etcd =
            servers.iter().enumerate().map(|(n, machine)| etcd(n, machine, etcd_data.path())).collect();
        let directories: Vec<DataDirectory> = (0..COUNT).map(|_| DataDirectory::new()).collect();
        let mut running = vec![server(&servers[0], &directories[0], None)];
        let token = |arguments: &[&str]| {
            let created =
                servers[0].run(|| corten(&[&["token", "create"], arguments].concat(), &directories[0]));
            created.trim().to_owned()
        };
        let joining = token(&["--server"]);
        for number in 1..COUNT {
            running.push(server(&servers[number], &directories[number], Some(&joining)));
        }
        let token = token(&["--ttl", "2h"]);
        let credentials = running.iter().zip(&servers).map(|(server, machine)| Credentials {
            server: format!("https://{}:6443", machine.address),
            ..server.credentials().clone()
        });
        let credentials = credentials.collect();
        let agent_data: Vec<DataDirectory> = (0..COUNT).map(|_| with_image()).collect();
        let agents = (0..COUNT).map(|n| agent(n, &nodes[n], &agent_data[n], &token)).collect();
        let processes = Processes { etcd, servers: running, agents, etcd_data, agent_data, token };
        let pods = Vec::new();
        let mut cluster = Cluster { switch, servers, nodes, outside, processes, credentials, pods };
        cluster.fill();
        test(&mut cluster);
        cluster.end();
    }

    pub(crate) fn restart_etcd(&mut self, number: usize) {
        let data = self.processes.etcd_data.path();
        self.processes.etcd[number] = etcd(number, &self.servers[number], data);
    }

    pub(crate) fn restart_server(&mut self, number: usize) {
        let server = &mut self.processes.servers[number];
        self.servers[number].run(|| server.restart());
    }

    pub(crate) fn restart_agent(&mut self, number: usize) {
        let (directory, token) = (&self.processes.agent_data[number], &self.processes.token);
        self.processes.agents[number] = agent(number, &self.nodes[number], directory, token);
    }

    /// The administrator's client of a server.
    pub(crate) fn client(&self, server: usize) -> Client {
        Client::new(&self.credentials[server]).expect("the administrator is known")
    }

    /// The servers that an agent has learned.
    pub(crate) fn learned(&self, agent: usize) -> Vec<String> {
        let path = self.processes.agent_data[agent].path().join("agent/servers.json");
        let text = std::fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Starts a pod on each node, with these letters before the node's number in its name.
    pub(crate) fn start_pods(&self, client: &Client, letters: &str) {
        self.outside.run(|| {
            let names: Vec<String> = (0..COUNT).map(|number| format!("{letters}{number}")).collect();
            for (number, name) in names.iter().enumerate() {
                client.post(PODS, &pod(name, number)).expect_status(201);
            }
            for name in names {
                let path = format!("{PODS}/{name}");
                eventually(&format!("{name} runs"), || {
                    client.get(&path).expect(200)["status"]["phase"] == "Running"
                });
            }
        });
    }

    /// Deletes such pods and waits until they are gone.
    pub(crate) fn delete_pods(&self, client: &Client, letters: &str) {
        self.outside.run(|| {
            let paths: Vec<String> = (0..COUNT).map(|number| format!("{PODS}/{letters}{number}")).collect();
            for path in &paths {
                client.delete(path).expect_status(200);
            }
            eventually("the pods are gone", || paths.iter().all(|path| client.get(path).status == 404));
        });
    }

    /// Starts the pods that serve all the time.
    fn fill(&mut self) {
        let client = self.client(0);
        self.outside.run(|| {
            eventually("the default account", || {
                client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
            });
        });
        self.start_pods(&client, "p");
        for number in 0..COUNT {
            let name = format!("p{number}");
            let pod = self.outside.run(|| client.get(format!("{PODS}/{name}")).expect(200));
            let address: IpAddr =
                pod["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok()).expect("an address");
            let inside = pods::inside(self.processes.agent_data[number].path(), &name, address);
            inside.serve(&name);
            self.pods.push(inside);
        }
    }

    /// Deletes the pods, for which the whole cluster must work.
    fn end(&self) {
        let client = self.client(0);
        self.outside.run(|| pods::terminate_all(&client));
    }
}

/// A pod of a node. It ends by itself some time after the test, should that fail.
fn pod(name: &str, node: usize) -> Value {
    let seconds = crate::seconds() + 900;
    let app = if name.starts_with('p') { "local" } else { name };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "nodeName": node_name(node),
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", format!("exec sleep {seconds}")],
            }],
        },
    })
}
