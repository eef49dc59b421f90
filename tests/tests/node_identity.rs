//! The node in the process of `corten server` acts as its own users, `system:node:NAME` and `system:kube-proxy`, with
//! their rights and no others.

use corten_e2e::eventually;
use corten_e2e::pods::{PODS, condition, container, import, pod};
use corten_testkit::{Client, DataDirectory, Server};
use serde_json::Value;

const EVENTS: &str = "/api/v1/namespaces/default/events";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/corten:node-network:server:own";

/// The managers of an object's fields.
fn managers(object: &Value) -> Vec<&str> {
    let fields = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    fields.filter_map(|entry| entry["manager"].as_str()).collect()
}

/// The first event about an object.
fn event(client: &Client, kind: &str, name: &str) -> Option<Value> {
    let events = client.get(EVENTS).expect(200);
    let about =
        |event: &&Value| event["involvedObject"]["kind"] == kind && event["involvedObject"]["name"] == name;
    events["items"].as_array().into_iter().flatten().find(about).cloned()
}

/// The node authorizer alone allows nodes what a kubelet does, and denies every other component's user. So whatever the
/// node writes here, it writes as `system:node:NAME`.
#[test]
fn the_node_works_with_the_rights_of_its_own_user_alone() {
    let directory = DataDirectory::new();
    import(directory.path());
    let name = format!("identity-{}", std::process::id());
    let arguments = [
        "--node-name",
        &name,
        "--authorization-mode",
        "Node",
        "--disable",
        "controller-manager,scheduler,dns,proxy",
        "--disable-admission-plugins",
        "ServiceAccount",
        "--kubelet-port",
        "0",
        "--healthz-port",
        "0",
        "--pod-network",
        "none",
        "--pod-manifest-path",
        "",
        "--kubelet-arg",
        "eviction-hard=memory.available<1Mi",
    ];
    let server = Server::try_start(&directory, &arguments).unwrap_or_else(|e| panic!("{e:?}"));
    let client = server.client();
    let node = format!("/api/v1/nodes/{name}");
    eventually("the node is ready", || {
        let node = client.get(&node);
        node.status == 200 && condition(&node.expect(200), "Ready") == "True"
    });
    assert!(managers(&client.get(&node).expect(200)).contains(&"kubelet"));

    let mut bound = pod("bound", "Never", &[container("main", "true")]);
    bound["spec"]["nodeName"] = name.as_str().into();
    client.post(PODS, &bound).expect_status(201);
    let path = format!("{PODS}/bound");
    eventually("the pod has run", || client.get(&path).expect(200)["status"]["phase"] == "Succeeded");
    assert!(managers(&client.get(&path).expect(200)).contains(&"kubelet"));

    for (kind, object) in [("Node", name.as_str()), ("Pod", "bound")] {
        eventually("there is an event", || event(client, kind, object).is_some());
        let event = event(client, kind, object).expect("it was there");
        assert_eq!(event["source"]["component"], "kubelet", "{event}");
        assert_eq!(managers(&event), ["kubelet"], "{event}");
    }
}

#[test]
fn only_the_own_node_of_a_server_reads_what_its_network_needs() {
    let directory = DataDirectory::new();
    let start = |more: &[&str]| {
        let arguments = [
            &["--node-name", "own", "--kubelet-port", "0", "--healthz-port", "0", "--pod-network", "none"],
            more,
        ];
        Server::try_start(&directory, &arguments.concat()).unwrap_or_else(|e| panic!("{e:?}"))
    };
    let server = start(&["--disable", "controller-manager,scheduler,proxy"]);
    let binding = server.client().get(BINDING).expect(200);
    assert_eq!(binding["roleRef"]["name"], "corten:node-network");
    let subjects: Vec<_> = binding["subjects"].as_array().into_iter().flatten().collect();
    assert_eq!(subjects.len(), 1, "{binding}");
    assert_eq!((&subjects[0]["kind"], &subjects[0]["name"]), (&"User".into(), &"system:node:own".into()));
    let all_nodes = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/corten:node-network";
    server.client().get(all_nodes).expect_status(404);
    drop(server);

    let server = start(&["--disable", "agent,controller-manager,scheduler,proxy"]);
    server.client().get(BINDING).expect_status(404);
}
