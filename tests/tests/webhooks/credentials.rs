//! Credentials for webhooks: the kubeconfig of `--admission-control-config-file`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use corten_pki::{Authority, IssuedCert, LeafRequest, LeafUsage, Sans};
use corten_testkit::{Client, DataDirectory, Reply, Server, Webhook};
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, MUTATING, VALIDATING, allow, config_map, configure, hook};

/// Starts a server whose plugins for webhooks have a kubeconfig with these users.
fn start(data: &DataDirectory, users: &Value) -> Server {
    let kubeconfig = data.path().join("webhooks.kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "users": users});
    fs::write(&kubeconfig, config.to_string()).expect("the kubeconfig can be written");
    let file = configuration(data.path(), &kubeconfig);
    let flag = format!("--admission-control-config-file={}", file.display());
    Server::try_start(data, &[&flag]).unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn configuration(directory: &Path, kubeconfig: &Path) -> PathBuf {
    let plugin = |name: &str| {
        json!({"name": name, "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": kubeconfig,
        }})
    };
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [plugin("ValidatingAdmissionWebhook"), plugin("MutatingAdmissionWebhook")],
    });
    let path = directory.join("admission.yaml");
    fs::write(&path, config.to_string()).expect("the file can be written");
    path
}

/// The server of a webhook, `host:port`.
fn host_of(webhook: &Webhook) -> String {
    let config = webhook.client_config("/");
    let url = config["url"].as_str().expect("a URL");
    url.trim_start_matches("https://").trim_end_matches('/').to_owned()
}

fn create(client: &Client, name: &str) {
    client.post(CONFIG_MAPS, &config_map(name)).expect(201);
}

#[test]
fn each_server_gets_the_token_of_its_user() {
    let authenticated = Webhook::start(|review| Reply::Json(allow(review)));
    let other = Webhook::start(|review| Reply::Json(allow(review)));
    let data = DataDirectory::new();
    let token = data.path().join("token");
    fs::write(&token, "from-a-file\n").expect("the token can be written");
    let server = start(
        &data,
        &json!([
            {"name": host_of(&authenticated), "user": {"token": "match-with-port"}},
            {"name": "127.0.0.1", "user": {"token": "match-without-port"}},
            {"name": "*.localhost", "user": {"token": "prefix"}},
            {"name": "*", "user": {"tokenFile": "token", "as": "jane", "as-groups": ["a", "b"]}},
        ]),
    );
    let client = server.client();
    let hooks =
        [hook("a.example.com", &authenticated, &json!({})), hook("b.example.com", &other, &json!({}))];
    configure(client, MUTATING, "m", &hooks);
    configure(client, VALIDATING, "v", &hooks);
    create(client, "c");
    for (webhook, token) in [(&authenticated, "Bearer match-with-port"), (&other, "Bearer from-a-file")] {
        let received = webhook.received();
        assert_eq!(received.len(), 2, "one call of each plugin");
        for request in received {
            assert_eq!(request.header("authorization"), token);
            assert_eq!(request.header("user-agent"), "kube-apiserver-admission");
            assert_eq!(request.header("content-type"), "application/json");
        }
    }
    let last = other.received().pop().expect("a call");
    assert_eq!(last.header("impersonate-user"), "jane");
    assert_eq!(last.headers.iter().filter(|(name, _)| name == "impersonate-group").count(), 2);
}

/// An authority, and a certificate that it issued for a client.
fn client_of(directory: &Path, name: &str) -> (Authority, IssuedCert) {
    let now = SystemTime::now();
    let authority = Authority::load_or_create(directory, name, name, now).expect("an authority");
    let request = LeafRequest {
        common_name: "kube-apiserver".into(),
        organization: None,
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let issued = authority.issue(&request, now).expect("a certificate");
    (authority, issued)
}

#[test]
fn a_webhook_that_demands_a_client_certificate_gets_it() {
    let data = DataDirectory::new();
    let (authority, certificate) = client_of(data.path(), "trusted");
    let (_, stranger) = client_of(data.path(), "stranger");
    let (chain, key) = (data.path().join("client.crt"), data.path().join("client.key"));
    certificate.write(&chain, &key).expect("the certificate can be written");
    let webhook = Webhook::start_for_clients_of(authority.pem(), |review| Reply::Json(allow(review)));
    let forbidding = Webhook::start_for_clients_of(authority.pem(), |review| Reply::Json(allow(review)));
    let anonymous = Webhook::start_for_clients_of(authority.pem(), |review| Reply::Json(allow(review)));
    let inline = |text: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let server = start(
        &data,
        &json!([
            {"name": host_of(&webhook), "user": {"client-certificate": chain, "client-key": key}},
            {"name": host_of(&forbidding), "user": {
                "client-certificate-data": inline(&stranger.cert_pem), "client-key-data": inline(&stranger.key_pem),
            }},
        ]),
    );
    let client = server.client();
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &json!({}))]);
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &json!({}))]);
    create(client, "c");
    assert_eq!(webhook.count(), 2);
    for (name, refusing) in [("stranger", &forbidding), ("anonymous", &anonymous)] {
        configure(client, VALIDATING, name, &[hook("r.example.com", refusing, &json!({}))]);
        let message = client.post(CONFIG_MAPS, &config_map("d")).expect_failure(500, "InternalError");
        assert!(
            message.contains("failed calling webhook \"r.example.com\": failed to call webhook: "),
            "{message}"
        );
        assert_eq!(refusing.count(), 0);
        client.delete(format!("{VALIDATING}/{name}")).expect(200);
    }
    // Both plugins fail as long as their credentials cannot be read.
    let lost = Webhook::start(|review| Reply::Json(allow(review)));
    drop(server);
    let server = start(&data, &json!([{"name": "*", "user": {"tokenFile": "/nonexistent/token"}}]));
    let client = server.client();
    for path in [VALIDATING, MUTATING] {
        client.delete(format!("{path}/{}", if path == MUTATING { "m" } else { "v" })).expect(200);
        configure(client, path, "lost", &[hook("l.example.com", &lost, &json!({}))]);
        let message = client.post(CONFIG_MAPS, &config_map("d")).expect_failure(500, "InternalError");
        let why = "could not get REST client: open /nonexistent/token: no such file or directory";
        assert!(message.ends_with(why), "{message}");
        client.delete(format!("{path}/lost")).expect(200);
    }
    assert_eq!(lost.count(), 0);
}

#[test]
fn a_server_does_not_start_with_a_kubeconfig_that_it_cannot_use() {
    let data = DataDirectory::new();
    let write = |text: &str| {
        let path = data.path().join("webhooks.kubeconfig");
        fs::write(&path, text).expect("the kubeconfig can be written");
        path
    };
    let paths = [
        data.path().join("missing"),
        PathBuf::from("relative"),
        write("{kind: Config, apiVersion: v1, users: [{name: a, user: {exec: {command: x}}}]}"),
    ];
    for path in paths {
        let file = configuration(data.path(), &path);
        let flag = format!("--admission-control-config-file={}", file.display());
        assert!(Server::try_start(&data, &[&flag]).is_err(), "{}", path.display());
    }
}
