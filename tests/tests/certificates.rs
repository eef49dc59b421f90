//! Certificates of a running server: leaves and the CA are replaced without a restart.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_e2e::eventually;
use corten_pki::{Credentials, RolloverStage, parse_kubeconfig, pem_certificates};
use corten_testkit::{Client, Server, corten_binary};
use serde_json::{Value, json};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn certificate(data_dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(corten_binary())
        .arg("certificate")
        .args(arguments)
        .arg("--data-dir")
        .arg(data_dir)
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn kubeconfig(server: &Server) -> Credentials {
    let text = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    parse_kubeconfig(&text).expect("a good kubeconfig")
}

/// A client with a connection of its own.
fn connect(credentials: &Credentials) -> Client {
    Client::new(credentials).expect("good certificates")
}

/// A secret that only one writer gets to create: a request on a connection.
fn works(client: &Client, name: &str) {
    client.post(SECRETS, &json!({"metadata": {"name": name}})).expect(201);
}

fn data(client: &Client, namespace: &str, name: &str) -> Value {
    client.get(format!("/api/v1/namespaces/{namespace}/configmaps/{name}")).expect(200)["data"].clone()
}

#[test]
fn leaves_are_replaced_while_the_server_runs() {
    let server = Server::start();
    let data_dir = server.directory().path();
    let read = |name: &str| std::fs::read_to_string(data_dir.join("pki").join(name)).unwrap_or_default();
    let listed = certificate(data_dir, &["check"]).unwrap();
    for name in ["ca ", "front-proxy-ca ", "apiserver ", "admin ", "364 days left"] {
        assert!(listed.contains(name), "{name} in {listed}");
    }
    let (before, names) = (kubeconfig(&server), ["apiserver.crt", "admin.crt", "front-proxy-client.crt"]);
    let old = names.map(read);
    let mut watch = server.client().watch(format!("{SECRETS}?watch=true"));
    certificate(data_dir, &["rotate"]).unwrap();
    eventually("the kubeconfig has the new certificate", || kubeconfig(&server).cert_pem != before.cert_pem);
    for (name, old) in names.into_iter().zip(&old) {
        assert!(!read(name).is_empty() && read(name) != *old, "{name}");
    }
    works(&connect(&kubeconfig(&server)), "new");
    works(&connect(&before), "old");
    for name in ["new", "old"] {
        assert_eq!(watch.expect("ADDED")["metadata"]["name"], name, "the open watch goes on");
    }
    assert!(server.messages().contains("using new certificates"));
    let refused = certificate(data_dir, &["rotate", "ca"]).unwrap_err();
    assert!(refused.contains("possible values"), "{refused}");
}

#[test]
fn the_ca_is_replaced_and_the_old_one_is_not_trusted_any_more() {
    let server = Server::start_with(&["--disable=agent,dns,scheduler"]);
    let data_dir = server.directory().path();
    let old = kubeconfig(&server);
    let idle = connect(&old);
    works(&idle, "before");
    let replaced = certificate(data_dir, &["rotate-ca"]).unwrap();
    assert!(replaced.contains("is not trusted any more"), "{replaced}");
    assert_eq!(RolloverStage::of(&data_dir.join("pki")).unwrap(), RolloverStage::Settled);
    let new = kubeconfig(&server);
    assert_eq!(pem_certificates(&new.ca_pem).unwrap().len(), 1);
    assert_ne!(new.ca_pem, old.ca_pem);
    let client = connect(&new);
    works(&client, "after");
    // The old administrator's certificate is refused, also by a client that trusts the new server.
    let retired = Credentials { ca_pem: new.ca_pem.clone(), ..old.clone() };
    connect(&retired).get(SECRETS).expect_failure(401, "Unauthorized");
    assert!(std::panic::catch_unwind(|| connect(&old).get(SECRETS)).is_err(), "the server has another CA");
    // Every place that publishes CAs has the new one alone.
    eventually("kube-root-ca.crt is published", || {
        data(&client, "default", "kube-root-ca.crt")["ca.crt"] == new.ca_pem.as_str()
    });
    let info = data(&client, "kube-public", "cluster-info");
    let encoded = STANDARD.encode(&new.ca_pem);
    assert!(info["kubeconfig"].as_str().is_some_and(|text| text.contains(&encoded)), "{info}");
    let trusted = data(&client, "kube-system", "extension-apiserver-authentication");
    let bundle = trusted["client-ca-file"].as_str().expect("a bundle");
    assert_eq!(pem_certificates(bundle).unwrap(), pem_certificates(&new.ca_pem).unwrap());
    let mut server = server;
    server.restart();
    works(&connect(&kubeconfig(&server)), "restarted");
}
