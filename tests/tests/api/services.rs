//! Services of every kind: no two of them ever have the same address or node port.

use std::collections::{BTreeMap, BTreeSet};

use corten_testkit::{Client, Server};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn plain(name: &str) -> Value {
    service(name, &json!({"ports": [{"port": 80}], "selector": {"app": name}}))
}

fn items(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).expect(200)["items"].as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks the allocations: every address has one IPAddress object of its service, no port is used twice, and the port
/// allocator has exactly the ports in use: each of them is refused to a new service.
#[track_caller]
fn check_allocations(client: &Client) {
    let mut held: BTreeMap<String, String> = BTreeMap::new();
    let mut ports: BTreeMap<i64, String> = BTreeMap::new();
    for service in items(client, "/api/v1/services") {
        let meta = &service["metadata"];
        let name = format!("{}/{}", text(&meta["namespace"]), text(&meta["name"]));
        for ip in service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter(|ip| **ip != "None") {
            let other = held.insert(text(ip).to_owned(), name.clone());
            assert_eq!(other, None, "{ip} is had twice");
        }
        let mine: BTreeSet<i64> = service["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|port| port["nodePort"].as_i64())
            .chain(service["spec"]["healthCheckNodePort"].as_i64())
            .collect();
        for port in mine {
            let other = ports.insert(port, name.clone());
            assert_eq!(other, None, "node port {port} is had twice");
        }
    }
    let mut claimed = BTreeMap::new();
    for address in items(client, ADDRESSES) {
        let parent = &address["spec"]["parentRef"];
        let owner = format!("{}/{}", text(&parent["namespace"]), text(&parent["name"]));
        claimed.insert(text(&address["metadata"]["name"]).to_owned(), owner);
    }
    assert_eq!(held, claimed);
    let metrics = client.get("/metrics").text();
    let line = format!("kube_apiserver_nodeport_allocator_allocated_ports {}\n", ports.len());
    assert!(metrics.contains(&line), "{} ports are had: {ports:?}", ports.len());
}

#[test]
fn each_kind_gets_what_it_needs() {
    let server = Server::start_with(&["--service-cluster-ip-range", "10.96.0.0/16"]);
    let client = server.client();
    let create =
        |name: &str, spec: &Value| client.post(SERVICES, &service(name, spec)).expect(201)["spec"].take();

    let internal = create("internal", &json!({"ports": [{"port": 80}], "selector": {"a": "b"}}));
    assert!(text(&internal["clusterIP"]).starts_with("10.96."), "{internal}");
    assert_eq!(internal["clusterIPs"], json!([internal["clusterIP"]]));
    assert_eq!(
        (&internal["ipFamilies"], &internal["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );

    let node = create(
        "node",
        &json!({"type": "NodePort", "ports": [{"port": 53, "name": "a"}, {
        "port": 53, "name": "b", "protocol": "UDP"}]}),
    );
    let port = node["ports"][0]["nodePort"].as_i64().unwrap();
    // Beyond the part of the range that is reserved for explicit requests.
    assert!((30086..=32767).contains(&port), "{node}");
    assert_eq!(node["ports"][1]["nodePort"], port, "one port over two protocols is one node port");

    let balanced = create(
        "balanced",
        &json!({
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}],
        }),
    );
    assert!(
        balanced["healthCheckNodePort"].is_i64() && balanced["ports"][0]["nodePort"].is_i64(),
        "{balanced}"
    );

    let headless =
        create("headless", &json!({"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}));
    assert_eq!((&headless["clusterIPs"], &headless["ipFamilies"]), (&json!(["None"]), &json!(["IPv4"])));
    let open = create("open", &json!({"clusterIP": "None", "ports": [{"port": 80}]}));
    assert_eq!(
        (&open["ipFamilies"], &open["ipFamilyPolicy"]),
        (&json!(["IPv4", "IPv6"]), &json!("RequireDualStack"))
    );
    let external = create("external", &json!({"type": "ExternalName", "externalName": "example.com"}));
    assert!(external["clusterIP"].is_null() && external["ipFamilies"].is_null(), "{external}");

    let asked = create("asked", &json!({"clusterIP": "10.96.3.4", "ports": [{"port": 80}]}));
    assert_eq!(asked["clusterIPs"], json!(["10.96.3.4"]));
    let address = client.get(format!("{ADDRESSES}/10.96.3.4")).expect(200);
    assert_eq!(
        address["spec"]["parentRef"],
        json!({"resource": "services", "namespace": "default", "name": "asked"})
    );
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    assert_eq!(address["metadata"]["labels"], labels);
    assert_eq!(address["metadata"]["managedFields"][0]["manager"], "kube-apiserver");
    check_allocations(client);

    for name in ["internal", "node", "balanced", "headless", "open", "external", "asked"] {
        client.delete(format!("{SERVICES}/{name}")).expect(200);
    }
    check_allocations(client);
    assert_eq!(items(client, ADDRESSES).len(), 1, "the kubernetes service's own");
}

#[test]
fn unavailable_addresses_and_ports_are_refused_as_by_upstream() {
    let server = Server::start_with(&["--service-cluster-ip-range", "10.96.0.0/16"]);
    let client = server.client();
    client.post(
        SERVICES,
        &service("taken", &json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}]})),
    );
    for (spec, code, why) in [
        (
            json!({"clusterIP": "1.2.3.4"}),
            422,
            "spec.clusterIPs: Invalid value: [\"1.2.3.4\"]: failed to allocate IP 1.2.3.4: the provided network does not match the current range",
        ),
        (
            json!({"clusterIP": "10.96.0.1"}),
            422,
            "spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: failed to allocate IP 10.96.0.1: provided IP is already allocated",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            422,
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            422,
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 31000}]}),
            422,
            "spec.ports[0].nodePort: Invalid value: 31000: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            422,
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}),
            500,
            "failed to allocate requested HealthCheck NodePort 31000: provided port is already allocated",
        ),
    ] {
        let mut object = service("refused", &spec);
        if object["spec"]["ports"].is_null() {
            object["spec"]["ports"] = json!([{"port": 80}]);
        }
        let reason = if code == 422 { "Invalid" } else { "InternalError" };
        let message = client.post(SERVICES, &object).expect_failure(code, reason);
        let prefix =
            if code == 422 { "Service \"refused\" is invalid: " } else { "Internal error occurred: " };
        assert_eq!(message, format!("{prefix}{why}"));
    }
    check_allocations(client);
}

