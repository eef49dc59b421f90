//! Other pod networks than the default one: dual-stack, and with CNI plugins.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use corten_e2e::pods::{self, PODS};
use corten_e2e::{Machine, PORT, Switch, eventually};
use corten_testkit::{Client, DataDirectory, Server};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The directory of Debian's CNI plugins.
const PLUGINS: &str = "/usr/lib/cni";

/// Runs a test on a node of its own, with further flags.
fn on_a_node(more: &[&str], test: impl FnOnce(&Client, &Path, &Machine) + Send) {
    let switch = Switch::new();
    let outside = switch.machine(9);
    switch.machine(1).run(|| {
        let directory = DataDirectory::new();
        pods::import(directory.path());
        let mut arguments = vec!["--node-name", "networks", "--pod-manifest-path", ""];
        arguments.extend(["--kubelet-arg", "eviction-hard=memory.available<1Mi"]);
        arguments.extend(more);
        let server = Server::try_start(&directory, &arguments).unwrap_or_else(|failure| panic!("{failure}"));
        let client = server.client();
        eventually("the default account", || {
            client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });
        test(client, directory.path(), &outside);
        pods::delete_all_pods(client, directory.path());
    });
}

/// Running pods with a server in each, and all their addresses.
fn running(client: &Client, directory: &Path, manifests: &[Value]) -> Vec<(Machine, Vec<IpAddr>)> {
    for manifest in manifests {
        client.post(PODS, manifest).expect_status(201);
    }
    let seen = manifests.iter().map(|manifest| {
        let name = manifest["metadata"]["name"].as_str().expect("pods have names");
        let get = || client.get(format!("{PODS}/{name}")).expect(200);
        eventually(&format!("{name} runs"), || get()["status"]["phase"] == "Running");
        let addresses = get()["status"]["podIPs"].as_array().cloned().unwrap_or_default();
        let addresses = addresses.iter().map(|ip| ip["ip"].as_str().and_then(|ip| ip.parse().ok()));
        let addresses: Vec<IpAddr> = addresses.map(|ip| ip.expect("an address")).collect();
        let inside = pods::inside(directory, name, addresses[0]);
        inside.serve(name);
        (inside, addresses)
    });
    seen.collect()
}

fn sleeping(name: &str) -> Value {
    pods::pod(name, "Never", &[pods::container("main", "exec sleep 600")])
}

#[test]
fn pods_and_services_have_addresses_of_both_families() {
    let services = "10.96.0.0/16,fd00:10:96::/112";
    let more = [
        "--service-cluster-ip-range",
        services,
        "--cluster-cidr",
        "10.244.0.0/16,fd00:10:244::/56",
        "--pod-network",
        "built-in",
        "--node-ip",
        "192.0.2.1,2001:db8::1",
    ];
    on_a_node(&more, |client, directory, _| {
        let pods = running(client, directory, &[sleeping("web"), sleeping("client")]);
        let host = &client.get(format!("{PODS}/web")).expect(200)["status"]["hostIPs"];
        assert_eq!(*host, json!([{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]));
        let [(_, served), (inside, own)] = pods.as_slice() else { panic!("two pods") };
        for addresses in [served, own] {
            let families: Vec<bool> = addresses.iter().map(IpAddr::is_ipv4).collect();
            assert_eq!(families, [true, false], "{addresses:?}");
        }
        let made = client.post(
            SERVICES,
            &json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
                "spec": {
                    "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": PORT}],
                    "ipFamilyPolicy": "RequireDualStack",
                },
            }),
        );
        let made = made.expect(201);
        for (n, ip) in made["spec"]["clusterIPs"].as_array().expect("addresses").iter().enumerate() {
            let ip: IpAddr = ip.as_str().and_then(|ip| ip.parse().ok()).expect("an address");
            eventually(&format!("the service answers at {ip}"), || {
                inside.ask(SocketAddr::new(ip, 80)).is_ok_and(|answer| answer.seen == own[n])
            });
            let answer = inside.ask(SocketAddr::new(served[n], PORT)).expect("pods reach each other");
            assert_eq!((answer.who.as_str(), answer.seen), ("web", own[n]));
            // Both families are queried at the servers of both families.
            for server in ["10.96.0.10", "fd00:10:96::a"] {
                let server = server.parse().expect("an address");
                let found = inside.resolve(server, "web.default.svc.cluster.local", ip.is_ipv6());
                assert_eq!(found.expect("names are answered"), [ip], "{server} is asked");
            }
        }
    });
}

#[test]
fn pods_are_connected_by_plugins_where_some_are_configured() {
    let folder = tempfile::tempdir().expect("a folder");
    let leases = folder.path().join("leases");
    let network = json!({
        "name": "test", "cniVersion": "1.0.0",
        "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
                "type": "host-local", "dataDir": leases, "routes": [{"dst": "0.0.0.0/0"}],
                "ranges": [[{"subnet": "10.9.0.0/24"}]],
            }},
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    });
    let configured = folder.path().join("net.d");
    std::fs::create_dir(&configured).expect("a folder");
    std::fs::write(configured.join("10-test.conflist"), network.to_string()).expect("a file");
    let configured = configured.display().to_string();
    on_a_node(&["--cni-conf-dir", &configured, "--cni-bin-dir", PLUGINS], |client, directory, outside| {
        let mut web = sleeping("web");
        web["spec"]["containers"][0]["ports"] = json!([{"containerPort": PORT, "hostPort": 8888}]);
        let pods = running(client, directory, &[web, sleeping("client")]);
        let [(_, served), (inside, own)] = pods.as_slice() else { panic!("two pods") };
        assert!(served[0].to_string().starts_with("10.9.0."), "{served:?}");
        let answer = inside.ask(SocketAddr::new(served[0], PORT)).expect("pods reach each other");
        assert_eq!((answer.who.as_str(), answer.seen), ("web", own[0]));
        let host_port = SocketAddr::from(([192, 0, 2, 1], 8888));
        assert_eq!(outside.ask(host_port).expect("the host port leads to the pod").who, "web");
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {
                "selector": {"app": "web"}, "clusterIP": "10.96.3.7", "ports": [{"port": 80, "targetPort": PORT}],
            },
        });
        client.post(SERVICES, &service).expect_status(201);
        let name = "web.default.svc.cluster.local";
        let dns = IpAddr::from([10, 96, 0, 10]);
        eventually("the service answers by its name", || {
            let found = inside.resolve(dns, name, false).ok().and_then(|found| found.first().copied());
            found
                .is_some_and(|ip| inside.ask(SocketAddr::new(ip, 80)).is_ok_and(|answer| answer.who == "web"))
        });
        pods::delete_all_pods(client, directory);
        assert!(outside.ask(host_port).is_err(), "the host port is closed");
        let left = std::fs::read_dir(leases.join("test")).expect("there were leases");
        let left: Vec<_> = left.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        assert!(!left.iter().any(|name| name.starts_with("10.9.")), "addresses were given back: {left:?}");
    });
}
