//! Servers that run etcd members themselves, each on a machine of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use corten_e2e::{Machine, Switch, eventually};
use corten_pki::Credentials;
use corten_testkit::{Client, DataDirectory, Server, corten_binary};
use serde_json::{Value, json};

use crate::{MAPS, SERVICES, map};

const PORT: &str = "6443";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// A machine with a server.
struct Host<'a> {
    machine: &'a Machine,
    directory: DataDirectory,
    server: Server,
}

impl<'a> Host<'a> {
    fn start(machine: &'a Machine, more: &[&str]) -> Host<'a> {
        let directory = DataDirectory::new();
        let server = serve(machine, &directory, more);
        Host { machine, directory, server }
    }

    fn url(&self) -> String {
        format!("https://{}:{PORT}", self.machine.address)
    }

    /// The administrator's access to this server.
    fn access(&self) -> Access<'a> {
        Access { machine: self.machine, credentials: self.server.credentials().clone() }
    }

    fn with<T: Send>(&self, work: impl FnOnce(&Client) -> T + Send) -> T {
        self.access().with(work)
    }

    fn command(&self, arguments: &[&str]) -> (bool, String) {
        let directory = self.directory.clone();
        let output = self.machine.run(|| {
            let mut command = Command::new(corten_binary());
            command.args(arguments).arg("--data-dir").arg(directory.path()).output().expect("corten starts")
        });
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
    }

    fn members(&self) -> Vec<String> {
        let (succeeded, text) = self.command(&["etcd-member", "list"]);
        let rows = text.lines().skip(1).map(str::to_owned).collect();
        if succeeded { rows } else { Vec::new() }
    }

    fn restart(&mut self, more: &[&str]) {
        self.server.kill_9();
        self.server = serve(self.machine, &self.directory, more);
    }
}

/// The access to a server from its machine.
struct Access<'a> {
    machine: &'a Machine,
    credentials: Credentials,
}

impl Access<'_> {
    fn with<T: Send>(&self, work: impl FnOnce(&Client) -> T + Send) -> T {
        self.machine.run(|| work(&Client::new(&self.credentials).expect("a client")))
    }
}

fn serve(machine: &Machine, directory: &DataDirectory, more: &[&str]) -> Server {
    let arguments = [&["--bind-address", "0.0.0.0", "--secure-port", PORT], more].concat();
    machine.run(|| match Server::try_start(directory, &arguments) {
        Ok(server) => server,
        Err(failure) => panic!("{failure}"),
    })
}

fn is_in(directory: &Path, name: &str) -> bool {
    directory.join(name).exists()
}