#[test]
fn a_dry_run_takes_nothing() {
    let server = Server::start_with(&["--service-cluster-ip-range", "10.96.0.0/16"]);
    let client = server.client();
    let balanced = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}],
    });
    let shown = client.post(format!("{SERVICES}?dryRun=All"), &service("s", &balanced)).expect(201);
    // As in upstream: obviously invented values.
    assert_eq!(shown["spec"]["clusterIP"], "10.96.0.0");
    assert_eq!(shown["spec"]["ports"][1]["nodePort"], 32770);
    assert_eq!(shown["spec"]["healthCheckNodePort"], 32771);
    check_allocations(client);
}

#[test]
fn changing_its_type_changes_the_fields_of_a_service() {
    let server = Server::start();
    let client = server.client();
    let path = format!("{SERVICES}/s");
    let first = client.post(SERVICES, &plain("s")).expect(201);
    let patch =
        |change: Value| client.patch(&path, "merge", &json!({"spec": change})).expect(200)["spec"].take();

    let node = patch(json!({"type": "NodePort"}));
    assert_eq!(node["clusterIP"], first["spec"]["clusterIP"]);
    assert!(node["ports"][0]["nodePort"].is_i64());
    check_allocations(client);
    // A submitted object can be submitted again.
    let again =
        client.put(&path, &service("s", &json!({"type": "NodePort", "ports": [{"port": 80}]}))).expect(200);
    assert_eq!(again["spec"]["ports"][0]["nodePort"], node["ports"][0]["nodePort"]);
    assert_eq!(again["spec"]["clusterIP"], node["clusterIP"]);
    let moved = patch(json!({"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30001}]}));
    assert_eq!(moved["ports"][0]["nodePort"], 30001);
    check_allocations(client);
    let internal = patch(json!({"type": "ClusterIP"}));
    assert!(internal["ports"][0]["nodePort"].is_null(), "{internal}");
    check_allocations(client);
    let named = patch(json!({"type": "ExternalName", "externalName": "example.com"}));
    assert!(named["clusterIP"].is_null() && named["clusterIPs"].is_null(), "{named}");
    check_allocations(client);
    let back = patch(json!({"type": "ClusterIP", "externalName": null}));
    assert!(back["clusterIP"].is_string(), "{back}");
    check_allocations(client);
}

#[test]
fn two_families() {
    let server = Server::start_with(&["--service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112"]);
    let client = server.client();
    let spec = |policy: &str| json!({"ipFamilyPolicy": policy, "ports": [{"port": 80}]});
    let single = client.post(SERVICES, &plain("single")).expect(201);
    assert_eq!(single["spec"]["ipFamilies"], json!(["IPv4"]));
    let both = client.post(SERVICES, &service("both", &spec("PreferDualStack"))).expect(201);
    assert_eq!(both["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert!(text(&both["spec"]["clusterIPs"][1]).starts_with("fd00:10:96::"), "{both}");
    let sixth = client
        .post(SERVICES, &service("sixth", &json!({"ipFamilies": ["IPv6"], "ports": [{"port": 80}]})))
        .expect(201);
    assert!(text(&sixth["spec"]["clusterIP"]).starts_with("fd00:10:96::"), "{sixth}");
    check_allocations(client);

    let path = format!("{SERVICES}/single");
    let grown =
        client.patch(&path, "merge", &json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}})).expect(200);
    assert_eq!(grown["spec"]["clusterIPs"][0], single["spec"]["clusterIP"]);
    assert_eq!(grown["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    check_allocations(client);
    let shrunk =
        client.patch(&path, "merge", &json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).expect(200);
    assert_eq!(shrunk["spec"]["clusterIPs"], json!([single["spec"]["clusterIP"]]));
    check_allocations(client);
    client.delete(format!("{SERVICES}/both")).expect(200);
    check_allocations(client);
}

/// Two addresses never have the same resourceVersion: a watch could not be resumed between them.
#[test]
fn the_addresses_of_one_service_come_and_go_one_after_the_other() {
    let server = Server::start_with(&["--service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112"]);
    let client = server.client();
    let begin = client.get(ADDRESSES).expect(200)["metadata"]["resourceVersion"].take();
    let mut watch = client.watch(format!("{ADDRESSES}?watch=true&resourceVersion={}", text(&begin)));
    let spec = json!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80, "nodePort": 30007}], "type": "NodePort"});
    client.post(SERVICES, &service("both", &spec)).expect(201);
    let revision = |object: &Value| text(&object["metadata"]["resourceVersion"]).parse::<u64>().unwrap();
    let first = watch.expect("ADDED");
    let mut resumed = client.watch(format!("{ADDRESSES}?watch=true&resourceVersion={}", revision(&first)));
    let second = watch.expect("ADDED");
    assert!(revision(&first) < revision(&second), "{first} {second}");
    assert_eq!(resumed.expect("ADDED"), second);
    // A refused service leaves no address behind.
    client.post(SERVICES, &service("both", &spec)).expect_failure(422, "Invalid");
    let mut again = spec.clone();
    again["ports"][0]["nodePort"] = 30008.into();
    client.post(SERVICES, &service("both", &again)).expect_failure(409, "AlreadyExists");
    check_allocations(client);
    assert_eq!(watch.expect("ADDED")["spec"], watch.expect("DELETED")["spec"], "allocated and released");
    client.delete(format!("{SERVICES}/both")).expect(200);
    let gone = [watch.expect("DELETED"), watch.expect("DELETED")];
    assert!(revision(&gone[0]) < revision(&gone[1]), "{gone:?}");
    check_allocations(client);
}

