//! Aggregated API servers: requests with the user's identity, availability, discovery, OpenAPI; and servers that are dead,
//! slow, lying, huge or redirecting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use corten_e2e::eventually;
use corten_testkit::{
    AggregatedReply as Reply, AggregatedRequest, AggregatedServer, Client, Identity, Request, Server, Tool,
};
use serde_json::{Value, json};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const NAME: &str = "v1alpha1.wardle.example.com";
const GROUP_VERSION: &str = "/apis/wardle.example.com/v1alpha1";
const FLUNDERS: &str = "/apis/wardle.example.com/v1alpha1/namespaces/default/flunders";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TRUST: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const PLACE: (&str, &str) = ("default", "wardle");

/// A reply to certain requests instead of the honest one.
type Lie = Arc<Mutex<Option<fn(&AggregatedRequest) -> Option<Reply>>>>;

/// A server with an aggregated one, which is honest until it lies.
struct Scene {
    server: Server,
    aggregated: AggregatedServer,
    lie: Lie,
}

fn flunder(name: &str) -> Value {
    json!({
        "apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": "5", "uid": name},
    })
}

fn resource_list() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1alpha1",
        "resources": [{
            "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
            "shortNames": ["fl"], "verbs": ["create", "delete", "deletecollection", "get", "list", "watch"],
        }],
    })
}

fn discovery() -> Value {
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                {"resource": "lies", "responseKind": {"kind": "Lie"}, "scope": "Cluster", "verbs": ["list"]},
            ]}]},
            {"metadata": {"name": "wardle.example.com"}, "versions": [{
                "version": "v1alpha1", "freshness": "Current", "resources": [{
                    "resource": "flunders", "singularResource": "flunder", "scope": "Namespaced",
                    "responseKind": {"group": "wardle.example.com", "version": "v1alpha1", "kind": "Flunder"},
                    "shortNames": ["fl"],
                    "verbs": ["create", "delete", "deletecollection", "get", "list", "watch"],
                }],
            }]},
        ],
    })
}

fn openapi_v2() -> Value {
    json!({
        "swagger": "2.0", "info": {"title": "wardle", "version": "0.1"},
        "paths": {
            "/apis/wardle.example.com/v1alpha1/flunders": {"get": {
                "operationId": "listFlunders", "produces": ["application/json"],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/com.example.Flunder"}}},
            }},
            "/api/v1/pods": {"get": {"operationId": "lie", "responses": {}}},
        },
        "definitions": {
            "com.example.Flunder": {"type": "object", "properties": {
                "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
            }},
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "description": "another one"},
            "com.example.Unused": {"type": "object"},
        },
    })
}

/// The replies of an honest server.
fn honest(request: &AggregatedRequest) -> Reply {
    let accept = request.header("accept").join(",");
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match path {
        "/apis" if accept.contains("g=apidiscovery.k8s.io") => Reply::typed(AGGREGATED, &discovery()),
        GROUP_VERSION => Reply::json(&resource_list()),
        "/openapi/v2" => Reply::json(&openapi_v2()),
        "/openapi/v3" => Reply::json(&json!({"paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=EVIL"},
            "apis/wardle.example.com/v1alpha1":
                {"serverRelativeURL": "/openapi/v3/apis/wardle.example.com/v1alpha1?hash=AB12"},
        }})),
        "/openapi/v3/apis/wardle.example.com/v1alpha1" => {
            Reply::json(&json!({"openapi": "3.0.0", "info": {"title": "wardle"}, "paths": {}}))
        }
        FLUNDERS | "/apis/wardle.example.com/v1alpha1/flunders" if query.contains("watch=true") => {
            Reply::Lines(vec![json!({"type": "ADDED", "object": flunder("watched")})])
        }
        FLUNDERS | "/apis/wardle.example.com/v1alpha1/flunders" if request.method == "GET" => {
            Reply::json(&json!({
                "apiVersion": "wardle.example.com/v1alpha1", "kind": "FlunderList",
                "metadata": {"resourceVersion": "5"}, "items": [flunder("a")],
            }))
        }
        FLUNDERS if request.method == "POST" => {
            Reply::Full(201, Vec::new(), String::from_utf8_lossy(&request.body).into_owned())
        }
        _ if path.ends_with("/exec") => Reply::Echo,
        _ if path.ends_with("/echo") => {
            let mut headers = serde_json::Map::new();
            for (name, _) in &request.headers {
                headers.insert(name.clone(), json!(request.header(name)));
            }
            Reply::json(&json!({"client": request.client, "headers": headers, "path": request.path}))
        }
        _ => Reply::not_found(),
    }
}

