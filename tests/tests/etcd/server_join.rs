//! Machines that join as further servers, and attacks on the cluster's keys by that way.

use std::path::Path;
use std::process::Command;

use corten_testkit::{Client, DataDirectory, Identity, Request, Server, corten_binary};
use serde_json::{Value, json};

use crate::etcd_process::EtcdServer;
use crate::{MAPS, SECRETS, SERVICES, configuration, is_in_files, map, secret, start, text};

const JOIN: &str = "/corten.io/v1/server-join";
const DOMAIN: &str = "--cluster-domain=c.example";
const SERVICE_CIDR: &str = "--service-cluster-ip-range=10.77.0.0/24";

/// The output of a command of the binary.
fn corten(arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(corten_binary()).args(arguments).arg("--data-dir").arg(directory).output();
    let output = output.expect("corten starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The messages of a server that does not start.
fn refused(directory: &DataDirectory, arguments: &[&str]) -> String {
    match Server::try_start(directory, arguments) {
        Ok(_) => panic!("the server starts with {arguments:?}"),
        Err(failure) => failure.messages,
    }
}

fn is_empty(directory: &DataDirectory) -> bool {
    !directory.path().join("pki").exists() && !directory.path().join("joined.json").exists()
}

#[test]
fn a_server_joins_with_the_clusters_keys_and_settings() {
    let etcd = EtcdServer::start(&[]);
    let (one, two) = (DataDirectory::new(), DataDirectory::new());
    let url = etcd.url();
    let sealing = configuration(one.path(), "config.json", &["aesgcm/one", "identity"]);
    let first =
        ["--etcd-servers", &url, DOMAIN, SERVICE_CIDR, "--encryption-provider-config", text(&sealing)];
    let mut first = start(&one, &first);
    let token = corten(&["token", "create", "--server"], one.path());
    let joining = ["--etcd-servers", &url, "--server", first.url(), "--token", &token];

    // A flag that contradicts the cluster is refused, and leaves nothing behind.
    let other = DataDirectory::new();
    let said = refused(&other, &[&joining[..], &["--cluster-domain=other"]].concat());
    let expected =
        "error: --cluster-domain=other contradicts the cluster, which has c.example; remove the flag";
    assert!(said.contains(expected), "{said}");
    assert!(is_empty(&other));
    let said = refused(&other, &joining[2..]);
    assert!(said.contains("keeps the cluster in etcd; give the same --etcd-servers"), "{said}");

    let mut second = start(&two, &joining);
    for file in ["ca.key", "front-proxy-ca.key", "sa.key", "sa.pub"] {
        let read =
            |directory: &DataDirectory| std::fs::read(directory.path().join("pki").join(file)).expect(file);
        assert_eq!(read(&one), read(&two), "{file}");
    }
    let flags = second.client().get("/flagz").text();
    assert!(flags.contains("cluster-domain: c.example") && !flags.contains(&token), "{flags}");
    // Each administrator and each service account is known to both.
    let credentials = |server: &Server| corten_pki::Credentials {
        server: server.url().to_owned(),
        ..first.credentials().clone()
    };
    Client::new(&credentials(&second)).expect("a client").get(MAPS).expect(200);
    let account = "/api/v1/namespaces/default/serviceaccounts";
    first.client().post(account, &json!({"metadata": {"name": "robot"}})).expect(201);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let issued = first.client().post(format!("{account}/robot/token"), &request).expect(201);
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": issued["status"]["token"]},
    });
    let review = second.client().post("/apis/authentication.k8s.io/v1/tokenreviews", &review).expect(201);
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:robot");
    // Secrets of one are sealed with the same key by the other.
    second.client().post(SECRETS, &secret("sealed")).expect(201);
    assert_eq!(first.client().get(format!("{SECRETS}/sealed")).expect(200)["data"], secret("sealed")["data"]);
    assert!(is_in_files(etcd.directory(), "k8s:enc:aesgcm:v1:one:"));
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let service = second.client().post(SERVICES, &service).expect(201);
    assert!(service["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.77.0.")), "{service}");
    // A later start needs neither another server nor the token, and has the cluster's settings.
    first.kill_9();
    second.terminate();
    let second = start(&two, &["--etcd-servers", &url]);
    second.client().post(MAPS, &map("later", "1")).expect(201);
    assert!(second.client().get("/flagz").text().contains("service-cluster-ip-range: 10.77.0.0/24"));
    drop(second);
    let said = refused(&two, &["--etcd-servers", &url, "--cluster-domain=other"]);
    assert!(said.contains("contradicts the cluster"), "{said}");
    let elsewhere = EtcdServer::start(&[]);
    let said = refused(&two, &["--etcd-servers", &elsewhere.url()]);
    assert!(said.contains("does not hold the cluster that this server joined"), "{said}");
}

