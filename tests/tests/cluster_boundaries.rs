//! Attacks from within the cluster: by nodes, by authors of Services, webhooks and
//! endpoints, and by machines that pretend to be the cluster.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_e2e::eventually;
use corten_e2e::pods::corten;
use corten_pki::{Authority, LeafRequest, LeafUsage, Sans, signing_request};
use corten_testkit::{Client, DataDirectory, Identity, Request, Server, corten_binary};
use serde_json::{Value, json};

const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A client with a node's credential.
fn node(server: &Server, name: &str) -> Client {
    let pki = server.directory().path().join("pki");
    let authority = Authority::load(&pki.join("ca.crt"), &pki.join("ca.key")).expect("an authority");
    let request = LeafRequest {
        common_name: format!("system:node:{name}"),
        organization: Some("system:nodes".to_owned()),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let own = authority.issue(&request, SystemTime::now()).expect("a certificate");
    server.client_as(Identity::Certificate { cert_pem: &own.cert_pem, key_pem: &own.key_pem })
}

fn request(name: &str, node: &str, hosts: &[&str]) -> Value {
    let sans = hosts.iter().fold(Sans::default(), |sans, host| sans.with_host(host).expect("a name"));
    let asked = signing_request(&format!("system:node:{node}"), "system:nodes", &sans).expect("a key");
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(asked.request_pem), "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["digital signature", "server auth"],
            // The server ignores what a client claims about itself.
            "extra": {"corten.dev/remote-address": ["10.96.0.1"]},
        },
    })
}

#[test]
fn a_node_is_not_certified_as_the_api_server_or_another_machine() {
    let server = Server::start_with(&["--disable=agent"]);
    let (client, evil) = (server.client(), node(&server, "evil"));
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "evil"}});
    evil.post("/api/v1/nodes", &object).expect_status(201);
    let claims = ["kubernetes.default.svc", "10.96.0.1", "127.0.0.1", "192.0.2.77"];
    let addresses: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"type": if claim.contains("svc") { "InternalDNS" } else { "InternalIP" }, "address": claim}))
        .collect();
    evil.patch("/api/v1/nodes/evil/status", "merge", &json!({"status": {"addresses": addresses}}))
        .expect_status(200);
    for (number, claim) in claims.iter().enumerate() {
        let made =
            evil.post(CSRS, &request(&format!("claim-{number}"), "evil", &["evil", claim])).expect(201);
        let seen = &made["spec"]["extra"]["corten.dev/remote-address"];
        assert_eq!(seen, &json!(["127.0.0.1"]), "what the server saw, not what was said");
    }
    // The node's own request is approved, which shows that the others were considered.
    evil.post(CSRS, &request("own", "evil", &["evil"])).expect_status(201);
    eventually("the node's own name is certified", || {
        client.get(format!("{CSRS}/own")).expect(200)["status"]["certificate"].is_string()
    });
    for (number, claim) in claims.iter().enumerate() {
        let csr = client.get(format!("{CSRS}/claim-{number}")).expect(200);
        assert_eq!(csr["status"], json!({}), "{claim}");
    }
    let routed = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "router"}, "spec": {"podCIDRs": ["192.0.2.1/32"]},
    });
    let refused = node(&server, "router").post("/api/v1/nodes", &routed).expect_failure(403, "Forbidden");
    assert!(refused.contains("is not allowed to set podCIDRs"), "{refused}");
}

#[test]
fn a_node_sees_addresses_and_labels_of_other_nodes_pods_alone() {
    let server = Server::start_with(&["--disable=agent"]);
    let (client, thief) = (server.client(), node(&server, "thief"));
    corten(&["token", "create", "--ttl", "10m"], server.directory());
    eventually("the default account", || {
        client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
    });
    for (name, node) in [("theirs", "other"), ("own", "thief")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}, "annotations": {"note": "PASSWORD"}},
            "spec": {"nodeName": node, "containers": [{
                "name": "c", "image": "i", "env": [{"name": "E", "value": "PASSWORD"}], "ports": [{"name": "web", "containerPort": 80}],
            }]},
        });
        client.post(PODS, &pod).expect_status(201);
    }
    let forms = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
    ];
    for path in [
        "/api/v1/pods",
        PODS,
        "/api/v1/pods?includeObject=Object",
        "/api/v1/pods?fieldSelector=spec.nodeName=other",
    ] {
        for form in forms {
            let answer = thief.send(&Request::new("GET", path).accept(form));
            answer.expect_status(200);
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(said.contains("theirs") && !said.contains("PASSWORD"), "{path} as {form}: {said}");
        }
    }
    let listed = thief.get(PODS).expect(200);
    let items = listed["items"].as_array().expect("items");
    let theirs = items.iter().find(|pod| pod["metadata"]["name"] == "theirs").expect("it is listed");
    assert_eq!(theirs["metadata"]["labels"]["app"], "theirs");
    assert_eq!(theirs["spec"]["containers"][0]["ports"][0]["name"], "web");
    let mut watch = thief.watch("/api/v1/pods?watch=true");
    for _ in 0..2 {
        let event = watch.expect("ADDED").to_string();
        assert!(!event.contains("PASSWORD"), "{event}");
    }
    client
        .patch(format!("{PODS}/theirs"), "merge", &json!({"metadata": {"labels": {"app": "new"}}}))
        .expect_status(200);
    let event = watch.expect("MODIFIED").to_string();
    assert!(event.contains("new") && !event.contains("PASSWORD"), "{event}");
    thief.get(format!("{PODS}/theirs")).expect_failure(403, "Forbidden");
    // Of the pods that it runs, it sees everything.
    let own = thief.get("/api/v1/pods?fieldSelector=spec.nodeName=thief").expect(200);
    assert_eq!(own["items"][0]["spec"]["containers"][0]["env"][0]["value"], "PASSWORD");
    assert!(client.get(PODS).text().contains("PASSWORD"), "an administrator sees everything");
}