fn api_service(aggregated: &AggregatedServer) -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": NAME},
        "spec": {
            "group": "wardle.example.com", "version": "v1alpha1", "groupPriorityMinimum": 1500, "versionPriority": 15,
            "service": {"namespace": PLACE.0, "name": PLACE.1}, "caBundle": aggregated.ca_bundle(),
        },
    })
}

/// The condition `Available`: its status, reason and message.
fn available(client: &Client, name: &str) -> (String, String, String) {
    let service = client.get(format!("{SERVICES}/{name}")).expect(200);
    let conditions = service["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|c| c["type"] == "Available").unwrap_or_default();
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn becomes(client: &Client, reason: &str) -> String {
    eventually(reason, || available(client, NAME).1 == reason);
    available(client, NAME).2
}

impl Scene {
    /// A server with an aggregated one whose Service and endpoints exist.
    fn start(arguments: &[&str]) -> Scene {
        let server = Server::start_with(arguments);
        let trust = server.client().get(TRUST).expect(200);
        let authority = trust["data"]["requestheader-client-ca-file"].as_str().unwrap_or_default().to_owned();
        let lie = Lie::default();
        let told = lie.clone();
        let aggregated = AggregatedServer::start(PLACE, &authority, move |request| {
            let lie = *told.lock().unwrap_or_else(PoisonError::into_inner);
            lie.and_then(|lie| lie(request)).unwrap_or_else(|| honest(request))
        });
        let (service, slice) = aggregated.service(PLACE.0, PLACE.1);
        server.client().post("/api/v1/namespaces/default/services", &service).expect(201);
        server
            .client()
            .post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice)
            .expect(201);
        Scene { server, aggregated, lie }
    }

    /// The same, registered and available.
    fn registered(arguments: &[&str]) -> Scene {
        let scene = Scene::start(arguments);
        let created = scene.server.client().post(SERVICES, &api_service(&scene.aggregated));
        created.expect(201);
        assert_eq!(created.header("warning"), "");
        assert_eq!(becomes(scene.server.client(), "Passed"), "all checks passed");
        scene
    }

    fn client(&self) -> &Client {
        self.server.client()
    }

    fn lie(&self, lie: fn(&AggregatedRequest) -> Option<Reply>) {
        *self.lie.lock().unwrap_or_else(PoisonError::into_inner) = Some(lie);
    }

    /// The aggregated group version in this server's discovery.
    fn discovered(&self) -> Value {
        let list = self.client().send(&Request::new("GET", "/apis").accept(AGGREGATED)).expect(200);
        let groups = list["items"].as_array().cloned().unwrap_or_default();
        let group = groups.into_iter().find(|group| group["metadata"]["name"] == "wardle.example.com");
        group.map(|group| group["versions"][0].clone()).unwrap_or_default()
    }
}

#[test]
fn requests_are_forwarded_as_the_authenticated_user() {
    let scene = Scene::registered(&[]);
    let client = scene.client();
    let echo = Request::new("GET", format!("{FLUNDERS}/a/echo?x=%2F"))
        .header("x-remote-user", "root")
        .header("x-remote-group", "evil")
        .header("x-remote-extra-scope", "all")
        .header("x-remote-uid", "0");
    let echoed = client.send(&echo).expect(200);
    let headers = &echoed["headers"];
    assert_eq!(echoed["client"], "front-proxy-client");
    assert_eq!(echoed["path"], format!("{FLUNDERS}/a/echo?x=%2F"));
    assert_eq!(headers["x-remote-user"], json!(["system:admin"]));
    assert_eq!(headers["x-remote-group"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(headers["x-remote-uid"], Value::Null);
    assert_eq!(headers["x-remote-extra-scope"], Value::Null);
    assert_eq!(headers["host"], json!([scene.aggregated.address().to_string()]));
    let impersonated = Request::new("GET", format!("{FLUNDERS}/a/echo"))
        .header("impersonate-user", "jane")
        .header("impersonate-group", "system:masters")
        .header("impersonate-extra-example.com%2fscope", "x");
    let headers = client.send(&impersonated).expect(200)["headers"].clone();
    assert_eq!(headers["x-remote-user"], json!(["jane"]));
    assert_eq!(headers["x-remote-extra-example.com%2fscope"], json!(["x"]));
    assert_eq!(headers["impersonate-user"], Value::Null);
    assert_eq!(client.post(FLUNDERS, &flunder("b")).expect(201)["metadata"]["name"], "b");
    let mut watch = client.watch(format!("{FLUNDERS}?watch=true"));
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "watched");
}

#[test]
fn requests_that_are_not_authorized_are_not_forwarded() {
    let scene = Scene::registered(&[]);
    let client = scene.client();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak"}});
    client.post("/api/v1/namespaces/default/serviceaccounts", &account).expect(201);
    let token = client
        .post(
            "/api/v1/namespaces/default/serviceaccounts/weak/token",
            &json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}),
        )
        .expect(201)["status"]["token"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let weak = scene.server.client_as(Identity::Anonymous);
    let request = |path: &str| Request::new("GET", path).header("authorization", &format!("Bearer {token}"));
    weak.send(&request(&format!("{FLUNDERS}/a/echo"))).expect_failure(403, "Forbidden");
    weak.get(format!("{FLUNDERS}/a/echo")).expect_failure(403, "Forbidden");
    assert!(scene.aggregated.requests().iter().all(|request| !request.path.contains("echo")));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "flunders"},
        "rules": [{"apiGroups": ["wardle.example.com"], "resources": ["flunders", "flunders/echo"], "verbs": ["get"]}],
    });
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).expect(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "flunders"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flunders"},
        "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": "default"}],
    });
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).expect(201);
    let headers = weak.send(&request(&format!("{FLUNDERS}/a/echo"))).expect(200)["headers"].clone();
    assert_eq!(headers["x-remote-user"], json!(["system:serviceaccount:default:weak"]));
    assert_eq!(headers["authorization"], Value::Null);
    assert!(!headers["x-remote-uid"].is_null());
}

