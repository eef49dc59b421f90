//! Services in front of real containers: the backends that answer at their addresses, from pods and from the node, also
//! while
//! the server is replaced; and requests through the API server. Each cluster has a machine of its own.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use corten_e2e::{Switch, eventually, pods};
use corten_testkit::{DataDirectory, Request, Server, Tool};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// The address of the machine.
const NODE: &str = "192.0.2.1";

/// Runs a test on a machine of its own.
fn on_a_machine(test: impl FnOnce() + Send) {
    let switch = Switch::new();
    switch.machine(1).run(test);
}

/// A cluster of one real node.
struct Cluster {
    server: Server,
    directory: DataDirectory,
    name: String,
}

impl Cluster {
    fn start(name: &str) -> Cluster {
        let directory = DataDirectory::new();
        pods::import(directory.path());
        let name = format!("{name}-{}", std::process::id());
        let server = Cluster::serve(&directory, &name);
        Cluster { server, directory, name }
    }

    fn serve(directory: &DataDirectory, name: &str) -> Server {
        let arguments = ["--node-name", name, "--kubelet-port", "0", "--pod-network", "built-in"];
        let server = Server::try_start(directory, &arguments).unwrap_or_else(|e| panic!("{e:?}"));
        let client = server.client();
        eventually("the default account", || {
            client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });
        server
    }

    /// Starts another process in the place of a killed one.
    fn replace(&mut self) {
        self.server = Cluster::serve(&self.directory, &self.name);
    }

    /// Creates pods that answer every request with their name, and their Service; returns its address and node port.
    fn web(&self, replicas: u32) -> (SocketAddr, SocketAddr) {
        let script = "echo -n $(hostname) > /tmp/index.html; exec busybox httpd -f -p 8080 -h /tmp";
        let deployment = json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {
                        "terminationGracePeriodSeconds": 1,
                        "containers": [{
                            "name": "web", "image": "busybox", "imagePullPolicy": "Never",
                            "command": ["sh", "-c", script],
                            "readinessProbe": {"httpGet": {"port": 8080, "path": "/index.html"}, "periodSeconds": 1},
                        }],
                    },
                },
            },
        });
        let client = self.server.client();
        client.post(DEPLOYMENTS, &deployment).expect_status(201);
        let service = json!({
            "metadata": {"name": "web"},
            "spec": {
                "type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}],
            },
        });
        let made = client.post(SERVICES, &service).expect(201);
        let address = |ip: &str, port: &Value| {
            let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
            SocketAddr::new(ip.parse().expect("an address"), port)
        };
        let cluster_ip = made["spec"]["clusterIP"].as_str().expect("services have addresses");
        (address(cluster_ip, &json!(80)), address(NODE, &made["spec"]["ports"][0]["nodePort"]))
    }

    /// The response of the health check node port of the Service.
    fn health_check(&self) -> String {
        let client = self.server.client();
        let service = json!({
            "metadata": {"name": "balanced"},
            "spec": {
                "type": "LoadBalancer", "externalTrafficPolicy": "Local", "selector": {"app": "web"},
                "ports": [{"port": 80, "targetPort": 8080}],
            },
        });
        client.post(SERVICES, &service);
        let made = client.get(format!("{SERVICES}/balanced")).expect(200);
        let port = made["spec"]["healthCheckNodePort"].as_u64().and_then(|port| u16::try_from(port).ok());
        let to = SocketAddr::new(NODE.parse().expect("an address"), port.expect("a port"));
        let mut said = String::new();
        eventually("health is served", || {
            said = asked(to)
                .ok()
                .and_then(|answer| answer.lines().next().map(str::to_owned))
                .unwrap_or_default();
            !said.is_empty()
        });
        said
    }

    fn scale(&self, replicas: u32) {
        let patch = json!({"spec": {"replicas": replicas}});
        let path = format!("{DEPLOYMENTS}/web");
        self.server.client().patch(path, "merge", &patch).expect_status(200);
    }

    /// An idle pod, to send requests from.
    fn client_pod(&self) {
        let pod = json!({
            "metadata": {"name": "client"},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "main", "image": "busybox", "imagePullPolicy": "Never", "command": ["sleep", "3600"],
                }],
            },
        });
        let client = self.server.client();
        client.post(PODS, &pod).expect_status(201);
        eventually("the client runs", || {
            client.get(format!("{PODS}/client")).expect(200)["status"]["phase"] == "Running"
        });
    }

    /// The name of the pod that answers another pod.
    fn response_to_pod(&self, to: SocketAddr) -> String {
        let url = format!("http://{to}/index.html");
        let kubectl = Tool::new("kubectl", &self.server);
        let done = kubectl.run(&["exec", "client", "--", "busybox", "wget", "-qO-", &url]);
        assert!(done.status.success(), "{done:?}");
        done.stdout
    }

    /// Deletes every pod, so that none outlives the test.
    fn end(&self) {
        let client = self.server.client();
        client.delete(format!("{DEPLOYMENTS}/web?propagationPolicy=Background"));
        client.delete(format!("{PODS}/client"));
        eventually("all pods are gone", || {
            client.get(PODS).expect(200)["items"].as_array().is_none_or(Vec::is_empty)
        });
    }
}