#[test]
fn a_server_with_an_embedded_store_has_no_further_servers() {
    let (one, two) = (DataDirectory::new(), DataDirectory::new());
    let first = start(&one, &[]);
    let token = corten(&["token", "create", "--server"], one.path());
    let said = refused(&two, &["--server", first.url(), "--token", &token]);
    assert!(said.contains("embedded store") && said.contains("corten datastore migrate"), "{said}");
    assert!(is_empty(&two));
    // A data directory of another cluster is never touched.
    let (three, etcd) = (DataDirectory::new(), EtcdServer::start(&[]));
    drop(start(&three, &[]));
    let before = std::fs::read(three.path().join("pki/ca.key")).expect("a key");
    let said = refused(&three, &["--server", first.url(), "--token", &token, "--etcd-servers", &etcd.url()]);
    assert!(said.contains("belongs to another cluster"), "{said}");
    assert_eq!(std::fs::read(three.path().join("pki/ca.key")).expect("a key"), before);
}

/// Sends a request to join, as any client on the network can.
fn attack(client: &Client, body: &[u8], bearer: Option<&str>) -> (u16, String) {
    let request = Request::new("POST", JOIN).body("application/json", body);
    let request = match bearer {
        Some(token) => request.header("Authorization", &format!("Bearer {token}")),
        None => request,
    };
    let response = client.send(&request);
    let said = response.text();
    assert!(!said.contains("PRIVATE KEY") && !said.contains("sealed"), "{said}");
    (response.status, said)
}

fn request(id: &str, expires: i64, proof: &str) -> Vec<u8> {
    let nonce = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let body: Value = json!({"version": 1, "id": id, "expires": expires, "nonce": nonce, "proof": proof});
    body.to_string().into_bytes()
}

#[test]
fn a_nodes_token_never_yields_a_key_of_the_cluster() {
    let etcd = EtcdServer::start(&[]);
    let (one, two) = (DataDirectory::new(), DataDirectory::new());
    let url = etcd.url();
    let first = start(&one, &["--etcd-servers", &url]);
    let node = corten(&["token", "create"], one.path());
    let bare = node.rsplit("::").next().expect("a token").to_owned();
    let stranger = first.client_as(Identity::Anonymous);
    // What the endpoint says without a token is public.
    let authority = stranger.get(JOIN).text();
    assert!(authority.contains("BEGIN CERTIFICATE") && !authority.contains("KEY"), "{authority}");
    // Neither the node's token nor an administrator's certificate counts.
    let far = 4_000_000_000;
    for (body, bearer) in [
        (request("00000000", far, &bare), Some(bare.as_str())),
        (request("00000000", far, "AAAA"), Some(bare.as_str())),
        (bare.clone().into_bytes(), Some(bare.as_str())),
        (request("../ca.key", far, ""), None),
        (vec![b'{'; 2000], None),
        (vec![b'['; 5000], None),
    ] {
        assert_ne!(attack(&stranger, &body, bearer).0, 200);
    }
    assert_eq!(attack(first.client(), &request("00000000", far, ""), None).0, 403);
    // What the node's token may do is to request a certificate of a node.
    let bearer = format!("Bearer {bare}");
    let as_node =
        |path: &str| stranger.send(&Request::new("GET", path).header("Authorization", &bearer)).status;
    for path in ["/api/v1/namespaces/kube-system/secrets", SECRETS, "/api/v1/secrets", "/flagz", MAPS] {
        assert_eq!(as_node(path), 403, "{path}");
    }
    let joining = ["--etcd-servers", &url, "--server", first.url()];
    let said = refused(&two, &[&joining[..], &["--token", &node]].concat());
    assert!(said.contains("this is a node's token"), "{said}");
    // A server token of another cluster, with this one's fingerprint, and an expired one.
    let token = corten(&["token", "create", "--server", "--ttl", "1s"], one.path());
    let foreign =
        token.rsplit_once('.').map(|(start, _)| format!("{start}.{}", "0".repeat(64))).expect("a token");
    let said = refused(&two, &[&joining[..], &["--token", &foreign]].concat());
    assert!(said.contains("the server token is not of this cluster"), "{said}");
    assert!(!first.messages().contains("handed the cluster's keys"), "{}", first.messages());
    corten_e2e::eventually("the token expires", || {
        let expired = refused(&two, &[&joining[..], &["--etcd-prefix", "/x", "--token", &token]].concat());
        expired.contains("the server token has expired")
    });
    assert!(is_empty(&two));
    // A server that poses as the cluster has another CA: nothing is sent to it.
    let poser = start(&DataDirectory::new(), &[]);
    let said = refused(&two, &["--etcd-servers", &url, "--server", poser.url(), "--token", &foreign]);
    assert!(said.contains("its CA has another fingerprint"), "{said}");
    assert!(!poser.messages().contains("refused a machine"), "{}", poser.messages());
    // Guesses are limited, and logged.
    while attack(&stranger, b"{}", None).0 != 429 {}
    assert!(first.messages().matches("refused a machine that joins as a server").count() >= 10);
}