#[test]
fn upgrade_requests_are_joined_with_the_endpoint() {
    let scene = Scene::registered(&[]);
    let address = scene.client().address();
    let upgrade = |path: &str| {
        let mut connection = scene.client().connect().unwrap();
        let head = format!(
            "GET {FLUNDERS}/a/{path} HTTP/1.1\r\nhost: {address}\r\nconnection: Upgrade\r\nupgrade: echo\r\nx-remote-user: root\r\n\r\n"
        );
        connection.send(head.as_bytes()).unwrap();
        let head = connection.read_until(b"\r\n\r\n").unwrap();
        (connection, String::from_utf8_lossy(&head).into_owned())
    };
    let (mut connection, head) = upgrade("exec");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    connection.send(b"hello").unwrap();
    let mut back = [0; 5];
    connection.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hello");
    let requests = scene.aggregated.requests();
    let seen = requests.iter().find(|request| request.path.ends_with("/exec")).unwrap();
    assert_eq!(
        (seen.header("x-remote-user"), seen.client.as_str()),
        (vec!["system:admin"], "front-proxy-client")
    );
    scene.lie(|request| {
        let location = vec![("location".to_owned(), "https://192.0.2.1/evil".to_owned())];
        request.path.ends_with("/exec").then_some(Reply::Full(302, location, String::new()))
    });
    let (_, head) = upgrade("exec");
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
}

