//! Other authentication: front proxies, certificates and flags.

use std::time::SystemTime;

use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use corten_testkit::{DataDirectory, Identity, Request, Server};
use serde_json::{Value, json};

fn pki_file(server: &Server, name: &str) -> String {
    std::fs::read_to_string(server.directory().path().join("pki").join(name)).expect("a server has key files")
}

fn leaf(authority: &Authority, name: &str, group: Option<&str>) -> (String, String) {
    let request = LeafRequest {
        common_name: name.to_owned(),
        organization: group.map(str::to_owned),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let leaf = authority.issue(&request, SystemTime::now()).expect("an authority issues");
    (leaf.cert_pem, leaf.key_pem)
}

#[test]
fn front_proxies_speak_for_others() {
    let server = Server::start();
    let pki = server.directory().path().join("pki");
    let now = SystemTime::now();
    let proxies = Authority::load_or_create(&pki, "front-proxy-ca", "front-proxy-ca", now).unwrap();
    let clients = Authority::load_or_create(&pki, "ca", "kubernetes", now).unwrap();
    let who = |authority: &Authority, name: &str, headers: &[(&str, &str)]| {
        let (cert_pem, key_pem) = leaf(authority, name, None);
        let client = server.client_as(Identity::Certificate { cert_pem: &cert_pem, key_pem: &key_pem });
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = Request::new("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews").json(&body);
        client.send(&headers.iter().fold(request, |request, (name, value)| request.header(name, value)))
    };
    let root =
        [("X-Remote-User", "jane"), ("X-Remote-Group", "system:masters"), ("X-Remote-Extra-Scopes", "a")];
    let found = who(&proxies, "front-proxy-client", &root).expect(201);
    let info = &found["status"]["userInfo"];
    assert_eq!(info["username"], "jane");
    assert_eq!(info["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(info["extra"], json!({"scopes": ["a"]}));
    assert!(found["metadata"]["creationTimestamp"].is_string());
    who(&proxies, "front-proxy-client", &[]).expect_failure(401, "Unauthorized");
    who(&proxies, "other", &root).expect_failure(401, "Unauthorized");
    // A client certificate cannot authenticate another user, whatever its headers say.
    let message = who(&clients, "front-proxy-client", &[("X-Remote-User", "root")]);
    assert!(
        message.status == 403 || message.json()["status"]["userInfo"]["username"] == "front-proxy-client"
    );
}

#[test]
fn a_certificates_user_carries_its_fingerprint() {
    let server = Server::start();
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {"labels": {"a": "b"}}});
    let request = Request::new("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews").json(&body);
    let found = server.client().send(&request).expect(201);
    assert_eq!(found["metadata"]["labels"], Value::Null);
    let id = &found["status"]["userInfo"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    let id = id.as_str().unwrap();
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
    // With a valid certificate a token beside it is ignored.
    let request = Request::new("GET", "/api").header("authorization", "Bearer nonsense");
    server.client().send(&request).expect(200);
}

#[test]
fn invalid_flags_are_refused() {
    for (flag, why) in [
        ("--service-account-max-token-expiration=1m", "must be between 1 hour and 2^32 seconds"),
        ("--service-account-issuer=", "should not be an empty string"),
        ("--token-auth-file=/nonexistent", "/nonexistent"),
        ("--requestheader-allowed-names=a,", "empty value"),
    ] {
        let failure = Server::try_start(&DataDirectory::new(), &[flag]).err();
        let messages = failure.unwrap_or_else(|| panic!("{flag} was accepted")).messages;
        assert!(messages.contains(why), "{flag}: {messages}");
    }
}

#[test]
fn extension_servers_get_the_front_proxy_ca() {
    let mut server = Server::start();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let found = server.client().get(path).expect(200);
    let data = &found["data"];
    assert_eq!(data["client-ca-file"], pki_file(&server, "ca.crt"));
    assert_eq!(data["requestheader-client-ca-file"], pki_file(&server, "front-proxy-ca.crt"));
    assert_eq!(data["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    assert_eq!(data["requestheader-username-headers"], "[\"X-Remote-User\"]");
    assert_eq!(data["requestheader-extra-headers-prefix"], "[\"X-Remote-Extra-\"]");
    server.restart();
    let again = server.client().get(path).expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], found["metadata"]["resourceVersion"], "written once");
}

#[test]
fn a_space_before_the_token_is_reported() {
    let server = Server::start();
    let anonymous = server.client_as(Identity::Anonymous);
    let request = Request::new("GET", "/api").header("authorization", "Bearer  abc");
    let answer = anonymous.send(&request);
    answer.expect_failure(403, "Forbidden");
    assert!(
        answer.header("warning").contains("contains extra space before the bearer token, and is ignored")
    );
}
