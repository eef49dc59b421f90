//! kubectl, unchanged: every version that is installed.
//!
//! `KUBECTLS` names them, separated by colons; otherwise it is the one on `PATH` and those installed beside it.
//! A machine without any fails here: `cargo xtask prepare` installs one.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use corten_e2e::{kubectl_minor, sample, served};
use corten_testkit::{Server, Tool};
use serde_json::{Value, json};

/// A version of kubectl, pointed at a server of its own.
struct Kubectl {
    tool: Tool,
    server: Server,
    minor: u32,
}

impl Kubectl {
    #[track_caller]
    fn ok(&self, command: &str) -> String {
        self.tool.run(&words(command)).ok()
    }

    #[track_caller]
    fn exits(&self, code: i32, command: &str) -> String {
        self.tool.run(&words(command)).exited(code)
    }

    #[track_caller]
    fn fails(&self, command: &str) -> String {
        let output = self.tool.run(&words(command));
        assert!(!output.status.success(), "kubectl {command} went well:\n{}", output.stdout);
        output.stderr
    }

    #[track_caller]
    fn with_input(&self, command: &str, input: &str) -> String {
        self.tool.run_with_input(&words(command), input).ok()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.server.directory().path().join(name);
        fs::write(&path, text).expect("a file for kubectl");
        path
    }
}

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

/// Runs a test with every installed kubectl, each with a server of its own.
#[track_caller]
fn with_each(test: fn(&Kubectl)) {
    let found = kubectls();
    assert!(!found.is_empty(), "there is no kubectl; run `cargo xtask prepare`");
    for program in found {
        let server = Server::start();
        let tool = Tool::new(&program, &server);
        let minor = kubectl_minor(&tool);
        eprintln!("{}: 1.{minor}", program.display());
        test(&Kubectl { tool, server, minor });
    }
}

fn kubectls() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("KUBECTLS") {
        return env::split_paths(&named).collect();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let Some(first) =
        env::split_paths(&path).map(|folder| folder.join("kubectl")).find(|file| file.is_file())
    else {
        return Vec::new();
    };
    let mut found = versions_beside(&first);
    if found.is_empty() {
        found.push(first);
    }
    found
}

/// Installations of several versions name them `kubectl.1.30` and so on, and `kubectl` chooses among them.
fn versions_beside(kubectl: &Path) -> Vec<PathBuf> {
    let real = fs::canonicalize(kubectl).unwrap_or_else(|_| kubectl.to_owned());
    let entries = real.parent().and_then(|folder| fs::read_dir(folder).ok());
    let mut found: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("kubectl.1.")))
        .collect();
    found.sort();
    found
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: registry.example/image:1
        ports: [{containerPort: 80}]
";

#[test]
fn objects_are_created_read_changed_and_deleted() {
    with_each(|kubectl| {
        assert_eq!(kubectl.with_input("create -f -", DEPLOYMENT), "deployment.apps/web created\n");
        let again = kubectl.tool.run_with_input(&["create", "-f", "-"], DEPLOYMENT);
        assert!(again.stderr.contains("AlreadyExists"), "{again:?}");
        reads(kubectl);
        changes(kubectl);
        assert_eq!(kubectl.ok("delete deployment web"), "deployment.apps \"web\" deleted\n");
        assert!(kubectl.fails("get deployment web").contains("NotFound"));
        assert_eq!(kubectl.ok("delete deployment web --ignore-not-found"), "");
    });
}