#[test]
fn three_servers_run_three_members_and_survive_one() {
    let switch = Switch::new();
    let machines = [switch.machine(1), switch.machine(2), switch.machine(3)];
    let mut first = Host::start(&machines[0], &["--cluster-init"]);
    first.with(|client| client.post(MAPS, &map("early", "1")).expect(201));
    let (_, token) = first.command(&["token", "create", "--server"]);
    let url = first.url();
    let joining = ["--server", url.as_str(), "--token", token.as_str()];
    let mut second = Host::start(&machines[1], &joining);
    let third = Host::start(&machines[2], &joining);
    for host in [&first, &second, &third] {
        assert!(!is_in(host.directory.path(), "store"), "nothing is in an embedded store");
        host.with(|client| client.get(format!("{MAPS}/early")).expect(200));
        eventually("all servers are listed", || {
            let subsets = host.with(|client| client.get(ENDPOINTS).expect(200)["subsets"].take());
            subsets[0]["addresses"].as_array().is_some_and(|addresses| addresses.len() == 3)
        });
    }
    let members = third.members();
    assert_eq!(members.len(), 3, "{members:?}");
    assert!(members.iter().all(|row| row.contains("leader") || row.contains("follower")), "{members:?}");
    // Concurrent writers never get the same address or port.
    std::thread::scope(|scope| {
        for (number, host) in [&first, &second, &third].into_iter().enumerate() {
            let access = host.access();
            scope.spawn(move || access.with(|client| create_services(client, number)));
        }
    });
    let services = first.with(|client| client.get(SERVICES).expect(200)["items"].take());
    let services = services.as_array().cloned().unwrap_or_default();
    for field in ["/spec/clusterIP", "/spec/ports/0/nodePort"] {
        let values: BTreeSet<String> =
            services.iter().filter_map(|service| Some(service.pointer(field)?.to_string())).collect();
        assert_eq!(values.len(), services.len() - usize::from(field.contains("nodePort")), "{field}");
    }
    // etcd of a killed server ends with it; the others go on, and it comes back with its data.
    second.server.kill_9();
    third.with(|client| client.post(MAPS, &map("without-second", "1")).expect(201));
    second.restart(&[]);
    second.with(|client| client.get(format!("{MAPS}/without-second")).expect(200));
    // Defragmentation, alarms and removal.
    let (succeeded, text) = first.command(&["etcd-member", "defrag"]);
    assert!(succeeded && text.lines().count() == 3, "{text}");
    assert_eq!(first.command(&["etcd-member", "alarm", "--disarm"]), (true, String::new()));
    let name = |host: &Host<'_>| {
        let text = std::fs::read_to_string(host.directory.path().join("etcd/member.json")).expect("settings");
        let settings: Value = serde_json::from_str(&text).expect("JSON");
        settings["name"].as_str().expect("a name").to_owned()
    };
    let gone = name(&third);
    drop(third);
    let (succeeded, text) = first.command(&["etcd-member", "remove", &gone]);
    assert!(succeeded && text.contains("removed"), "{text}");
    assert_eq!(first.members().len(), 2);
    // The majority of two is lost with one. A reset makes the other the only member.
    first.with(|client| client.post(MAPS, &map("last", "1")).expect(201));
    second.server.kill_9();
    first.server.kill_9();
    let (succeeded, text) = first.command(&["server", "--cluster-reset", "--disable=agent"]);
    assert!(succeeded && text.contains("is the only one now"), "{text}");
    first.restart(&[]);
    first.with(|client| {
        client.get(format!("{MAPS}/last")).expect(200);
        client.post(MAPS, &map("after", "1")).expect(201);
    });
    assert_eq!(first.members().len(), 1);
}

fn create_services(client: &Client, number: usize) {
    for index in 0..10 {
        let service = json!({
            "metadata": {"name": format!("s-{number}-{index}")},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        });
        client.post(SERVICES, &service).expect(201);
    }
}

#[test]
fn a_cluster_moves_from_a_member_to_the_embedded_store() {
    let switch = Switch::new();
    let machine = switch.machine(1);
    let mut host = Host::start(&machine, &["--cluster-init"]);
    host.with(|client| client.post(MAPS, &map("moved", "1")).expect(201));
    host.server.terminate();
    let member = machine.run(|| {
        let mut command = Command::new(corten_binary());
        command.args(["etcd-member", "run", "--data-dir"]).arg(host.directory.path());
        command.spawn().expect("corten starts")
    });
    let mut member = Ended(member);
    let pki = host.directory.path().join("pki");
    let file = |name: &str| pki.join(name).display().to_string();
    let (ca, cert, key) =
        (file("etcd/ca.crt"), file("apiserver-etcd-client.crt"), file("apiserver-etcd-client.key"));
    let target = host.directory.path().display().to_string();
    let migration = machine.run(|| {
        let mut command = Command::new(corten_binary());
        command.args(["datastore", "migrate", "--from", "https://127.0.0.1:2379", "--to", &target]);
        command.args(["--from-cafile", &ca, "--from-certfile", &cert, "--from-keyfile", &key]);
        command.output().expect("corten starts")
    });
    assert!(migration.status.success(), "{}", String::from_utf8_lossy(&migration.stderr));
    member.end();
    std::fs::remove_dir_all(host.directory.path().join("etcd")).expect("the member is deleted");
    host.restart(&[]);
    host.with(|client| client.get(format!("{MAPS}/moved")).expect(200));
    assert!(!is_in(host.directory.path(), "etcd"));
}

/// A process that is killed at the end.
struct Ended(std::process::Child);

impl Ended {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.end();
    }
}