#[test]
fn further_ranges_and_full_ones() {
    let server = Server::start_with(&["--service-cluster-ip-range", "10.96.0.0/29"]);
    let client = server.client();
    // Six addresses, one of which is that of the kubernetes service.
    for i in 0..5 {
        client.post(SERVICES, &plain(&format!("s{i}"))).expect(201);
    }
    let message = client.post(SERVICES, &plain("s5")).expect_failure(500, "InternalError");
    assert_eq!(
        message,
        "Internal error occurred: failed to allocate a serviceIP for Service \"s5\": range is full"
    );
    let range = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.97.0.0/24"]},
    });
    client.post(RANGES, &range).expect(201);
    let more = client.post(SERVICES, &plain("s5")).expect(201);
    assert!(text(&more["spec"]["clusterIP"]).starts_with("10.97.0."), "{more}");
    let condition = json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "Tested", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    client.patch(format!("{RANGES}/more/status"), "merge", &condition).expect(200);
    client.post(SERVICES, &plain("s6")).expect_failure(500, "InternalError");
    client.delete(format!("{SERVICES}/s0")).expect(200);
    client.post(SERVICES, &plain("s6")).expect(201);
    check_allocations(client);
}

#[test]
fn many_at_once_never_get_the_same() {
    const CREATORS: usize = 64;
    const EACH: usize = 4;
    let server = Server::start();
    std::thread::scope(|scope| {
        for creator in 0..CREATORS {
            let credentials = server.credentials();
            scope.spawn(move || {
                let client = Client::new(credentials).unwrap();
                for i in 0..EACH {
                    let name = format!("s-{creator}-{i}");
                    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
                    client.post(SERVICES, &service(&name, &spec)).expect(201);
                    if i % 2 == 1 {
                        client.delete(format!("{SERVICES}/{name}")).expect(200);
                    }
                }
            });
        }
    });
    assert_eq!(items(server.client(), SERVICES).len(), 1 + CREATORS * EACH / 2);
    check_allocations(server.client());
}