fn reads(kubectl: &Kubectl) {
    let table = kubectl.ok("get deployments");
    let lines: Vec<Vec<&str>> = table.lines().map(words).collect();
    assert_eq!(lines[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(lines[1][..2], ["web", "0/2"]);
    let wide = kubectl.ok("get deploy web -o wide --show-labels");
    assert!(wide.contains("registry.example/image:1") && wide.contains("app=web"), "{wide}");
    assert_eq!(kubectl.ok("get deploy -o name"), "deployment.apps/web\n");
    assert_eq!(kubectl.ok("get deploy web -o jsonpath={.spec.replicas}"), "2");
    assert_eq!(
        kubectl.ok("get deploy -A -l app=web -o custom-columns=N:.metadata.name --no-headers"),
        "web\n"
    );
    assert_eq!(kubectl.ok("get deploy -l app!=web -o name"), "");
    assert_eq!(kubectl.ok("get deploy --field-selector metadata.name=web -o name"), "deployment.apps/web\n");
    assert!(kubectl.ok("get deploy web -o yaml").contains("\n  replicas: 2\n"));
    let described = kubectl.ok("describe deployment web");
    assert!(described.contains("registry.example/image:1") && described.contains("2 desired"), "{described}");
    assert!(kubectl.ok("get all").contains("deployment.apps/web"));
}

fn changes(kubectl: &Kubectl) {
    let field = |path: &str| kubectl.ok(&format!("get deploy web -o jsonpath={path}"));
    kubectl.ok("label deployment web tier=front");
    assert!(kubectl.fails("label deployment web tier=back").contains("already has a value"));
    kubectl.ok("label deployment web tier=back --overwrite");
    assert_eq!(field("{.metadata.labels.tier}"), "back");
    kubectl.ok("label deployment web tier-");
    kubectl.ok("annotate deployment web note=here");
    assert_eq!(field("{.metadata.labels.tier}{.metadata.annotations.note}"), "here");

    kubectl.ok(r#"patch deployment web -p {"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"1"}]}]}}}}"#);
    assert_eq!(field("{.spec.template.spec.containers[0].image}"), "registry.example/image:1");
    kubectl.ok(r#"patch deployment web --type=merge -p {"spec":{"paused":true}}"#);
    kubectl.ok(r#"patch deployment web --type=json -p [{"op":"replace","path":"/spec/replicas","value":4}]"#);
    assert_eq!(field("{.spec.paused}{.spec.replicas}"), "true4");
    kubectl.ok("scale deployment web --replicas=6");
    assert_eq!(field("{.spec.replicas}"), "6");
    kubectl.ok("set image deployment/web main=registry.example/image:2");
    assert_eq!(field("{.spec.template.spec.containers[0].image}"), "registry.example/image:2");

    let file = kubectl.file("replace.yaml", DEPLOYMENT);
    kubectl.ok(&format!("replace -f {}", file.display()));
    assert_eq!(field("{.spec.replicas}{.spec.paused}"), "2");
    edit(kubectl);
    assert_eq!(field("{.spec.replicas}"), "9");
}

fn edit(kubectl: &Kubectl) {
    let editor = kubectl.file("editor", "#!/bin/sh\nexec sed -i 's/replicas: 2/replicas: 9/' \"$1\"\n");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).expect("an editor that runs");
    let tool = Tool::new(kubectl.tool.program(), &kubectl.server).env("KUBE_EDITOR", editor);
    assert_eq!(tool.run(&["edit", "deployment", "web"]).ok(), "deployment.apps/web edited\n");
}

#[test]
fn manifests_are_applied_by_the_client() {
    with_each(|kubectl| {
        let file = kubectl.file("web.yaml", DEPLOYMENT);
        let on_file = |command: &str| format!("{command} -f {}", file.display());
        assert!(kubectl.exits(1, &on_file("diff")).contains("+  name: web"));
        assert_eq!(kubectl.ok(&on_file("apply")), "deployment.apps/web created\n");
        assert_eq!(kubectl.ok(&on_file("diff")), "");
        assert_eq!(kubectl.ok(&on_file("apply")), "deployment.apps/web unchanged\n");
        kubectl.file("web.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 3"));
        let difference = kubectl.exits(1, &on_file("diff"));
        assert!(
            difference.contains("-  replicas: 2") && difference.contains("+  replicas: 3"),
            "{difference}"
        );
        assert_eq!(kubectl.ok(&on_file("apply")), "deployment.apps/web configured\n");
        kubectl.file("web.yaml", &DEPLOYMENT.replace("        ports: [{containerPort: 80}]\n", ""));
        kubectl.ok(&on_file("apply"));
        assert_eq!(kubectl.ok("get deploy web -o jsonpath={.spec.template.spec.containers[0].ports}"), "");
        assert!(kubectl.ok("apply view-last-applied deployment web").contains("replicas: 2"));
        let dry = kubectl.ok(&on_file("apply --dry-run=server"));
        assert_eq!(dry, "deployment.apps/web unchanged (server dry run)\n");
        kubectl.file("web.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 2\n  colour: red"));
        assert!(kubectl.fails(&on_file("apply")).contains("colour"));
    });
}

#[test]
fn manifests_are_applied_by_the_server() {
    with_each(|kubectl| {
        let file = kubectl.file("web.yaml", DEPLOYMENT);
        let apply = format!("apply --server-side -f {}", file.display());
        assert_eq!(kubectl.ok(&apply), "deployment.apps/web serverside-applied\n");
        kubectl.ok(r#"patch deployment web --type=merge -p {"spec":{"replicas":5}}"#);
        let refusal = kubectl.fails(&apply);
        assert!(
            refusal.contains("conflict with \"kubectl-patch\"") && refusal.contains(".spec.replicas"),
            "{refusal}"
        );
        kubectl.ok(&format!("{apply} --force-conflicts"));
        assert_eq!(kubectl.ok("get deploy web -o jsonpath={.spec.replicas}"), "2");
        assert_eq!(kubectl.ok(&format!("diff --server-side -f {}", file.display())), "");
    });
}

const WIDGETS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget of the shop.
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: The number of parts.}
              color: {type: string, default: red}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec:\n  size: 2\n";

#[test]
fn custom_resources_look_like_all_others() {
    with_each(|kubectl| {
        kubectl.with_input("apply -f -", WIDGETS);
        kubectl.ok("wait --for=condition=Established crd/widgets.example.com --timeout=50s");
        let file = kubectl.file("widget.yaml", WIDGET);
        let on_file = |command: &str| format!("{command} -f {}", file.display());
        assert!(kubectl.exits(1, &on_file("diff")).contains("+  color: red"), "defaults are shown");
        assert_eq!(kubectl.ok(&on_file("apply")), "widget.example.com/w created\n");
        assert_eq!(kubectl.ok(&on_file("apply")), "widget.example.com/w unchanged\n");
        assert_eq!(kubectl.ok(&on_file("diff")), "");
        assert_eq!(words(&kubectl.ok("get widgets")), ["NAME", "SIZE", "w", "2"]);
        assert_eq!(words(&kubectl.ok("get wd w --no-headers")), ["w", "2"]);
        assert!(kubectl.ok("get all").contains("widget.example.com/w"));
        assert!(kubectl.ok("get widget.v1.example.com w -o yaml").contains("color: red"));
        let described = kubectl.ok("describe widget w");
        assert!(
            described.contains("Color:") && described.contains("API Version:  example.com/v1"),
            "{described}"
        );
        let explained = kubectl.ok("explain widget.spec.size");
        assert!(explained.contains("The number of parts."), "{explained}");
        assert!(kubectl.ok("explain widget").contains("A widget of the shop."));
        let resources = kubectl.ok("api-resources --api-group=example.com --no-headers");
        assert_eq!(words(&resources), ["widgets", "wd", "example.com/v1", "true", "Widget"]);

        assert_eq!(kubectl.ok("scale widget w --replicas=4"), "widget.example.com/w scaled\n");
        assert_eq!(kubectl.ok("get widget w -o jsonpath={.spec.size}"), "4");
        kubectl.ok("label widget w a=b");
        kubectl.ok(r#"patch widget w --type=merge -p {"spec":{"color":"blue"}}"#);
        kubectl.ok(r#"patch widget w --type=json -p [{"op":"replace","path":"/spec/size","value":5}]"#);
        assert!(
            kubectl.fails(r#"patch widget w --type=strategic -p {"spec":{"size":6}}"#).contains("strategic")
        );
        let refusal = kubectl.fails(r#"patch widget w --type=merge -p {"spec":{"size":0}}"#);
        assert!(refusal.contains("spec.size in body should be greater than or equal to 1"), "{refusal}");
        kubectl.file("widget.yaml", &WIDGET.replace("size: 2", "size: 2\n  colour: green"));
        assert!(kubectl.fails(&on_file("apply")).contains("colour"));
        kubectl.file("widget.yaml", WIDGET);
        kubectl.ok(&format!("{} --server-side --force-conflicts", on_file("apply")));
        assert_eq!(kubectl.ok("get widgets -l a=b -o name"), "widget.example.com/w\n");
        assert_eq!(
            kubectl.ok("delete widget w"),
            "widget.example.com \"w\" deleted\n".replace("deleted", &deleted(kubectl.minor))
        );
        kubectl.ok("delete crd widgets.example.com");
        // kubectl remembers discovery for a while, so it may ask for the resource nevertheless.
        kubectl.fails("get widgets");
    });
}

/// The words of kubectl after the name of a deleted object.
fn deleted(minor: u32) -> String {
    if minor >= 34 { "deleted from default namespace".to_owned() } else { "deleted".to_owned() }
}

#[test]
fn namespaces_are_made_safe_by_a_label() {
    with_each(|kubectl| {
        kubectl.ok("create namespace safe");
        kubectl.ok("run before -n safe --image=registry.example/image:1");
        let labelled =
            kubectl.tool.run(&words("label namespace safe pod-security.kubernetes.io/enforce=restricted"));
        let warning = "Warning: before: allowPrivilegeEscalation != false, unrestricted capabilities";
        assert!(labelled.stderr.contains(warning), "{}", labelled.stderr);
        let refused = kubectl.fails("run after -n safe --image=registry.example/image:1");
        let why = "Error from server (Forbidden): pods \"after\" is forbidden: violates PodSecurity \"restricted:latest\"";
        assert!(refused.starts_with(why), "{refused}");
    });
}

#[test]
fn a_cluster_explains_itself() {
    with_each(|kubectl| {
        let resources = kubectl.ok("api-resources");
        for kind in ["Pod", "Deployment", "CustomResourceDefinition", "EndpointSlice", "FlowSchema"] {
            assert!(resources.lines().any(|line| words(line).last() == Some(&kind)), "{kind}: {resources}");
        }
        assert_eq!(
            words(kubectl.ok("api-resources --api-group=batch -o name").trim()),
            ["cronjobs.batch", "jobs.batch"]
        );
        assert!(kubectl.ok("api-versions").lines().any(|line| line == "apps/v1"));
        let container = kubectl.ok("explain pod.spec.containers");
        assert!(container.contains("imagePullPolicy") && container.contains("VERSION:"), "{container}");
        assert!(kubectl.ok("explain deployment --recursive").contains("matchLabels"));
        assert!(kubectl.ok("version -o json").contains("\"serverVersion\""));
        assert!(kubectl.ok("cluster-info").contains(kubectl.server.url()));
        assert_eq!(kubectl.ok("config current-context"), "corten\n");
        assert!(kubectl.ok("config view --minify").contains(kubectl.server.url()));
        assert_eq!(kubectl.ok("auth can-i create pods"), "yes\n");
        assert!(kubectl.ok("get --raw /healthz").contains("ok"));
        assert!(kubectl.ok("get namespaces").contains("kube-system"));
        if kubectl.minor >= 28 {
            assert!(kubectl.ok("auth whoami").contains("system:masters"));
        }
    });
}

#[test]
fn tokens_are_made_and_used() {
    with_each(|kubectl| {
        // Older ones cannot request tokens.
        if kubectl.minor < 24 {
            return;
        }
        kubectl.ok("create serviceaccount robot");
        let token = kubectl.ok("create token robot --duration=30m");
        assert_eq!(token.trim().split('.').count(), 3, "{token}");
        let ca = kubectl.file("ca.crt", &kubectl.server.credentials().ca_pem);
        let as_robot = |command: &str| {
            let (server, ca, token) = (kubectl.server.url(), ca.display(), token.trim());
            let identity = format!("--server={server} --certificate-authority={ca} --token={token}");
            kubectl.tool.run(&words(&format!("--kubeconfig=/dev/null {identity} {command}")))
        };
        assert!(as_robot("get --raw /api").ok().contains("APIVersions"));
        assert!(as_robot("get secrets").stderr.contains("Forbidden"));
        if kubectl.minor >= 28 {
            let robot = as_robot("auth whoami").ok();
            assert!(robot.contains("system:serviceaccount:default:robot"), "{robot}");
            assert!(robot.contains("system:serviceaccounts:default"), "{robot}");
        }
        kubectl.ok("delete serviceaccount robot");
        let refused = as_robot("get --raw /api");
        assert!(refused.stderr.contains("Unauthorized"), "{refused:?}");
        assert!(kubectl.fails("create token robot").contains("serviceaccounts \"robot\" not found"));
    });
}

#[test]
fn objects_are_waited_for_and_watched() {
    with_each(|kubectl| {
        let watch = kubectl.tool.start(&["get", "configmaps", "-w", "--no-headers", "-l", "watched=yes"]);
        kubectl.ok("create configmap seen --from-literal=a=b");
        kubectl.ok("label configmap seen watched=yes");
        assert_eq!(words(&watch.line())[..2], ["seen", "1"]);
        kubectl.ok(r#"patch configmap seen --type=merge -p {"data":{"c":"d"}}"#);
        assert_eq!(words(&watch.line())[..2], ["seen", "2"]);

        kubectl.with_input("create -f -", DEPLOYMENT);
        let waiting =
            kubectl.tool.start(&["wait", "--for=condition=Available", "deployment/web", "--timeout=50s"]);
        let status = json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}});
        let path = "/apis/apps/v1/namespaces/default/deployments/web/status";
        kubectl.server.client().patch(path, "merge", &status).expect(200);
        waiting.finish().ok();
        if kubectl.minor >= 23 {
            // Older ones fail when the object is deleted before their first request.
            let waiting = kubectl.tool.start(&["wait", "--for=delete", "configmap/seen", "--timeout=50s"]);
            kubectl.ok("delete configmap seen");
            waiting.finish().ok();
            kubectl.ok("wait --for=jsonpath={.spec.replicas}=2 deployment/web --timeout=50s");
        }
    });
}

#[test]
fn kubectl_handles_every_kind() {
    with_each(|kubectl| {
        let kinds = served(kubectl.server.client());
        let mut items = Vec::new();
        for kind in
            kinds.iter().filter(|kind| kind.has("create") && kind.has("get") && kind.kind != "Namespace")
        {
            let sample = sample(kind, "every").unwrap_or_else(|| panic!("{kind:?} has no manifest"));
            // Two versions of one object would be the same object twice.
            if !items.iter().any(|item: &Value| item["kind"] == sample.object["kind"]) {
                items.push(sample.object);
            }
        }
        assert!(items.len() > 50);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let file = kubectl.file("every.json", &list);
        let on_file = |command: &str| format!("{command} -f {}", file.display());
        assert_eq!(kubectl.ok(&on_file("create")).lines().count(), items.len());
        assert_eq!(kubectl.ok(&on_file("get -o name")).lines().count(), items.len());
        kubectl.ok(&on_file("get"));
        describe(kubectl, &items);
        kubectl.ok(&on_file("label note=here"));
        kubectl.ok(&on_file("annotate note=here"));
        assert_eq!(
            kubectl.ok(&on_file("apply --server-side --force-conflicts")).lines().count(),
            items.len()
        );
        // Pods, jobs and claims get more fields at creation than a manifest has, and may not lose them again.
        let given_more = ["Pod", "Job", "PersistentVolumeClaim"];
        let replaceable: Vec<&Value> =
            items.iter().filter(|item| !given_more.iter().any(|kind| item["kind"] == *kind)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": replaceable}).to_string();
        kubectl.ok(&format!("replace -f {}", kubectl.file("replaced.json", &list).display()));
        assert_eq!(kubectl.ok(&on_file("delete --wait=false")).lines().count(), items.len());
    });
}

/// Some versions of kubectl describe kinds by an alpha or beta version that upstream no longer serves.
fn describe(kubectl: &Kubectl, items: &[Value]) {
    let outdated: &[&str] = match kubectl.minor {
        ..25 => return,
        25..34 => &["IPAddress", "ServiceCIDR", "VolumeAttributesClass"],
        _ => &[],
    };
    let is_outdated = |item: &Value| item["kind"].as_str().is_some_and(|kind| outdated.contains(&kind));
    let items: Vec<&Value> = items.iter().filter(|item| !is_outdated(item)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let described = kubectl.ok(&format!("describe -f {}", kubectl.file("described.json", &list).display()));
    let count = described.lines().filter(|line| line.starts_with("Name:")).count();
    assert_eq!(count, items.len(), "{described}");
}

#[test]
fn services_of_each_kind_and_requests_for_certificates() {
    with_each(|kubectl| {
        let of = |name: &str, path: &str| kubectl.ok(&format!("get service {name} -o jsonpath={{{path}}}"));
        kubectl.ok("create service clusterip inner --tcp=80:8080");
        assert!(of("inner", ".spec.clusterIP").starts_with("10."), "{}", of("inner", ".spec"));
        kubectl.ok("create service nodeport outer --tcp=80:8080");
        let port: u16 = of("outer", ".spec.ports[0].nodePort").parse().expect("a port");
        assert!((30000..=32767).contains(&port), "{port}");
        kubectl.ok("create service loadbalancer balanced --tcp=80:8080");
        kubectl.ok("create service clusterip headless --clusterip=None");
        assert_eq!(of("headless", ".spec.clusterIPs[0]"), "None");
        kubectl.ok("create service externalname elsewhere --external-name example.com");
        let shown = kubectl.ok("get services");
        for line in ["kubernetes", "LoadBalancer", "<pending>", "example.com"] {
            assert!(shown.contains(line), "{shown}");
        }
        let taken = kubectl.fails("create service nodeport again --tcp=80:8080 --node-port=99");
        assert!(taken.contains("provided port is not in the valid range"), "{taken}");

        let kinds = served(kubectl.server.client());
        let kind = kinds.iter().find(|kind| kind.kind == "CertificateSigningRequest");
        let request = kind.and_then(|kind| sample(kind, "bob")).expect("a request for a certificate");
        kubectl.with_input("create -f -", &request.object.to_string());
        kubectl.ok("certificate approve bob");
        let condition = kubectl.ok("get csr bob -o jsonpath={.status.conditions[0].type}");
        assert_eq!(condition, "Approved");
        let denied = kubectl.fails("certificate deny bob");
        assert!(!denied.is_empty());
    });
}
