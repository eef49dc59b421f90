//! kubectl sessions with containers: logs, copies, terminals, port-forward, debug.

use std::io::Read;
use std::net::TcpListener;
use std::process::Command;

use corten_e2e::pods::{Node, Runtime, condition, container, pod};
use corten_e2e::{eventually, kubectl_minor};
use corten_testkit::Tool;

/// Runs a shell command on a terminal of 33 rows and 77 columns; returns its output.
fn on_terminal(node: &Node, script: &str) -> String {
    let kubeconfig = node.directory.path().join("admin.kubeconfig");
    let command = format!("stty rows 33 cols 77; {script}");
    let shown = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("KUBECONFIG", kubeconfig)
        .env("SHELL", "/bin/sh")
        .output()
        .expect("script is part of every Debian");
    String::from_utf8_lossy(&shown.stdout).replace('\r', "")
}

#[test]
fn logs_are_read_with_all_options() {
    let node = Node::start("logs", Runtime::Native);
    let kubectl = Tool::new("kubectl", &node.server);
    let counted =
        "test -e /w/again && { echo second; sleep 100000; }; touch /w/again; echo first; echo last; exit 1";
    let mut asked = pod("web", "Always", &[container("main", counted)]);
    asked["spec"]["volumes"] = serde_json::json!([{"name": "w", "emptyDir": {}}]);
    asked["spec"]["containers"][0]["volumeMounts"] = serde_json::json!([{"name": "w", "mountPath": "/w"}]);
    node.create(&asked);
    eventually("it runs again", || condition(&node.pod("web"), "Ready") == "True");
    eventually("it says so", || kubectl.run(&["logs", "web"]).ok() == "second\n");
    assert_eq!(kubectl.run(&["logs", "web", "--previous"]).ok(), "first\nlast\n");
    assert_eq!(kubectl.run(&["logs", "web", "--previous", "--tail=1"]).ok(), "last\n");
    assert_eq!(kubectl.run(&["logs", "web", "--previous", "--limit-bytes=3"]).ok(), "fir");
    assert_eq!(kubectl.run(&["logs", "web", "--since=1h"]).ok(), "second\n");
    let mut log = node.client().websocket("/api/v1/namespaces/default/pods/web/log", "binary.k8s.io");
    // An empty message, the log, and the close frame.
    let said = log.read_until(b"\x03\xe8").expect("the log ends");
    assert_eq!(said, b"\x82\x00\x82\x07second\n\x88\x02\x03\xe8");
    let mut log = node.client().websocket("/api/v1/namespaces/default/pods/web/log", "base64.binary.k8s.io");
    assert_eq!(log.read_until(b"c2Vjb25kCg==").expect("the log comes"), b"\x81\x00\x81\x0cc2Vjb25kCg==");
    eventually("it was long ago", || kubectl.run(&["logs", "web", "--since=1s"]).ok().is_empty());
    node.create(&pod("short", "Never", &[container("main", "for i in 1 2 3; do echo $i; sleep 1; done")]));
    eventually("it begins", || node.pod("short")["status"]["phase"] == "Running");
    assert_eq!(kubectl.run(&["logs", "-f", "short"]).ok(), "1\n2\n3\n", "it is followed to its end");
    node.end();
}

