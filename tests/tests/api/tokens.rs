//! Bearer tokens: their users, and the refusal of invalid ones.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use corten_api::json;
use corten_auth::authentication::{PublicKeys, SigningKey, Token};
use corten_pki::Sans;
use corten_testkit::{Client, DataDirectory, Identity, Request, Server};
use serde_json::{Value, json};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    since.as_secs().try_into().expect("the clock is right")
}

/// Creates a service account; returns its uid.
fn account(admin: &Client, name: &str) -> String {
    let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let made = admin.send(&Request::new("POST", ACCOUNTS).json(&body)).expect(201);
    made["metadata"]["uid"].as_str().expect("an object has a uid").to_owned()
}

fn token_request(admin: &Client, account: &str, spec: &Value) -> corten_testkit::Response {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    admin.send(&Request::new("POST", format!("{ACCOUNTS}/{account}/token")).json(&body))
}

#[track_caller]
fn token(admin: &Client, account: &str, spec: &Value) -> String {
    let made = token_request(admin, account, spec).expect(201);
    made["status"]["token"].as_str().expect("there is a token").to_owned()
}

fn review(admin: &Client, token: &str, audiences: &[&str]) -> Value {
    let spec = json!({"token": token, "audiences": audiences});
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let mut reviewed = admin.send(&Request::new("POST", path).json(&body)).expect(201);
    reviewed["status"].take()
}

/// Fails unless the token is refused with a reason, both in a review and as a credential.
#[track_caller]
fn refused(server: &Server, token: &str, why: &str) {
    let status = review(server.client(), token, &[]);
    assert_eq!(status["authenticated"], Value::Null, "{status}");
    assert_eq!(status["error"], why, "{status}");
    bearer(server, token).expect_failure(401, "Unauthorized");
}

fn bearer(server: &Server, token: &str) -> corten_testkit::Response {
    let header = format!("Bearer {token}");
    server.client_as(Identity::Anonymous).send(&Request::new("GET", "/api").header("authorization", &header))
}

fn signing_key(server: &Server) -> SigningKey {
    SigningKey::from_pem(&pki_file(server, "sa.key")).expect("a server has a good key")
}

fn pki_file(server: &Server, name: &str) -> String {
    std::fs::read_to_string(server.directory().path().join("pki").join(name)).expect("a server has key files")
}

fn sign(key: &SigningKey, claims: &Value) -> String {
    let claims = json::parse(claims.to_string().as_bytes()).expect("JSON is JSON");
    key.token(&claims).expect("a key signs")
}

fn claims(uid: &str) -> Value {
    json!({
        "aud": [ISSUER], "exp": now() + 3600, "iat": now(), "nbf": now(), "iss": ISSUER, "jti": "j",
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}},
        "sub": "system:serviceaccount:default:robot",
    })
}

fn with(claims: &Value, key: &str, value: Value) -> Value {
    let mut changed = claims.clone();
    changed[key] = value;
    changed
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    })
}

