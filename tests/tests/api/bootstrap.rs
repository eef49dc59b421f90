//! The objects of a new cluster.

use corten_testkit::{DataDirectory, Server};
use serde_json::{Value, json};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

fn names(server: &Server, path: &str) -> Vec<String> {
    let list = server.client().get(path).expect(200);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn revision(server: &Server) -> Value {
    server.client().get("/api/v1/namespaces").expect(200)["metadata"]["resourceVersion"].take()
}

fn port(server: &Server) -> u16 {
    server.client().address().port()
}

#[test]
fn a_fresh_cluster() {
    let server = Server::start_with(&["--advertise-address", "192.0.2.7"]);
    let client = server.client();
    let port = port(&server);
    assert_eq!(
        names(&server, "/api/v1/namespaces"),
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    let class = client.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical").expect(200);
    assert_eq!(
        (&class["value"], &class["preemptionPolicy"]),
        (&json!(2_000_001_000), &json!("PreemptLowerPriority"))
    );
    assert_eq!(names(&server, "/apis/scheduling.k8s.io/v1/priorityclasses").len(), 2);
    assert_eq!(
        names(&server, LEVELS),
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low"
        ]
    );
    assert_eq!(
        names(&server, SCHEMAS),
        [
            "catch-all",
            "exempt",
            "global-default",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-system-service-accounts",
            "probes",
            "service-accounts",
            "system-leader-election",
            "system-node-high",
            "system-nodes"
        ]
    );
    let schema = client.get(format!("{SCHEMAS}/system-leader-election")).expect(200);
    assert_eq!(schema["metadata"]["annotations"][AUTO_UPDATE], "true");
    let rules = json!([{
        "subjects": [
            {"kind": "User", "user": {"name": "system:kube-controller-manager"}},
            {"kind": "User", "user": {"name": "system:kube-scheduler"}},
            {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}},
        ],
        "resourceRules": [{
            "verbs": ["get", "create", "update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "namespaces": ["*"],
        }],
    }]);
    assert_eq!(schema["spec"]["rules"], rules);
    let condition = &schema["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Dangling"), &json!("False"), &json!("Found"),)
    );
    let managers: Vec<&str> = schema["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(
        managers,
        ["api-priority-and-fairness-config-consumer-v1", "api-priority-and-fairness-config-producer-v1"]
    );

    let range = client.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").expect(200);
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12"]));
    let condition = &range["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("True")));
    assert_eq!(condition["message"], "Kubernetes default Service CIDR is ready");

    let service = client.get("/api/v1/namespaces/default/services/kubernetes").expect(200);
    assert_eq!(service["spec"]["clusterIPs"], json!(["10.96.0.1"]));
    let ports = json!([{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]);
    assert_eq!(service["spec"]["ports"], ports);
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    let endpoints = client.get("/api/v1/namespaces/default/endpoints/kubernetes").expect(200);
    let https = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    assert_eq!(endpoints["subsets"], json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": https}]));
    assert_eq!(endpoints["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    let slice =
        client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").expect(200);
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}]));
    assert_eq!(slice["ports"], https);
    assert_eq!(slice["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
}

#[test]
fn a_restart_keeps_all_objects() {
    let directory = DataDirectory::new();
    // With everything that a server reconciles by itself.
    let alone = "--disable=agent,controller-manager,scheduler";
    let first = Server::try_start(&directory, &["--advertise-address", "192.0.2.7", alone]).unwrap();
    let port = port(&first).to_string();
    drop(first);
    // On the same port, so that nothing about the server has changed.
    let again = ["--advertise-address", "192.0.2.7", "--secure-port", &port, alone];
    let second = Server::try_start(&directory, &again).unwrap();
    let before = revision(&second);
    drop(second);
    let third = Server::try_start(&directory, &again).unwrap();
    assert_eq!(revision(&third), before, "a restart writes nothing");
    assert!(!third.messages().contains(" WARN "), "{}", third.messages());
}

#[test]
fn the_kubernetes_endpoints_follow_the_advertise_address() {
    let directory = DataDirectory::new();
    let mut server = Server::try_start(&directory, &["--advertise-address", "192.0.2.7"]).unwrap();
    assert!(server.terminate().success());
    let server = Server::try_start(&directory, &["--advertise-address", "192.0.2.8"]).unwrap();
    let endpoints = server.client().get("/api/v1/namespaces/default/endpoints/kubernetes").expect(200);
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "192.0.2.8"}]));
    assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], port(&server));
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let slice = server.client().get(path).expect(200);
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.8"]));
}

