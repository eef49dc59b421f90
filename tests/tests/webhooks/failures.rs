//! Webhooks that are dead, slow, lying or send too much: the request fails as upstream's does, or goes on if the webhook's
//! failures are ignored; nothing is stored by halves and no other request waits.

use corten_e2e::eventually;
use corten_testkit::{Reply, Server, Webhook};
use serde_json::json;

use crate::{CONFIG_MAPS, MUTATING, VALIDATING, allow, config_map, configure, hook, respond};

#[test]
fn unusable_answers_fail_the_request_or_are_ignored() {
    let server = Server::start();
    let client = server.client();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: Vec<(&str, Reply, &str)> = vec![
        ("status", Reply::Status(500, "broken".into()), "an error on the server (\"broken\") has prevented"),
        ("missing", Reply::Status(404, String::new()), "the server could not find the requested resource"),
        ("moved", Reply::Status(302, String::new()), "the server responded with the status code 302"),
        ("text", Reply::Bytes(b"hello".to_vec()), "failed to call webhook: "),
        ("deep", Reply::Bytes(deep.into_bytes()), "failed to call webhook: "),
        ("empty", Reply::Json(json!({})), "received invalid webhook response: webhook response was absent"),
        ("other", Reply::Json(json!({"response": {"uid": "x", "allowed": true}})), "expected response.uid="),
        ("endless", Reply::Endless, "failed to call webhook: "),
        ("closed", Reply::Close, "failed to call webhook: "),
    ];
    for (name, reply, expected) in cases {
        let webhook = Webhook::start(move |_| reply.clone());
        for path in [MUTATING, VALIDATING] {
            configure(
                client,
                path,
                name,
                &[hook("w.example.com", &webhook, &json!({"failurePolicy": "Fail"}))],
            );
            let message = client.post(CONFIG_MAPS, &config_map(name)).expect_failure(500, "InternalError");
            assert!(message.contains("failed calling webhook \"w.example.com\": "), "{name}: {message}");
            assert!(message.contains(expected), "{name}: {message}");
            client.delete(format!("{path}/{name}")).expect(200);
        }
        client.get(format!("{CONFIG_MAPS}/{name}")).expect_failure(404, "NotFound");
        configure(
            client,
            MUTATING,
            name,
            &[hook("w.example.com", &webhook, &json!({"failurePolicy": "Ignore"}))],
        );
        client.post(CONFIG_MAPS, &config_map(name)).expect(201);
        client.delete(format!("{MUTATING}/{name}")).expect(200);
    }
}

#[test]
fn webhooks_that_cannot_be_reached_or_verified_fail_the_request() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(allow(review)));
    let other = Webhook::start(|review| Reply::Json(allow(review)));
    let mut wrong = webhook.client_config("/");
    wrong["caBundle"] = other.client_config("/")["caBundle"].clone();
    let dead = {
        let gone = Webhook::start(|review| Reply::Json(allow(review)));
        gone.client_config("/")
    };
    let missing = json!({"service": {"namespace": "default", "name": "none", "path": "/"}});
    for (name, config, expected) in [
        ("wrong", wrong, "tls: failed to verify certificate: x509: "),
        ("dead", dead, "failed to call webhook: "),
        ("missing", missing, "service \"none\" not found"),
    ] {
        configure(
            client,
            VALIDATING,
            name,
            &[hook("w.example.com", &webhook, &json!({"clientConfig": config}))],
        );
        let message = client.post(CONFIG_MAPS, &config_map("c")).expect_failure(500, "InternalError");
        assert!(message.contains(expected), "{name}: {message}");
        client.delete(format!("{VALIDATING}/{name}")).expect(200);
    }
}

#[test]
fn a_slow_webhook_fails_within_its_timeout_and_delays_no_other_request() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|_| Reply::Silence);
    let slow = hook("slow.example.com", &webhook, &json!({"timeoutSeconds": 30}));
    configure(client, VALIDATING, "v", &[slow]);
    // Larger than what is handled on the threads of the runtime.
    let mut large = config_map("large");
    large["data"]["text"] = json!("x".repeat(200_000));
    let (small, large) = (config_map("small"), large);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let message = client.post(CONFIG_MAPS, &small).expect_failure(500, "InternalError");
                assert!(message.contains("context deadline exceeded"), "{message}");
            });
            scope.spawn(|| client.post(CONFIG_MAPS, &large).expect_failure(500, "InternalError"));
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"text": "x".repeat(200_000)}});
        eventually("all sixteen requests wait at once", || webhook.count() == 16);
        client.post("/api/v1/namespaces/default/secrets", &secret).expect(201);
        client.get("/livez").expect_status(200);
    });
    client.get(format!("{CONFIG_MAPS}/large")).expect_failure(404, "NotFound");
}

#[test]
fn a_webhook_has_no_more_time_than_the_request() {
    let server = Server::start();
    let client = server.client();
    let gone = Webhook::start(|review| Reply::Json(allow(review)));
    let dead = json!({"clientConfig": gone.client_config("/"), "timeoutSeconds": 30});
    configure(client, VALIDATING, "v", &[hook("dead.example.com", &gone, &dead)]);
    drop(gone);
    let time_of = |path: &str| -> u64 {
        let message = client.post(path, &config_map("c")).expect_failure(500, "InternalError");
        let (_, rest) = message.split_once("/?timeout=").expect("the URL of the webhook");
        let (seconds, _) = rest.split_once('s').expect("a number of seconds");
        seconds.parse().expect("a number of seconds")
    };
    assert_eq!(time_of(CONFIG_MAPS), 30);
    let short = time_of(&format!("{CONFIG_MAPS}?timeout=20s"));
    assert!((1..=20).contains(&short), "{short}");
}

#[test]
fn a_webhook_that_refuses_everything_does_not_keep_the_server_from_starting() {
    let mut server = Server::start();
    let gone = Webhook::start(|review| Reply::Json(allow(review)));
    let rules = json!({"rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]});
    configure(server.client(), VALIDATING, "v", &[hook("dead.example.com", &gone, &rules)]);
    drop(gone);
    let view = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view";
    server.client().delete(view).expect(200);
    server.restart();
    let client = server.client();
    client.get(view).expect_failure(404, "NotFound");
    client.post(CONFIG_MAPS, &config_map("c")).expect_failure(500, "InternalError");
    client.delete(format!("{VALIDATING}/v")).expect(200);
    eventually("the role is created again", || client.get(view).json()["kind"] == "ClusterRole");
}

#[test]
fn warnings_and_annotations_of_a_webhook_are_bounded() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| {
        let warnings: Vec<String> = (0..10_000).map(|i| format!("{i}{}", "w".repeat(100))).collect();
        Reply::Json(respond(review, &json!({"allowed": true, "warnings": warnings})))
    });
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &json!({}))]);
    let answer = client.post(CONFIG_MAPS, &config_map("c"));
    answer.expect(201);
    assert!(answer.header("warning").len() < 16 * 1024);
}