#[test]
fn a_service_account_gets_a_token_and_uses_it() {
    let server = Server::start();
    let admin = server.client();
    let uid = account(admin, "robot");
    let made = token_request(admin, "robot", &json!({})).expect(201);
    assert_eq!(made["kind"], "TokenRequest");
    assert_eq!(made["metadata"]["name"], "robot");
    assert_eq!(made["metadata"]["uid"], uid.as_str());
    assert_eq!(made["metadata"]["managedFields"][0]["subresource"], "token");
    assert_eq!(
        made["spec"],
        json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    let token = made["status"]["token"].as_str().unwrap();
    assert!(made["status"]["expirationTimestamp"].as_str().unwrap().ends_with('Z'));
    bearer(&server, token).expect(200);
    let status = review(admin, token, &[]);
    assert_eq!(status["authenticated"], true);
    assert_eq!(status["audiences"], json!([ISSUER]));
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot");
    assert_eq!(status["user"]["uid"], uid.as_str());
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(status["user"]["groups"], groups);
    let id = &status["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(id.as_str().unwrap().starts_with("JTI="), "{status}");
}

#[test]
fn others_can_verify_tokens_themselves() {
    let server = Server::start_with(&["--advertise-address", "192.0.2.7"]);
    let admin = server.client();
    account(admin, "robot");
    let token = token(admin, "robot", &json!({"audiences": ["vault"]}));
    let found = admin.get("/.well-known/openid-configuration");
    let configuration = found.expect(200);
    assert_eq!(found.header("cache-control"), "public, max-age=3600");
    assert_eq!(configuration["issuer"], ISSUER);
    // Pods request the keys, and 127.0.0.1 would be the pod itself.
    let outside = server.url().replace("127.0.0.1", "192.0.2.7");
    assert_eq!(configuration["jwks_uri"], format!("{outside}/openid/v1/jwks"));
    assert_eq!(configuration["id_token_signing_alg_values_supported"], json!(["ES256"]));
    let keys = admin.get("/openid/v1/jwks");
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    let key = keys.expect(200)["keys"][0].clone();
    assert_eq!((&key["kty"], &key["crv"], &key["alg"]), (&json!("EC"), &json!("P-256"), &json!("ES256")));
    let public = PublicKeys::from_pem(&pki_file(&server, "sa.pub")).unwrap();
    assert_eq!(key["kid"], public.iter().next().unwrap().id());
    assert!(Token::parse(&token).unwrap().verify(&public).is_ok());
}

#[test]
fn tokens_are_for_their_audience_only() {
    let server = Server::start();
    let admin = server.client();
    account(admin, "robot");
    let vault = token(admin, "robot", &json!({"audiences": ["vault", "other"]}));
    let why = format!(
        "[invalid bearer token, token audiences [\"vault\" \"other\"] is invalid for the target audiences [\"{ISSUER}\"]]"
    );
    refused(&server, &vault, &why);
    assert_eq!(review(admin, &vault, &["x", "vault"])["audiences"], json!(["vault"]));
    let own = token(admin, "robot", &json!({}));
    assert_eq!(review(admin, &own, &["vault"])["authenticated"], Value::Null);
}

#[test]
fn token_requests_are_validated() {
    let server = Server::start();
    let admin = server.client();
    account(admin, "robot");
    let refusal =
        |spec: Value, code, reason| token_request(admin, "robot", &spec).expect_failure(code, reason);
    let message = refusal(json!({"expirationSeconds": 599}), 422, "Invalid");
    assert_eq!(
        message,
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"
    );
    refusal(json!({"expirationSeconds": 4_294_967_297_i64}), 422, "Invalid");
    let bound =
        |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    assert_eq!(refusal(bound("Pod", "x"), 404, "NotFound"), "pods \"x\" not found");
    assert_eq!(refusal(bound("Secret", "x"), 404, "NotFound"), "secrets \"x\" not found");
    assert_eq!(refusal(bound("Node", "x"), 404, "NotFound"), "nodes \"x\" not found");
    let message = refusal(bound("ConfigMap", "x"), 400, "BadRequest");
    assert_eq!(message, "cannot bind token to object of type /v1, Kind=ConfigMap");
    admin.send(&Request::new("POST", PODS).json(&pod("p"))).expect(201);
    account(admin, "other");
    let message = token_request(admin, "other", &bound("Pod", "p")).expect_failure(400, "BadRequest");
    assert_eq!(
        message,
        "cannot bind token for serviceaccount \"other\" to pod running with different serviceaccount name."
    );
    let mut stale = bound("Pod", "p");
    stale["boundObjectRef"]["uid"] = "u".into();
    assert!(refusal(stale, 409, "Conflict").contains("does not match the UID in record"));
    let message = token_request(admin, "gone", &json!({})).expect_failure(404, "NotFound");
    assert_eq!(message, "serviceaccounts \"gone\" not found");
    let path = format!("{ACCOUNTS}/robot/token");
    let body = |metadata: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata});
    let send = |metadata| admin.send(&Request::new("POST", path.as_str()).json(&body(metadata)));
    let message = send(json!({"name": "b"})).expect_failure(422, "Invalid");
    assert!(message.contains("must match the service account name if specified"), "{message}");
    send(json!({"namespace": "kube-system"})).expect_failure(400, "BadRequest");
    send(json!({"uid": "u"})).expect_failure(409, "Conflict");
    admin.get(&path).expect_failure(405, "MethodNotAllowed");
}