#[test]
fn discovery_and_openapi_are_merged() {
    let scene = Scene::registered(&[]);
    let client = scene.client();
    eventually("discovery", || scene.discovered()["freshness"] == "Current");
    let version = scene.discovered();
    assert_eq!(version["resources"][0]["resource"], "flunders");
    assert_eq!(version["resources"][0]["shortNames"], json!(["fl"]));
    let apis = client.get("/apis").expect(200);
    let names: Vec<&str> =
        apis["groups"].as_array().unwrap().iter().filter_map(|group| group["name"].as_str()).collect();
    assert_eq!(names.first(), Some(&"apiregistration.k8s.io"));
    // Between the built-in groups and those of lower priority.
    let at = |name: &str| names.iter().position(|found| *found == name);
    assert!(at("apps") < at("wardle.example.com"), "{names:?}");
    assert!(!client.send(&Request::new("GET", "/apis").accept(AGGREGATED)).text().contains("lies"));
    let group = client.get("/apis/wardle.example.com").expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1alpha1");
    assert_eq!(client.get(GROUP_VERSION).expect(200), resource_list());
    assert!(client.get("/").text().contains(GROUP_VERSION));
    eventually("OpenAPI version 2", || client.get("/openapi/v2").text().contains("listFlunders"));
    let document = client.get("/openapi/v2").expect(200);
    assert_ne!(document["paths"]["/api/v1/pods"]["get"]["operationId"], "lie");
    let definitions = &document["definitions"];
    assert!(definitions["com.example.Unused"].is_null());
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_ne!(definitions[meta]["description"], "another one");
    let renamed = format!("{meta}_v2");
    assert_eq!(definitions[&renamed]["description"], "another one");
    let reference = &definitions["com.example.Flunder"]["properties"]["metadata"]["$ref"];
    assert_eq!(*reference, format!("#/definitions/{renamed}"));
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let protobuf = client.send(&Request::new("GET", "/openapi/v2").accept(protobuf));
    assert!(protobuf.status == 200 && protobuf.text().contains("listFlunders"));
    eventually("OpenAPI version 3", || client.get("/openapi/v3").text().contains("hash=AB12"));
    let index = client.get("/openapi/v3").text();
    assert!(!index.contains("EVIL"), "{index}");
    let document = client.get("/openapi/v3/apis/wardle.example.com/v1alpha1?hash=AB12").expect(200);
    assert_eq!(document["info"]["title"], "wardle");
    client.delete(format!("{SERVICES}/{NAME}")).expect(200);
    eventually("the group is gone", || client.get(FLUNDERS).status == 404);
    assert_eq!(client.get("/apis/wardle.example.com").status, 404);
    assert!(!client.get("/openapi/v2").text().contains("listFlunders"));
    assert!(!client.get("/openapi/v3").text().contains("wardle"));
}

