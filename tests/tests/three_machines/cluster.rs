//! The cluster: a server and two agents, each on a machine of its own, and four pods on each.

use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use corten_e2e::pods::{self, corten, with_image};
use corten_e2e::{Machine, Switch, eventually};
use corten_testkit::{Client, DataDirectory, ON_FULL_DISKS, Server, corten_binary};
use serde_json::{Value, json};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The address of the DNS service.
pub(crate) const DNS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 10));
const NODES: usize = 3;
/// The number of pods, and of groups.
pub(crate) const COUNT: usize = 12;
pub(crate) const GROUPS: usize = 4;

/// A node in a process of its own.
struct Agent {
    directory: DataDirectory,
    child: Child,
}

/// A running pod and its node.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) inside: Machine,
}

pub(crate) struct Cluster<'a> {
    pub(crate) switch: &'a Switch,
    pub(crate) nodes: &'a [Machine; NODES],
    /// On the same network, but not part of the cluster.
    pub(crate) outside: [Machine; 2],
    server: Mutex<Server>,
    client: Client,
    directory: DataDirectory,
    url: String,
    agents: Vec<Agent>,
    pub(crate) pods: Vec<Pod>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cluster<'_> {
    /// Runs a test on the first machine of a new cluster.
    pub(crate) fn with(test: impl FnOnce(&mut Cluster<'_>) + Send) {
        let switch = Switch::new();
        let nodes = [switch.machine(1), switch.machine(2), switch.machine(3)];
        let outside = [switch.machine(9), switch.machine(8)];
        nodes[0].run(|| {
            let directory = with_image();
            let server = serve(&directory, "nftables");
            let url = server.url().replace("127.0.0.1", "192.0.2.1");
            let (switch, nodes, client) = (&switch, &nodes, client(&server));
            let (server, agents, pods) = (Mutex::new(server), Vec::new(), Vec::new());
            let mut cluster =
                Cluster { switch, nodes, outside, server, client, directory, url, agents, pods };
            cluster.join();
            cluster.fill();
            test(&mut cluster);
            cluster.end();
        });
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn join(&mut self) {
        let token = corten(&["token", "create", "--ttl", "10m"], &self.directory);
        for number in 1..NODES {
            let directory = with_image();
            let child = self.agent(number, &directory, "nftables", &["--token", token.trim()]);
            self.agents.push(Agent { directory, child });
        }
        for number in 0..NODES {
            eventually(&format!("node {number} is ready"), || self.ready(number) == "True");
        }
        eventually("the default account", || {
            self.client().get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });
    }

    fn agent(&self, number: usize, directory: &DataDirectory, mode: &str, more: &[&str]) -> Child {
        let (url, name) = (&self.url, node_name(number));
        self.nodes[number].run(|| {
            Command::new(corten_binary())
                .args(["agent", "--server", url, "--node-name", &name, "--proxy-mode", mode])
                .args(["--pod-manifest-path", "", "--pod-network", "built-in", "--data-dir"])
                .arg(directory.path())
                .args(ON_FULL_DISKS)
                .args(more)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .expect("the agent's process starts")
        })
    }

    /// Kills an agent and starts another in its place, without a token.
    pub(crate) fn replace_agent(&mut self, number: usize, mode: &str) {
        self.agents[number - 1].child.kill().expect("it can be killed");
        self.agents[number - 1].child.wait().expect("it ends");
        let directory = self.agents[number - 1].directory.clone();
        self.agents[number - 1].child = self.agent(number, &directory, mode, &[]);
    }

    pub(crate) fn kill_server(&mut self) {
        self.server.get_mut().expect("no holder of the lock panics").kill_9();
    }

    /// Starts the killed server again.
    pub(crate) fn replace_server(&mut self, mode: &str) {
        let server = serve(&self.directory, mode);
        self.client = client(&server);
        self.server = Mutex::new(server);
    }

    /// Restarts all processes with another proxy mode; pods keep running.
    pub(crate) fn restart_all(&mut self, mode: &str) {
        self.kill_server();
        self.replace_server(mode);
        (1..NODES).for_each(|number| self.replace_agent(number, mode));
    }

    pub(crate) fn ready(&self, number: usize) -> String {
        let node = self.client().get(format!("/api/v1/nodes/{}", node_name(number)));
        match node.status {
            200 => pods::condition(&node.expect(200), "Ready"),
            _ => String::new(),
        }
    }

    /// The time of a node's last lease renewal.
    pub(crate) fn last_heard(&self, number: usize) -> Value {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let lease = self.client().get(format!("{lease}/{}", node_name(number))).expect(200);
        lease["spec"]["renewTime"].clone()
    }

    pub(crate) fn is_tainted(&self, number: usize) -> bool {
        let node = self.client().get(format!("/api/v1/nodes/{}", node_name(number))).expect(200);
        node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty())
    }

    /// Creates four pods on each node, each of a group, with a server in each.
    fn fill(&mut self) {
        let manifests: Vec<Value> = (0..COUNT).map(|n| pod(n, "exec sleep 3600")).collect();
        for manifest in &manifests {
            self.client().post(PODS, manifest).expect_status(201);
        }
        self.pods = (0..COUNT).map(|n| self.running(n)).collect();
    }

    /// A running pod, with a server in it.
    pub(crate) fn running(&self, n: usize) -> Pod {
        let name = format!("p{n}");
        let get = || self.client().get(format!("{PODS}/{name}")).expect(200);
        eventually(&format!("{name} runs"), || get()["status"]["phase"] == "Running");
        let address = get()["status"]["podIP"].as_str().and_then(|ip| ip.parse().ok()).expect("an address");
        let node = n % NODES;
        let directory = if node == 0 { &self.directory } else { &self.agents[node - 1].directory };
        let inside = pods::inside(directory.path(), &name, address);
        inside.serve(&name);
        Pod { name, inside }
    }

    /// Creates a Service.
    pub(crate) fn service(&self, name: &str, spec: &Value) -> Value {
        let service =
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        self.client().post(SERVICES, &service).expect(201)
    }

    /// Waits until exactly these pods answer at an address.
    #[track_caller]
    pub(crate) fn answer(&self, from: &Machine, to: SocketAddr, names: &[&str]) {
        eventually(&format!("{names:?} answer at {to}"), || {
            let answers = (0..8 * names.len()).map(|_| from.ask(to).map(|answer| answer.who));
            let Ok(answers) = answers.collect::<Result<std::collections::BTreeSet<String>, _>>() else {
                return false;
            };
            answers.iter().map(String::as_str).collect::<Vec<_>>() == names
        });
    }

    fn end(&self) {
        pods::delete_all_pods(self.client(), self.directory.path());
        assert!(pods::items(self.client()).is_empty(), "pods are left");
    }
}

/// The server, at the port that agents connect to; it has a machine of its own.
fn serve(directory: &DataDirectory, mode: &str) -> Server {
    let mut arguments = vec!["--node-name", "n1", "--bind-address", "0.0.0.0", "--secure-port", "6443"];
    arguments.extend(["--pod-manifest-path", "", "--pod-network", "built-in", "--proxy-mode", mode]);
    arguments.extend(["--node-monitor-grace-period", "12s"]);
    Server::try_start(directory, &arguments).unwrap_or_else(|failure| panic!("{failure}"))
}

fn client(server: &Server) -> Client {
    Client::new(server.credentials()).expect("the administrator is known")
}

pub(crate) fn node_name(number: usize) -> String {
    format!("n{}", number + 1)
}

/// The `n`th pod: its node and group follow from its number.
pub(crate) fn pod(n: usize, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{n}"), "labels": {"app": format!("p{n}"), "group": format!("g{}", n % GROUPS)}},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "nodeName": node_name(n % NODES),
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script],
            }],
        },
    })
}