#[test]
fn forged_expired_and_foreign_tokens_are_refused() {
    let server = Server::start();
    let uid = account(server.client(), "robot");
    let (key, good) = (signing_key(&server), claims(&uid));
    bearer(&server, &sign(&key, &good)).expect(200);
    let because = |why: &str| format!("[invalid bearer token, {why}]");
    let changed = |claim, value| sign(&key, &with(&good, claim, value));
    refused(&server, &changed("exp", json!(now() - 120)), &because("service account token has expired"));
    refused(&server, &changed("nbf", json!(now() + 120)), &because("service account token is not valid yet"));
    refused(
        &server,
        &changed("iat", json!(now() + 120)),
        &because("service account token is issued in the future"),
    );
    refused(&server, &changed("iss", json!("https://elsewhere")), "invalid bearer token");
    let other = json!({"namespace": "default", "serviceaccount": {"name": "robot", "uid": "u"}});
    let why = because(&format!("service account UID ({uid}) does not match claim (u)"));
    refused(&server, &changed("kubernetes.io", other), &why);
    let missing = json!({"namespace": "default", "serviceaccount": {"name": "missing", "uid": "u"}});
    refused(&server, &changed("kubernetes.io", missing), &because("serviceaccounts \"missing\" not found"));
    let elsewhere = DataDirectory::new();
    let stranger =
        corten_pki::ServerPki::load_or_create(elsewhere.path(), &Sans::default(), SystemTime::now());
    let stranger = SigningKey::from_pem(&stranger.unwrap().service_account_key_pem).unwrap();
    refused(&server, &sign(&stranger, &good), &because("invalid signature, no keys found"));
    let token = sign(&key, &good);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, payload) = signed.split_once('.').unwrap();
    let forged = because("go-jose/go-jose: error in cryptographic primitive");
    refused(&server, &format!("{header}.{payload}."), &forged);
    let (_, changed) = sign(&stranger, &with(&good, "jti", json!("k")))
        .split_once('.')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let payload = changed.split('.').next().unwrap();
    refused(&server, &format!("{header}.{payload}.{signature}"), &forged);
    for garbage in ["abc", "a.b.c", "..", "{}", "abcdef.0123456789abcdef"] {
        refused(&server, garbage, "invalid bearer token");
    }
}

#[test]
fn a_token_expires_with_the_object_it_is_bound_to() {
    let server = Server::start();
    let admin = server.client();
    account(admin, "robot");
    admin.send(&Request::new("POST", PODS).json(&pod("p"))).expect(201);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    admin.send(&Request::new("POST", SECRETS).json(&secret)).expect(201);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    admin.send(&Request::new("POST", "/api/v1/nodes").json(&node)).expect(201);
    let bound = |kind: &str, name: &str| {
        token(admin, "robot", &json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}))
    };
    let tokens = [
        (bound("Pod", "p"), format!("{PODS}/p?gracePeriodSeconds=0")),
        (bound("Secret", "s"), format!("{SECRETS}/s")),
        (bound("Node", "n"), "/api/v1/nodes/n".to_owned()),
    ];
    let user = review(admin, &tokens[0].0, &[])["user"].take();
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert!(user["extra"]["authentication.kubernetes.io/pod-uid"].is_array(), "{user}");
    let user = review(admin, &tokens[2].0, &[])["user"].take();
    assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!(["n"]));
    for (token, path) in &tokens {
        bearer(&server, token).expect(200);
        admin.delete(path).expect_status(200);
        refused(&server, token, "[invalid bearer token, service account token has been invalidated]");
    }
    admin.send(&Request::new("POST", PODS).json(&pod("p"))).expect(201);
    bearer(&server, &tokens[0].0).expect_failure(401, "Unauthorized");
}

#[test]
fn a_recreated_service_account_is_another_user() {
    let server = Server::start();
    let admin = server.client();
    let old = account(admin, "robot");
    let token = token(admin, "robot", &json!({}));
    bearer(&server, &token).expect(200);
    admin.delete(format!("{ACCOUNTS}/robot")).expect_status(200);
    refused(&server, &token, "[invalid bearer token, serviceaccounts \"robot\" not found]");
    let new = account(admin, "robot");
    let why = format!("[invalid bearer token, service account UID ({new}) does not match claim ({old})]");
    refused(&server, &token, &why);
}