#[test]
fn availability_is_told_as_upstream_does() {
    let scene = Scene::start(&[]);
    let client = scene.client();
    let mut object = api_service(&scene.aggregated);
    object["spec"]["service"]["name"] = json!("other");
    client.post(SERVICES, &object).expect(201);
    assert_eq!(becomes(client, "ServiceNotFound"), "service/other in \"default\" is not present");
    let unavailable = client.get(FLUNDERS);
    assert_eq!((unavailable.status, unavailable.text().as_str()), (503, "service unavailable\n"));
    assert_eq!(scene.discovered(), json!({"freshness": "Stale", "version": "v1alpha1"}));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "other"},
        "spec": {"ports": [{"name": "web", "port": 80}]},
    });
    client.post("/api/v1/namespaces/default/services", &service).expect(201);
    assert_eq!(
        becomes(client, "ServicePortError"),
        "service/other in \"default\" is not listening on port 443"
    );
    let change = |spec: Value| {
        let patch = json!({"spec": {"service": spec}});
        client.patch(format!("{SERVICES}/{NAME}"), "merge", &patch).expect(200);
    };
    change(json!({"port": 80}));
    assert_eq!(
        becomes(client, "EndpointsNotFound"),
        "cannot find endpointslices for service/other in \"default\""
    );
    let (_, mut slice) = scene.aggregated.service("default", "other");
    client.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).expect(201);
    let missing = "endpointslices for service/other in \"default\" have no addresses with port name \"web\"";
    assert_eq!(becomes(client, "MissingEndpoints"), missing);
    slice["ports"][0]["name"] = json!("web");
    slice["ports"][0]["port"] = json!(1);
    client.put("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/other", &slice).expect(200);
    let ip = scene.aggregated.address().ip();
    let failed = becomes(client, "FailedDiscoveryCheck");
    let url = format!("https://{ip}:1{GROUP_VERSION}");
    let expected = format!(
        "failing or missing response from {url}: Get \"{url}\": dial tcp {ip}:1: connect: connection refused"
    );
    assert_eq!(failed, expected);
    // The server's certificate is for another Service.
    slice["ports"][0]["port"] = json!(scene.aggregated.address().port());
    client.put("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/other", &slice).expect(200);
    eventually("an invalid name", || {
        available(client, NAME).2.contains("failed to verify certificate: x509")
    });
    change(json!({"name": "wardle", "port": 443}));
    becomes(client, "Passed");
    client.get(FLUNDERS).expect(200);
    let table = kubectl(&scene.server, &["get", "apiservice", NAME]);
    assert!(table.starts_with("NAME                          SERVICE          AVAILABLE   AGE\n"), "{table}");
    assert!(table.contains("default/wardle   True"), "{table}");
    client.delete("/api/v1/namespaces/default/services/wardle").expect(200);
    becomes(client, "ServiceNotFound");
    let patch = json!({"spec": {"service": null, "caBundle": null}});
    client.patch(format!("{SERVICES}/{NAME}"), "merge", &patch).expect(200);
    assert_eq!(becomes(client, "Local"), "Local APIServices are always available");
}

#[track_caller]
fn kubectl(server: &Server, arguments: &[&str]) -> String {
    Tool::new("kubectl", server).run(arguments).ok()
}

#[test]
fn kubectl_uses_aggregated_resources() {
    let scene = Scene::registered(&[]);
    eventually("discovery", || scene.discovered()["freshness"] == "Current");
    let resources = kubectl(&scene.server, &["api-resources", "--api-group=wardle.example.com"]);
    assert!(resources.contains("flunders"), "{resources}");
    let names = kubectl(&scene.server, &["get", "fl", "-o", "name"]);
    assert_eq!(names.trim(), "flunder.wardle.example.com/a");
}

#[test]
fn hostile_servers_neither_redirect_nor_delay_other_requests() {
    let scene = Scene::registered(&[]);
    let client = scene.client();
    scene.lie(|request| {
        let location = vec![("location".to_owned(), "https://192.0.2.1/evil".to_owned())];
        request.path.contains("/flunders").then_some(Reply::Full(307, location, String::new()))
    });
    let refused = client.get(FLUNDERS);
    assert_eq!(refused.status, 502);
    assert_eq!(refused.text(), "the backend attempted to redirect this request, which is not permitted");
    assert_eq!(refused.header("location"), "");
    scene.lie(|_| Some(Reply::Close));
    let closed = client.get(FLUNDERS);
    assert_eq!(closed.status, 503);
    // Either the check or the request itself found out first.
    let told = closed.text();
    assert!(told == "service unavailable\n" || told.starts_with("error trying to reach service: "), "{told}");
    becomes(client, "FailedDiscoveryCheck");
    eventually("stale discovery", || scene.discovered()["freshness"] == "Stale");
    for lie in [
        (|_| Some(Reply::Silence)) as fn(&AggregatedRequest) -> Option<Reply>,
        |_| Some(Reply::Endless),
        |_| {
            Some(Reply::Full(
                200,
                vec![("content-type".to_owned(), AGGREGATED.to_owned())],
                "{\"items\": 5}".to_owned(),
            ))
        },
        |_| Some(Reply::Full(200, vec![("x".to_owned(), "y".repeat(1 << 20))], String::new())),
    ] {
        scene.lie(lie);
        let began = Instant::now();
        client.get("/api/v1/namespaces/default").expect(200);
        client.get("/apis").expect(200);
        scene.discovered();
        client.get("/openapi/v3").expect_status(200);
        assert!(began.elapsed() < Duration::from_secs(4), "requests waited for the aggregated server");
    }
    *scene.lie.lock().unwrap() = None;
    becomes(client, "Passed");
    eventually("current discovery", || scene.discovered()["freshness"] == "Current");
}