#[test]
fn deleted_bootstrap_objects_are_recreated() {
    let server = Server::start_with(&["--advertise-address", "192.0.2.7"]);
    let client = server.client();
    for (collection, name) in [
        ("/api/v1/namespaces/default/services", "kubernetes"),
        ("/api/v1/namespaces/default/endpoints", "kubernetes"),
        (LEVELS, "catch-all"),
        (SCHEMAS, "service-accounts"),
    ] {
        let found = client.get(format!("{collection}/{name}")).expect(200);
        let since = found["metadata"]["resourceVersion"].as_str().unwrap();
        let mut watch = client.watch(format!(
            "{collection}?watch=true&resourceVersion={since}&fieldSelector=metadata.name={name}"
        ));
        client.delete(format!("{collection}/{name}")).expect(200);
        watch.expect("DELETED");
        let again = watch.expect("ADDED");
        assert_eq!(again["spec"], found["spec"], "{collection}/{name}");
    }
}

#[test]
fn objects_excluded_from_reconciliation_stay() {
    let mut server = Server::start();
    let level = |server: &Server, name: &str, change: &Value| {
        server.client().patch(format!("{LEVELS}/{name}"), "merge", change).expect(200);
    };
    let shares = json!({"spec": {"limited": {"nominalConcurrencyShares": 77}}});
    let mut mine = shares.clone();
    mine["metadata"] = json!({"annotations": {AUTO_UPDATE: "false"}});
    level(&server, "system", &mine);
    level(&server, "workload-low", &shares);
    level(&server, "catch-all", &json!({"metadata": {"annotations": {AUTO_UPDATE: "false"}}}));
    server.restart();
    let found = |name: &str| {
        let object = server.client().get(format!("{LEVELS}/{name}")).expect(200);
        let shares = object["spec"]["limited"]["nominalConcurrencyShares"].as_i64();
        (shares, object["metadata"]["annotations"][AUTO_UPDATE].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(found("system"), (Some(77), "false".to_owned()));
    assert_eq!(found("workload-low"), (Some(100), "true".to_owned()), "still the server's");
    assert_eq!(found("catch-all"), (Some(5), "true".to_owned()), "updated only by the server");
}

#[test]
fn the_certificate_follows_the_range() {
    let directory = DataDirectory::new();
    let certificate =
        |server: &Server| std::fs::read(server.directory().path().join("pki/apiserver.crt")).unwrap();
    let first = Server::try_start(&directory, &[]).unwrap();
    let before = certificate(&first);
    drop(first);
    let second = Server::try_start(&directory, &["--service-cluster-ip-range", "10.43.0.0/16"]).unwrap();
    assert_ne!(certificate(&second), before);
    // The cluster keeps the range it has.
    let range = second.client().get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").expect(200);
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12"]));
}

#[test]
fn a_second_family_is_added() {
    let directory = DataDirectory::new();
    drop(Server::try_start(&directory, &[]).unwrap());
    let server =
        Server::try_start(&directory, &["--service-cluster-ip-range", "10.96.0.0/12,fd00::/112"]).unwrap();
    let range = server.client().get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").expect(200);
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12", "fd00::/112"]));
}

#[test]
fn an_invalid_range_is_reported() {
    for (flag, value) in [
        ("--service-cluster-ip-range", "10.0.0.0"),
        ("--service-node-port-range", "9-1"),
        ("--advertise-address", "127.0.0.1"),
    ] {
        let failure = Server::try_start(&DataDirectory::new(), &[flag, value]).err().expect("a bad flag");
        assert!(failure.messages.contains(flag), "{failure}");
    }
}
