//! Trust bundles and pod certificates in real containers. The test is the signer.

use corten_e2e::eventually;
use corten_e2e::pods::{Node, Runtime, container, events, pod};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";

/// A certificate that is its own authority.
fn authority() -> String {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.self_signed(&key).expect("a certificate").pem().replace("\r\n", "\n")
}

/// A pod that prints the content of a projected volume, and again when it changes.
fn watcher(name: &str, source: &Value) -> Value {
    let script = "while true; do clear=$(cat /v/*); [ \"$clear\" = \"$last\" ] || echo \"[$clear]\"; last=$clear; \
                  sleep 0.2; done";
    let mut main = container("main", script);
    main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let mut made = pod(name, "Always", &[main]);
    made["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [source]}}]);
    made
}

#[test]
fn pods_trust_what_bundles_say() {
    let node = Node::start("trust", Runtime::Native);
    let bundle = |name: &str, roots: &str| {
        let spec = json!({"signerName": "example.com/s", "trustBundle": roots});
        let labels = json!({"for": "all"});
        json!({"metadata": {"name": format!("example.com:s:{name}"), "labels": labels}, "spec": spec})
    };
    let (one, two) = (authority(), authority());
    let by_signer = json!({
        "signerName": "example.com/s", "labelSelector": {"matchLabels": {"for": "all"}}, "path": "ca.pem",
    });
    node.create(&watcher("signer", &json!({"clusterTrustBundle": by_signer})));
    let why = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
    eventually("the pod waits for a bundle", || events(node.client(), "signer").contains(why));
    node.client().post(BUNDLES, &bundle("a", &one)).expect_status(201);
    eventually("the pod has it", || node.log("signer", "main").contains(one.trim()));
    node.client().post(BUNDLES, &bundle("b", &format!("{one}{two}"))).expect_status(201);
    eventually("the pod has the other too", || node.log("signer", "main").contains(two.trim()));
    let log = node.log("signer", "main");
    let last = log.rsplit('[').next().unwrap_or_default();
    assert_eq!(last.matches("BEGIN CERTIFICATE").count(), 2, "each comes once: {last}");
    let missing = json!({"name": "none", "optional": true, "path": "ca.pem"});
    node.create(&watcher("optional", &json!({"clusterTrustBundle": missing})));
    eventually("nothing is needed", || node.pod("optional")["status"]["phase"] == "Running");
    node.end();
}

#[test]
fn pods_get_certificates_for_keys_of_their_node() {
    let node = Node::start("prove", Runtime::Native);
    let certificate = |name: &str| {
        let source = json!({
            "signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "bundle.pem",
            "userAnnotations": {"example.com/a": "b"},
        });
        watcher(name, &json!({"podCertificate": source}))
    };
    let request_of = |pod: &str| {
        let mut found = Value::Null;
        eventually("a certificate is requested", || {
            let items = node.client().get(REQUESTS).expect(200)["items"].as_array().cloned();
            let mut items = items.unwrap_or_default().into_iter();
            found = items.find(|request| request["spec"]["podName"] == pod).unwrap_or_default();
            !found.is_null()
        });
        found
    };
    let answer = |request: &Value, status: &Value| {
        let name = request["metadata"]["name"].as_str().unwrap_or_default();
        let status = json!({"status": status});
        node.client().patch(format!("{REQUESTS}/{name}/status"), "merge", &status).expect_status(200);
    };
    let condition = |kind: &str| {
        let now = jiff::Timestamp::now().to_string();
        json!([{"type": kind, "status": "True", "reason": "Why", "message": "so", "lastTransitionTime": now}])
    };
    node.create(&certificate("good"));
    let request = request_of("good");
    assert_eq!(request["metadata"]["ownerReferences"][0]["uid"], node.pod("good")["metadata"]["uid"]);
    assert_eq!(request["spec"]["serviceAccountName"], "default");
    assert_eq!(request["spec"]["unverifiedUserAnnotations"], json!({"example.com/a": "b"}));
    eventually("the pod waits", || {
        events(node.client(), "good").contains("credential bundle is not issued yet")
    });
    let chain = authority();
    let later = |hours: i64| {
        let span = jiff::SignedDuration::from_hours(hours);
        jiff::Timestamp::now().saturating_add(span).map(|at| at.to_string()).expect("a time")
    };
    answer(
        &request,
        &json!({
            "conditions": condition("Issued"), "certificateChain": chain, "notBefore": later(0),
            "beginRefreshAt": later(10), "notAfter": later(20),
        }),
    );
    eventually("the pod has it", || node.log("good", "main").contains(chain.trim()));
    let log = node.log("good", "main");
    assert!(log.contains("-----BEGIN PRIVATE KEY-----"), "{log}");
    node.create(&certificate("bad"));
    answer(&request_of("bad"), &json!({"conditions": condition("Denied")}));
    eventually("it is told why the pod gets none", || {
        events(node.client(), "bad").contains("was denied, reason=\"Why\", message=\"so\"")
    });
    node.end();
}