#[test]
fn a_server_without_the_right_certificate_gets_no_request() {
    let scene = Scene::start(&[]);
    let client = scene.client();
    let other = corten_pki::IssuedCert::self_signed("other", std::time::SystemTime::now()).unwrap();
    let mut object = api_service(&scene.aggregated);
    object["spec"]["caBundle"] =
        json!(base64::Engine::encode(&base64::engine::general_purpose::STANDARD, other.cert_pem.as_bytes()));
    client.post(SERVICES, &object).expect(201);
    let why = becomes(client, "FailedDiscoveryCheck");
    assert!(
        why.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{why}"
    );
    assert!(scene.aggregated.requests().is_empty());
    let patch = json!({"spec": {"caBundle": null, "insecureSkipTLSVerify": true}});
    client.patch(format!("{SERVICES}/{NAME}"), "merge", &patch).expect(200);
    becomes(client, "Passed");
}

/// The versions of the group of metrics, in the order of discovery.
fn metrics_versions(client: &Client) -> Vec<String> {
    let group = client.get("/apis/metrics.k8s.io").expect(200);
    let versions = group["versions"].as_array().cloned().unwrap_or_default();
    versions.iter().map(|v| v["version"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn built_in_metrics_give_way_to_an_installed_server() {
    let scene = Scene::start(&[]);
    let client = scene.client();
    let local = "/apis/metrics.k8s.io/v1beta1/nodes";
    assert_eq!(client.get(local).expect(200)["items"], json!([]));
    assert_eq!(metrics_versions(client), ["v1", "v1beta1"]);
    assert_eq!(client.get("/apis/metrics.k8s.io/v1/nodes").expect(200)["apiVersion"], "metrics.k8s.io/v1");
    scene.lie(|request| match request.path.as_str() {
        "/apis/metrics.k8s.io/v1beta1" => Some(Reply::json(&json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1", "resources": []}))),
        "/apis/metrics.k8s.io/v1beta1/nodes" => Some(Reply::json(&json!({"kind": "NodeMetricsList", "items": ["installed"]}))),
        _ => None,
    });
    let name = "v1beta1.metrics.k8s.io";
    // No APIService is in the way of an installer that creates its own.
    let created = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}, "spec": {
        "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": PLACE.0, "name": PLACE.1, "port": 443}, "caBundle": scene.aggregated.ca_bundle(),
    }});
    client.post(SERVICES, &created).expect(201);
    eventually("the installed server", || client.get(local).text().contains("installed"));
    eventually("no built-in version", || client.get("/apis/metrics.k8s.io/v1/nodes").status == 404);
    assert_eq!(metrics_versions(client), ["v1beta1"]);
    client.delete(format!("{SERVICES}/{name}")).expect(200);
    eventually("the built-in metrics", || client.get(local).text().contains("\"items\":[]"));
    assert_eq!(metrics_versions(client), ["v1", "v1beta1"]);
    client.get("/apis/metrics.k8s.io/v1/nodes").expect(200);
}

#[test]
fn the_trusted_authorities_are_published_and_reconciled() {
    let server = Server::start();
    let client = server.client();
    let data = client.get(TRUST).expect(200)["data"].clone();
    for (key, expected) in [
        ("requestheader-allowed-names", "[\"front-proxy-client\"]"),
        ("requestheader-username-headers", "[\"X-Remote-User\"]"),
        ("requestheader-group-headers", "[\"X-Remote-Group\"]"),
        ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
    ] {
        assert_eq!(data[key], expected, "{key}");
    }
    assert!(data["client-ca-file"].as_str().unwrap_or_default().contains("BEGIN CERTIFICATE"));
    client.delete(TRUST).expect(200);
    eventually("the config map", || client.get(TRUST).status == 200);
    assert_eq!(client.get(TRUST).expect(200)["data"], data);
}

#[test]
fn an_aggregated_server_may_delegate_authentication_and_authorization() {
    let server = Server::start();
    let client = server.client();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "wardle"}});
    client.post("/api/v1/namespaces/default/serviceaccounts", &account).expect(201);
    let subject = json!([{"kind": "ServiceAccount", "name": "wardle", "namespace": "default"}]);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "wardle"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": subject,
    });
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).expect(201);
    let reader = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "wardle"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "extension-apiserver-authentication-reader"},
        "subjects": subject,
    });
    client
        .post("/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings", &reader)
        .expect(201);
    let request = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}});
    let token = client.post("/api/v1/namespaces/default/serviceaccounts/wardle/token", &request).expect(201);
    let token = token["status"]["token"].as_str().unwrap_or_default().to_owned();
    let delegate = server.client_as(Identity::Anonymous);
    let send = |method: &str, path: &str, body: &Value| {
        let request = Request::new(method, path).header("authorization", &format!("Bearer {token}"));
        delegate.send(&if body.is_null() { request } else { request.json(body) })
    };
    send("GET", TRUST, &Value::Null).expect(200);
    let review =
        json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": token}});
    let reviewed = send("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review).expect(201);
    assert_eq!(reviewed["status"]["user"]["username"], "system:serviceaccount:default:wardle");
    let review = json!({"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {
        "user": "jane", "resourceAttributes": {"group": "wardle.example.com", "resource": "flunders", "verb": "get"},
    }});
    let reviewed = send("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).expect(201);
    assert_eq!(reviewed["status"]["allowed"], false);
}