#[test]
fn a_small_range_is_fully_allocated_under_concurrency() {
    let server = Server::start_with(&[
        "--service-cluster-ip-range",
        "10.96.0.0/27",
        "--service-node-port-range",
        "30000-30028",
    ]);
    let outcomes: Vec<u16> = std::thread::scope(|scope| {
        let creators: Vec<_> = (0..40)
            .map(|creator| {
                let credentials = server.credentials();
                scope.spawn(move || {
                    let client = Client::new(credentials).unwrap();
                    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
                    client.post(SERVICES, &service(&format!("s-{creator}"), &spec)).status
                })
            })
            .collect();
        creators.into_iter().map(|creator| creator.join().unwrap()).collect()
    });
    // Thirty addresses and twenty-nine ports; the kubernetes service has one address.
    assert_eq!(outcomes.iter().filter(|code| **code == 201).count(), 29, "{outcomes:?}");
    assert!(outcomes.iter().all(|code| matches!(code, 201 | 500)), "{outcomes:?}");
    check_allocations(server.client());
}

#[test]
fn nothing_is_leaked_or_doubled_when_it_is_killed() {
    let mut server = Server::start();
    for round in 0..3 {
        let credentials = server.credentials().clone();
        std::thread::scope(|scope| {
            for creator in 0..8 {
                let credentials = &credentials;
                scope.spawn(move || {
                    let client = Client::new(credentials).unwrap();
                    for i in 0.. {
                        let name = format!("s-{round}-{creator}-{i}");
                        let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
                        let request =
                            corten_testkit::Request::new("POST", SERVICES).json(&service(&name, &spec));
                        if client.try_send(&request).is_err() {
                            return;
                        }
                        let request = corten_testkit::Request::new("DELETE", format!("{SERVICES}/{name}"));
                        if i % 3 == 0 && client.try_send(&request).is_err() {
                            return;
                        }
                    }
                });
            }
            let client = Client::new(&credentials).unwrap();
            while items(&client, SERVICES).len() < 60 * (round + 1) {}
            server.kill_9();
        });
        server.restart();
        check_allocations(server.client());
        let messages = server.messages();
        assert!(!messages.contains("differs from its IPAddress"), "there was nothing to repair:\n{messages}");
    }
}

#[test]
fn damaged_bootstrap_objects_are_repaired() {
    let mut server = Server::start();
    server.client().post(SERVICES, &plain("s")).expect(201);
    let address = server.client().get(format!("{SERVICES}/s")).expect(200)["spec"]["clusterIP"].take();
    let path = format!("{ADDRESSES}/{}", text(&address));
    let before = server.client().get(&path).expect(200);
    let mut watch = server.client().watch(format!(
        "{ADDRESSES}?watch=true&resourceVersion={}",
        text(&before["metadata"]["resourceVersion"])
    ));
    server.client().delete(&path).expect(200);
    watch.expect("DELETED");
    let again = watch.expect("ADDED");
    assert_eq!(again["spec"], before["spec"]);
    // An address without a service has no owner.
    let stray = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": "10.96.7.7", "labels": {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "missing"}},
    });
    server.client().post(ADDRESSES, &stray).expect(201);
    server.restart();
    server.client().get(format!("{ADDRESSES}/10.96.7.7")).expect_failure(404, "NotFound");
    let events = items(server.client(), "/apis/events.k8s.io/v1/namespaces/default/events");
    assert!(events.iter().any(|event| event["reason"] == "IPAddressNotAllocated"), "{events:?}");
    check_allocations(server.client());
}
