//! `corten kubelet` alone: joins a cluster by a kubeconfig and a `KubeletConfiguration`, and runs pods there.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command};
use std::time::SystemTime;

use corten_e2e::eventually;
use corten_e2e::pods::{PODS, condition, container, import, pod};
use corten_pki::{Authority, Credentials, KubeconfigNames, LeafRequest, LeafUsage, Sans, write_kubeconfig};
use corten_testkit::{DataDirectory, Server, Tool, corten_binary};

/// A kubelet process; killed when it is dropped.
struct Kubelet {
    process: Child,
    health: u16,
    // Its data outlives it.
    directory: DataDirectory,
}

impl Kubelet {
    fn start(server: &Server, name: &str) -> Kubelet {
        let directory = DataDirectory::new();
        import(directory.path());
        let kubeconfig = directory.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &credentials(server, name), KubeconfigNames::default())
            .expect("a kubeconfig is written");
        let (port, health) = (free_port(), free_port());
        let path = directory.path().display();
        let config = format!(
            "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nport: {port}\nhealthzPort: {health}\n\
             maxPods: 7\nserverTLSBootstrap: true\nauthentication: {{x509: {{clientCAFile: {}}}}}\n\
             evictionHard: {{memory.available: 1Mi}}\n",
            server.directory().path().join("pki/ca.crt").display()
        );
        std::fs::write(directory.path().join("config"), config).expect("a configuration is written");
        let log = File::create(directory.path().join("log")).expect("a log is made");
        let process = Command::new(corten_binary())
            .arg("kubelet")
            .args([format!("--kubeconfig={path}/kubeconfig"), format!("--config={path}/config")])
            .args([format!("--hostname-override={name}"), format!("--root-dir={path}/kubelet")])
            .args([format!("--cert-dir={path}/pki"), format!("--data-dir={path}")])
            .args(["--node-ip=127.0.0.1", "--node-labels=disk=fast", "--pod-network=none"])
            .stderr(log)
            .spawn()
            .expect("a kubelet is started");
        Kubelet { process, health, directory }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        // Fails if it has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let said = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            eprintln!("the kubelet's messages:\n{said}");
        }
    }
}

/// The credentials of a node.
fn credentials(server: &Server, name: &str) -> Credentials {
    let pki = server.directory().path().join("pki");
    let authority = Authority::load(&pki.join("ca.crt"), &pki.join("ca.key"))
        .expect("the server's authority can be read");
    let request = LeafRequest {
        common_name: format!("system:node:{name}"),
        organization: Some("system:nodes".to_owned()),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let own = authority.issue(&request, SystemTime::now()).expect("a node is certified");
    Credentials { cert_pem: own.cert_pem, key_pem: own.key_pem, ..server.credentials().clone() }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

#[test]
fn a_node_joins_and_runs_pods() {
    let server = Server::start_with(&["--disable=agent"]);
    let client = server.client();
    let name = format!("alone-{}", std::process::id());
    let kubelet = Kubelet::start(&server, &name);
    eventually("the node is ready", || {
        let node = client.get(format!("/api/v1/nodes/{name}"));
        node.status == 200 && condition(&node.expect(200), "Ready") == "True"
    });
    let node = client.get(format!("/api/v1/nodes/{name}")).expect(200);
    assert_eq!(node["metadata"]["labels"]["disk"], "fast");
    assert_eq!(node["status"]["capacity"]["pods"], "7");
    let kubectl = Tool::new("kubectl", &server);
    let health = format!("http://127.0.0.1:{}/healthz", kubelet.health);
    let asked = Tool::new("python3", &server)
        .run(&["-c", &format!("import urllib.request as u; print(u.urlopen({health:?}).read().decode())")]);
    assert_eq!(asked.ok(), "ok\n");

    eventually("the default account", || {
        client.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200
    });
    let asked = pod("web", "Always", &[container("main", "echo hello; sleep 100000")]);
    client.post(PODS, &asked).expect_status(201);
    let path = format!("{PODS}/web");
    eventually("the pod runs", || condition(&client.get(&path).expect(200), "Ready") == "True");
    // The server trusts a kubelet once it has a certificate. Certificates for loopback need an administrator's
    // approval.
    let requests = || kubectl.run(&["get", "csr", "-o", "jsonpath={.items[*].metadata.name}"]).ok();
    eventually("the kubelet requests a certificate", || !requests().is_empty());
    let approve: Vec<String> = requests().split_whitespace().map(str::to_owned).collect();
    let shown = kubectl.run(&["get", "csr", "-o", "jsonpath={.items[*].status}"]).ok();
    assert!(!shown.contains("Approved"), "{shown}");
    for request in &approve {
        kubectl.run(&["certificate", "approve", request]).ok();
    }
    eventually("the log can be read", || kubectl.run(&["logs", "web"]).stdout == "hello\n");
    assert_eq!(kubectl.run(&["exec", "web", "--", "echo", "in"]).ok(), "in\n");
    client.delete(&path);
    eventually("the pod is gone", || client.get(&path).status == 404);
}

#[test]
fn user_errors_are_reported() {
    let directory = DataDirectory::new();
    let config = directory.path().join("config");
    let run = |text: &str| {
        std::fs::write(&config, text).expect("a configuration is written");
        refused(&config)
    };
    let head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    assert!(run("kind: Pod\napiVersion: v1").contains("no kind \"Pod\" is registered for version \"v1\""));
    let said = run(&format!("{head}maxPods: -1\n"));
    assert!(said.contains("maxPods (--max-pods) -1 must not be a negative number"), "{said}");
    assert!(run(&format!("{head}port: many\n")).contains("port: \"many\" is no number"));
    assert!(refused(Path::new("/not/there")).contains("failed to load kubelet config file"));
}

/// The output of a kubelet that does not start.
fn refused(config: &Path) -> String {
    let mut kubelet = Command::new(corten_binary());
    let ended = kubelet.arg("kubelet").arg("--config").arg(config).output().expect("a kubelet is started");
    assert!(!ended.status.success());
    String::from_utf8_lossy(&ended.stderr).into_owned()
}