#[test]
fn namespaces_are_emptied_on_aggregated_servers_too() {
    let scene = Scene::registered(&["--disable=agent,dns,scheduler"]);
    let client = scene.client();
    eventually("discovery", || scene.discovered()["freshness"] == "Current");
    scene.lie(|request| {
        let is_list = request.path.contains("/namespaces/doomed/flunders") && request.method == "GET";
        let empty = json!({"apiVersion": "wardle.example.com/v1alpha1", "kind": "FlunderList", "metadata": {}, "items": []});
        match (is_list, request.method.as_str()) {
            (true, _) => Some(Reply::json(&empty)),
            (_, "DELETE") => Some(Reply::json(&json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))),
            _ => None,
        }
    });
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    client.post("/api/v1/namespaces", &namespace("doomed")).expect(201);
    client.delete("/api/v1/namespaces/doomed").expect(200);
    eventually("the namespace is gone", || client.get("/api/v1/namespaces/doomed").status == 404);
    let deleted = |request: &AggregatedRequest| {
        request.method == "DELETE"
            && request.path.starts_with(&format!("{GROUP_VERSION}/namespaces/doomed/flunders"))
    };
    assert!(scene.aggregated.requests().iter().any(deleted));
    scene.lie(|_| Some(Reply::Full(500, Vec::new(), String::new())));
    eventually("stale discovery", || scene.discovered()["freshness"] == "Stale");
    client.post("/api/v1/namespaces", &namespace("stuck")).expect(201);
    client.delete("/api/v1/namespaces/stuck").expect(200);
    eventually("the condition", || {
        let namespace = client.get("/api/v1/namespaces/stuck").json();
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "NamespaceDeletionDiscoveryFailure" && c["status"] == "True")
    });
    client.delete(format!("{SERVICES}/{NAME}")).expect(200);
    eventually("the namespace is gone", || client.get("/api/v1/namespaces/stuck").status == 404);
}