/// The name of the pod that answers the node itself.
fn response_to_node(to: SocketAddr) -> io::Result<String> {
    Ok(asked(to)?.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

/// The whole response to the node itself.
fn asked(to: SocketAddr) -> io::Result<String> {
    let patience = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "GET /index.html HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Starts a server that answers every request with a page that repeats it, and links to another; returns its port.
fn echo() -> u16 {
    let listener = TcpListener::bind((NODE, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let from = BufReader::new(stream.try_clone().expect("another end"));
            let lines = from.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let told = |line: &String| line.starts_with("host: ") || line.starts_with("x-forwarded-uri: ");
            let (first, rest): (Vec<_>, Vec<_>) = lines.enumerate().partition(|(number, _)| *number == 0);
            let mut said: Vec<String> = rest.into_iter().map(|(_, line)| line).filter(told).collect();
            said.sort();
            said.insert(0, first.into_iter().map(|(_, line)| line).collect());
            let page = format!("{}<a href=\"/next\">", said.join("|"));
            let length = page.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}");
            // The client may already be gone.
            let _ = write!(stream, "{head}\r\nConnection: close\r\n\r\n{page}");
        }
    });
    port
}

/// Waits until so many different pods answer.
fn eventually_answers(to: SocketAddr, pods: usize) {
    eventually(&format!("{pods} pods answer at {to}"), || {
        let answers: std::collections::BTreeSet<String> = (0..20)
            .filter_map(|_| response_to_node(to).ok())
            .filter(|name| name.starts_with("web-"))
            .collect();
        answers.len() == pods
    });
}

#[test]
fn a_service_answers_from_pods_and_from_the_node() {
    on_a_machine(|| {
        let cluster = Cluster::start("services");
        cluster.client_pod();
        let (service, node_port) = cluster.web(2);
        eventually_answers(service, 2);
        eventually_answers(node_port, 2);
        assert!(cluster.response_to_pod(service).starts_with("web-"));
        assert!(cluster.response_to_pod(node_port).starts_with("web-"));
        eventually("the health check reports pods", || cluster.health_check() == "HTTP/1.0 200 OK");
        cluster.scale(0);
        eventually("no pod answers any more", || {
            response_to_node(service).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        eventually("the health check reports no pods", || {
            cluster.health_check() == "HTTP/1.0 503 Service Unavailable"
        });
        cluster.end();
    });
}

#[test]
fn services_outlive_the_server() {
    on_a_machine(|| {
        let mut cluster = Cluster::start("services-fault");
        let (service, _) = cluster.web(2);
        eventually_answers(service, 2);
        cluster.server.kill_9();
        for _ in 0..10 {
            assert!(response_to_node(service).expect("rules stay").starts_with("web-"));
        }
        cluster.replace();
        assert!(response_to_node(service).expect("rules are taken over").starts_with("web-"));
        cluster.scale(1);
        eventually_answers(service, 1);
        cluster.end();
    });
}

#[test]
fn pods_are_reached_through_the_api_server_proxy() {
    on_a_machine(|| {
        let server = Server::start_with(&["--disable", "agent,scheduler"]);
        let client = server.client();
        eventually("the default account", || {
            client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
        });
        let pod = json!({
            "metadata": {"name": "page"}, "spec": {"containers": [{"name": "main", "image": "none"}]},
        });
        client.post(PODS, &pod).expect_status(201);
        let status = json!({"status": {"podIP": NODE, "podIPs": [{"ip": NODE}]}});
        client.patch(format!("{PODS}/page/status"), "merge", &status).expect_status(200);
        let proxy = format!("{PODS}/page:{}/proxy", echo());
        let host = client.address();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let answer = client.send(&Request::new(method, format!("{proxy}/a?b=c")));
            answer.expect_status(200);
            let told = format!("{method} /a?b=c HTTP/1.1|host: {host}|x-forwarded-uri: {proxy}/a");
            assert_eq!(answer.text(), format!("{told}<a href=\"{proxy}/next\">"));
        }
        let options = client.send(&Request::new("OPTIONS", &proxy));
        assert!(options.text().starts_with("OPTIONS / HTTP/1.1"), "{}", options.text());
        let redirect = client.get(&proxy);
        redirect.expect_status(301);
        assert_eq!(redirect.header("location"), format!("{proxy}/"));
    });
}