#[test]
fn files_and_connections_go_both_ways() {
    let node = Node::start("files", Runtime::Native);
    let kubectl = Tool::new("kubectl", &node.server);
    let serve = "mkdir -p /www; echo page > /www/index.html; exec httpd -f -p 8080 -h /www";
    node.create(&pod("web", "Always", &[container("main", serve)]));
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    let here = node.directory.path().join("here");
    std::fs::create_dir_all(here.join("below")).expect("a folder is made");
    std::fs::write(here.join("below/file"), "copied").expect("a file is written");
    let path = |name: &str| node.directory.path().join(name).display().to_string();
    kubectl.run(&["cp", &path("here"), "web:/tmp/there"]).ok();
    assert_eq!(kubectl.run(&["exec", "web", "--", "cat", "/tmp/there/below/file"]).ok(), "copied");
    kubectl.run(&["cp", "web:/tmp/there", &path("back")]).ok();
    let back = std::fs::read_to_string(node.directory.path().join("back/below/file"));
    assert_eq!(back.expect("it came back"), "copied");

    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port is free").port();
    let mut forward = Command::new("kubectl")
        .env("KUBECONFIG", node.directory.path().join("admin.kubeconfig"))
        .args(["port-forward", "pod/web", &format!("{port}:8080")])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("kubectl runs");
    let mut page = String::new();
    eventually("the page is served", || {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
        page.clear();
        std::io::Write::write_all(&mut stream, b"GET /index.html HTTP/1.0\r\n\r\n").is_ok()
            && stream.read_to_string(&mut page).is_ok()
            && page.ends_with("page\n")
    });
    forward.kill().and_then(|()| forward.wait()).expect("it is ended");
    node.end();
}

#[test]
fn terminals_have_the_size_of_their_users() {
    let node = Node::start("terminals", Runtime::Native);
    let mut asked = pod("shell", "Never", &[container("main", "read word; echo got $word; exit 3")]);
    asked["spec"]["containers"][0]["stdin"] = serde_json::json!(true);
    asked["spec"]["containers"][0]["tty"] = serde_json::json!(true);
    node.create(&asked);
    eventually("the pod runs", || condition(&node.pod("shell"), "Ready") == "True");
    let sized =
        |size: &str| format!("until [ \"$(stty size 2>/dev/null)\" = \"{size}\" ]; do sleep 0.1; done");
    let (small, large) = (sized("33 77"), sized("50 120"));
    // Resized once its first size was observed.
    let grow =
        "(until kubectl exec shell -- test -e /seen; do sleep 0.2; done; stty rows 50 cols 120 </dev/tty) &";
    let look = format!(
        "timeout --foreground 60 kubectl exec -it shell -- sh -c '{small}; touch /seen; {large}; stty size'"
    );
    let shown = on_terminal(&node, &format!("{grow} {look}"));
    assert!(shown.contains("50 120\n"), "{shown}");
    // With the protocol of old clients: newer ones use it only if configured. It opens no resize stream, because it has
    // no
    // terminal, though the container has one.
    let spoken = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl attach -i shell";
    let shown = on_terminal(&node, &format!("(sleep 2; echo word) | {spoken}"));
    assert!(shown.contains("got word"), "{shown}");
    eventually("it has ended", || node.pod("shell")["status"]["phase"] == "Failed");
    let code = node.pod("shell")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"].clone();
    assert_eq!(code, 3);
    node.end();
}

#[test]
fn a_debug_container_sees_the_processes_of_its_target() {
    let node = Node::start("debugger", Runtime::Native);
    let kubectl = Tool::new("kubectl", &node.server);
    // Older ones debug through an API that no longer exists.
    if kubectl_minor(&kubectl) < 27 {
        return;
    }
    node.create(&pod("web", "Always", &[container("main", "echo kept > /kept; exec sleep 4711")]));
    eventually("the pod runs", || condition(&node.pod("web"), "Ready") == "True");
    let asked = ["debug", "web", "--image=busybox", "--image-pull-policy=IfNotPresent", "--profile=general"];
    let look = ["--target=main", "-c", "look", "--", "sh", "-c", "cat /proc/1/cmdline /proc/1/root/kept"];
    kubectl.run(&[&asked[..], &look[..]].concat()).ok();
    eventually("it has looked", || {
        let looked = kubectl.run(&["logs", "web", "-c", "look"]);
        looked.status.success() && looked.stdout.replace('\0', " ") == "sleep 4711 kept\n"
    });
    let shown = on_terminal(
        &node,
        "(sleep 4; echo 'echo $((40+2)); exit') | kubectl debug -i web --image=busybox --image-pull-policy=IfNotPresent \
         --profile=general -c talk -- sh",
    );
    assert!(shown.contains("42"), "{shown}");
    assert_eq!(condition(&node.pod("web"), "Ready"), "True", "nothing happened to the pod");
    node.end();
}
