//! Authentication, and the paths that all users may request.

use std::time::SystemTime;

use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use corten_testkit::{Identity, Request, Server};

fn client_leaf(user: &str, group: &str) -> LeafRequest {
    LeafRequest {
        common_name: user.to_owned(),
        organization: Some(group.to_owned()),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    }
}

#[test]
fn anonymous_users_may_read_health_and_version() {
    let server = Server::start();
    let anonymous = server.client_as(Identity::Anonymous);
    for path in ["/healthz", "/livez", "/readyz"] {
        let response = anonymous.get(path);
        response.expect_status(200);
        assert_eq!(response.text(), "ok");
    }
    let verbose = anonymous.get("/readyz?verbose");
    assert!(verbose.text().ends_with("readyz check passed\n"), "{}", verbose.text());
    let version = anonymous.get("/version").expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&"1".into(), &"37".into()));
}

#[test]
fn anonymous_users_are_refused_everything_else() {
    let server = Server::start();
    let anonymous = server.client_as(Identity::Anonymous);
    for path in ["/api", "/apis", "/metrics", "/openapi/v2", "/openapi/v3", "/", "/nowhere"] {
        anonymous.get(path).expect_failure(403, "Forbidden");
    }
    let message = anonymous.get("/api/v1/namespaces/default/secrets").expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "secrets is forbidden: User \"system:anonymous\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\""
    );
    anonymous.delete("/api/v1/namespaces/default").expect_failure(403, "Forbidden");
    let request = Request::new("GET", "/api").header("authorization", "Bearer nonsense");
    anonymous.send(&request).expect_failure(401, "Unauthorized");
}

#[test]
fn certificates_of_other_cas_are_refused() {
    let server = Server::start();
    let elsewhere = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let stranger = Authority::load_or_create(elsewhere.path(), "ca", "kubernetes-ca", now).unwrap();
    let leaf = stranger.issue(&client_leaf("admin", "system:masters"), now).unwrap();
    let identity = Identity::Certificate { cert_pem: &leaf.cert_pem, key_pem: &leaf.key_pem };
    let client = server.client_as(identity);
    for path in ["/api", "/api/v1/namespaces/default/pods"] {
        client.get(path).expect_failure(401, "Unauthorized");
    }
}

#[test]
fn users_without_roles_may_only_discover() {
    let server = Server::start();
    let pki = server.directory().path().join("pki");
    let now = SystemTime::now();
    let authority = Authority::load_or_create(&pki, "ca", "kubernetes-ca", now).unwrap();
    let leaf = authority.issue(&client_leaf("jane", "developers"), now).unwrap();
    let jane = server.client_as(Identity::Certificate { cert_pem: &leaf.cert_pem, key_pem: &leaf.key_pem });
    jane.get("/apis/apps/v1").expect(200);
    let message = jane.get("/api/v1/nodes").expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
}