#[test]
fn long_lived_tokens_are_good_while_their_secret_holds_them() {
    let server = Server::start();
    let admin = server.client();
    let uid = account(admin, "robot");
    let token = sign(
        &signing_key(&server),
        &json!({
            "iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:robot",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "s",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": uid,
        }),
    );
    refused(&server, &token, "[invalid bearer token, Token has been invalidated]");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"token": token}});
    let made = admin.send(&Request::new("POST", SECRETS).json(&secret)).expect(201);
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    bearer(&server, &token).expect(200);
    let mut watch = admin.watch(format!("{SECRETS}?watch=1&resourceVersion={revision}"));
    let noted = watch.expect("MODIFIED");
    let day = noted["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"].as_str().unwrap();
    assert_eq!(day.len(), 10, "{noted}");
    assert_eq!(noted["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
    let mark = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": "2024-01-01"}}});
    let path = format!("{SECRETS}/s");
    let patch = Request::new("PATCH", path.as_str()).body("application/merge-patch+json", mark.to_string());
    admin.send(&patch).expect(200);
    assert!(review(admin, &token, &[])["error"].as_str().unwrap().contains("has been marked invalid"));
    bearer(&server, &token).expect_failure(401, "Unauthorized");
    admin.delete(&path).expect_status(200);
    refused(&server, &token, "[invalid bearer token, Token has been invalidated]");
}

#[test]
fn bootstrap_tokens() {
    let server = Server::start();
    let admin = server.client();
    let token = "abcdef.0123456789abcdef";
    refused(&server, token, "invalid bearer token");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
        },
    });
    admin.send(&Request::new("POST", "/api/v1/namespaces/kube-system/secrets").json(&secret)).expect(201);
    bearer(&server, token).expect(200);
    let user = review(admin, token, &[])["user"].take();
    assert_eq!(user["username"], "system:bootstrap:abcdef");
    let groups =
        ["system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    refused(&server, "abcdef.0123456789abcdeX", "invalid bearer token");
    let expire = json!({"stringData": {"expiration": "2020-01-01T00:00:00Z"}}).to_string();
    let path = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef";
    admin.send(&Request::new("PATCH", path).body("application/merge-patch+json", expire)).expect(200);
    refused(&server, token, "invalid bearer token");
}

#[test]
fn flags_configure_authentication() {
    let directory = DataDirectory::new();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let tokens = file("tokens.csv", "secret-of-jane,jane,7,\"system:masters,devs\"\n");
    let config = file(
        "config.yaml",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n",
    );
    let arguments = [
        "--token-auth-file",
        &tokens,
        "--authentication-config",
        &config,
        "--enable-bootstrap-token-auth=false",
        "--service-account-issuer=https://one",
        "--service-account-issuer=https://two",
        "--service-account-max-token-expiration=2h",
    ];
    let server = Server::try_start(&directory, &arguments).unwrap_or_else(|failure| panic!("{failure}"));
    let anonymous = server.client_as(Identity::Anonymous);
    anonymous.get("/livez").expect_status(200);
    anonymous.get("/readyz").expect_failure(401, "Unauthorized");
    let jane = Request::new("GET", "/api/v1/namespaces").header("authorization", "Bearer secret-of-jane");
    anonymous.send(&jane).expect(200);
    // Browsers can only set protocols.
    let as_protocol =
        format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode("secret-of-jane"));
    let watch = "/api/v1/namespaces?watch=true";
    let mut events = anonymous.websocket_offering(watch, &format!("{as_protocol}, any"), "any");
    events.read_until(b"\n").expect("an event comes");
    let status = review(server.client(), "secret-of-jane", &[]);
    assert_eq!(
        status["user"],
        json!({"username": "jane", "uid": "7", "groups": ["system:masters", "devs", "system:authenticated"]})
    );
    assert_eq!(status["audiences"], json!(["https://one", "https://two"]));
    assert_eq!(review(server.client(), "secret-of-jane", &["other"])["error"], "invalid bearer token");
    account(server.client(), "robot");
    let made = token_request(server.client(), "robot", &json!({"expirationSeconds": 86_400}));
    assert!(
        made.header("warning").contains("requested expiration of 86400 seconds shortened to 7200 seconds")
    );
    let made = made.expect(201);
    assert_eq!(made["spec"]["expirationSeconds"], 7200);
    let token = made["status"]["token"].as_str().unwrap();
    assert_eq!(Token::parse(token).unwrap().issuer(), "https://one");
    bearer(&server, token).expect(200);
}