#[test]
fn external_ips_can_be_denied() {
    let service = |addresses: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": [{"port": 80}], "externalIPs": addresses},
        })
    };
    let path = "/api/v1/namespaces/default/services";
    let server = Server::start_with(&["--disable=agent"]);
    server.client().post(path, &service(json!(["192.0.2.7"]))).expect_status(201);
    let server =
        Server::start_with(&["--disable=agent", "--enable-admission-plugins=DenyServiceExternalIPs"]);
    let client = server.client();
    let refused = client.post(path, &service(json!(["192.0.2.7"]))).expect_failure(403, "Forbidden");
    assert_eq!(refused, "services \"s\" is forbidden: Use of external IPs is denied by admission control");
    client.post(path, &service(json!([]))).expect_status(201);
    let more = json!({"spec": {"externalIPs": ["192.0.2.7"]}});
    client.patch(format!("{path}/s"), "merge", &more).expect_failure(403, "Forbidden");
}

#[test]
fn the_api_server_does_not_proxy_to_its_own_network() {
    let server = Server::start_with(&["--disable=agent"]);
    let client = server.client();
    eventually("the default account", || {
        client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
    });
    let port = client.address().port();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    client.post(PODS, &pod).expect_status(201);
    for ip in ["127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "fe80::1", "::7f00:1", "64:ff9b::7f00:1"] {
        let status = json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
        client.patch(format!("{PODS}/p/status"), "merge", &status).expect_status(200);
        let refused = client.get(format!("{PODS}/https:p:{port}/proxy/")).expect_failure(400, "BadRequest");
        assert_eq!(refused, "address not allowed", "{ip}");
    }
    // Nor to addresses in an endpoint slice.
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"name": "p", "port": 80}]}});
    client.post("/api/v1/namespaces/default/services", &service).expect_status(201);
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "ports": [{"name": "p", "port": port, "protocol": "TCP"}], "endpoints": [{"addresses": ["192.0.2.1"]}],
    });
    client.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).expect_status(201);
    let refused = client.get("/api/v1/namespaces/default/services/s/proxy/");
    refused.expect_failure(503, "ServiceUnavailable");
    assert!(refused.text().contains("no endpoints available for service"), "{}", refused.text());
    // The address of a node object.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    client.post("/api/v1/nodes", &node).expect_status(201);
    for address in ["127.0.0.1", "::ffff:127.0.0.1", "localhost"] {
        let kind = if address == "localhost" { "Hostname" } else { "InternalIP" };
        let status = json!({"status": {"addresses": [{"type": kind, "address": address}]}});
        client.patch("/api/v1/nodes/n/status", "merge", &status).expect_status(200);
        let refused =
            client.get(format!("/api/v1/nodes/https:n:{port}/proxy/")).expect_failure(400, "BadRequest");
        assert_eq!(refused, "address not allowed", "{address}");
    }
}

/// A process that is killed with the test.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_token_without_a_ca_hash_is_used_only_with_a_flag() {
    let directory = DataDirectory::new();
    let child = Command::new(corten_binary())
        .args(["agent", "--server", "https://192.0.2.1:6443", "--token", "abcdef.0123456789abcdef"])
        .args(["--node-ip", "192.0.2.9", "--node-name", "n", "--data-dir"])
        .arg(directory.path())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the agent's process starts");
    let mut agent = KilledOnDrop(child);
    eventually("the agent refuses the token", || agent.0.try_wait().expect("it can be waited for").is_some());
    let mut said = String::new();
    let mut stderr = agent.0.stderr.take().expect("it is read");
    stderr.read_to_string(&mut said).expect("it says why");
    let ended = agent.0.wait().expect("it has ended");
    assert!(!ended.success() && said.contains("--discovery-token-unsafe-skip-ca-verification"), "{said}");
}
