//! CNI plugins instead of the built-in network: fake ones that record their invocations, and the reference plugins.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use corten_net::cni::{Cni, Error, Options, Pod};
use serde_json::{Value, json};

use crate::world::{NODE, Netns, World, at};

/// The folder of the distribution's plugins.
const REFERENCE_PLUGINS: &str = "/usr/lib/cni";

/// A node's configuration and plugins, in a folder of their own.
struct Plugins {
    folder: tempfile::TempDir,
    cni: Cni,
}

impl Plugins {
    fn new(node: &Netns, bin_dir: Option<&str>) -> Plugins {
        let folder = tempfile::tempdir().unwrap();
        for name in ["net.d", "bin", "told"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let cni = open(folder.path(), node, bin_dir);
        Plugins { folder, cni }
    }

    fn configure(&self, network: &Value) {
        fs::write(self.folder.path().join("net.d/10-test.conflist"), network.to_string()).unwrap();
    }

    /// Installs a plugin that records its invocations and returns `result` for ADD.
    fn plugin(&self, name: &str, result: &str, otherwise: &str) {
        let told = self.folder.path().join("told");
        let script = format!(
            "#!/bin/sh\n\
             number=$(ls {told} | wc -l)\n\
             {{ printf '{{\"plugin\": \"{name}\", \"command\": \"%s\", \"network\": \"%s\", \"args\": \"%s\", \
             \"interface\": \"%s\", \"path\": \"%s\", \"input\": ' \
             \"$CNI_COMMAND\" \"$CNI_NETNS\" \"$CNI_ARGS\" \"$CNI_IFNAME\" \"$CNI_PATH\"; cat; echo '}}'; }} \
             > {told}/$(printf %03d $number)\n\
             case $CNI_COMMAND in\n\
             ADD) echo '{result}';;\n\
             VERSION) echo '{{\"cniVersion\": \"1.1.0\", \"supportedVersions\": [\"0.4.0\", \"1.1.0\"]}}';;\n\
             *) {otherwise};;\n\
             esac\n",
            told = told.display()
        );
        let path = self.folder.path().join("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns and clears the recorded invocations.
    fn take_invocations(&self) -> Vec<Value> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.folder.path().join("told"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let read = |path: &PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let told = files.iter().map(read).collect();
        files.iter().for_each(|path| fs::remove_file(path).unwrap());
        told
    }
}

fn open(folder: &Path, node: &Netns, bin_dir: Option<&str>) -> Cni {
    let bin_dir = bin_dir.map_or_else(|| folder.join("bin"), PathBuf::from);
    let options =
        Options { folder: folder.join("records"), conf_dir: folder.join("net.d"), bin_dirs: vec![bin_dir] };
    Cni::open(options, node.namespace()).unwrap()
}

fn pod(sandbox: &str, place: &Netns) -> Pod {
    let ports = json!({"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]});
    Pod {
        sandbox: sandbox.to_owned(),
        network: place.path(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        uid: "u-1".to_owned(),
        capabilities: ports.as_object().cloned().unwrap(),
    }
}

fn commands(told: &[Value]) -> String {
    let one =
        |told: &Value| format!("{} {}", told["command"].as_str().unwrap(), told["plugin"].as_str().unwrap());
    told.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Two plugins that record their invocations.
fn recorded(node: &Netns, version: &str) -> Plugins {
    let plugins = Plugins::new(node, None);
    let result =
        r#"{"cniVersion": "1.1.0", "ips": [{"address": "10.9.0.2/24"}, {"address": "fd00:9::2/64"}]}"#;
    plugins.plugin("first", result, "true");
    plugins.plugin("second", result, "true");
    plugins.configure(&json!({
        "name": "test", "cniVersion": version,
        "plugins": [{"type": "first", "own": 1}, {"type": "second", "capabilities": {"portMappings": true}}],
    }));
    plugins
}

#[test]
fn plugins_run_in_order_and_del_in_reverse() {
    let (node, place) = (Netns::new(), Netns::new());
    let plugins = recorded(&node, "1.1.0");
    assert_eq!(plugins.cni.not_ready(), None);
    let told = plugins.take_invocations();
    assert_eq!(commands(&told), "VERSION first, VERSION second, STATUS first, STATUS second");
    assert_eq!(plugins.cni.not_ready(), None);
    assert_eq!(
        commands(&plugins.take_invocations()),
        "STATUS first, STATUS second",
        "versions are asked for once"
    );

    let pod = pod("s1", &place);
    let addresses = plugins.cni.attach(&pod).unwrap();
    assert_eq!(addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.9.0.2", "fd00:9::2"]);
    let added = plugins.take_invocations();
    assert_eq!(commands(&added), "ADD first, ADD second");
    let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=s1;K8S_POD_UID=u-1";
    assert_eq!((&added[0]["args"], &added[0]["interface"]), (&json!(args), &json!("eth0")));
    assert_eq!(added[0]["network"], json!(pod.network));
    assert_eq!(added[0]["input"], json!({"name": "test", "cniVersion": "1.1.0", "type": "first", "own": 1}));
    assert_eq!(added[1]["input"]["prevResult"]["ips"][0]["address"], "10.9.0.2/24");
    assert_eq!(added[1]["input"]["runtimeConfig"], Value::Object(pod.capabilities.clone()));

    plugins.cni.check("s1", &pod.network).unwrap();
    assert_eq!(commands(&plugins.take_invocations()), "CHECK first, CHECK second");
    plugins.cni.collect_garbage().unwrap();
    let collected = plugins.take_invocations();
    assert_eq!(commands(&collected), "GC first, GC second");
    let valid = &collected[0]["input"]["cni.dev/valid-attachments"];
    assert_eq!(valid, &json!([{"containerID": "s1", "ifname": "eth0"}]));

    // A new process and a new configuration: DEL uses the configuration of ADD.
    let plugins = Plugins { cni: open(plugins.folder.path(), &node, None), ..plugins };
    plugins.configure(&json!({"name": "other", "cniVersion": "0.4.0", "plugins": [{"type": "first"}]}));
    plugins.cni.detach("s1", &pod.network).unwrap();
    let deleted = plugins.take_invocations();
    assert_eq!(commands(&deleted), "DEL second, DEL first");
    assert_eq!(deleted[0]["input"]["prevResult"]["ips"][0]["address"], "10.9.0.2/24");
    assert_eq!(deleted[0]["input"]["runtimeConfig"], Value::Object(pod.capabilities.clone()));
    plugins.cni.detach("s1", &pod.network).unwrap();
    plugins.cni.detach("never-attached", &pod.network).unwrap();
    assert!(plugins.take_invocations().is_empty(), "what is deleted is deleted");
}

#[test]
fn del_never_gets_another_namespace() {
    let (node, place, other) = (Netns::new(), Netns::new(), Netns::new());
    let plugins = recorded(&node, "1.1.0");
    plugins.cni.attach(&pod("s1", &place)).unwrap();
    plugins.take_invocations();
    plugins.cni.detach("s1", &other.path()).unwrap();
    let deleted = plugins.take_invocations();
    assert_eq!(deleted.iter().map(|told| &told["network"]).collect::<Vec<_>>(), ["", ""]);
}

#[test]
fn a_failed_add_reports_its_reason_and_is_deleted() {
    let (node, place) = (Netns::new(), Netns::new());
    let plugins = recorded(&node, "0.4.0");
    let refusal = r#"{"cniVersion": "0.4.0", "code": 11, "msg": "try again", "details": "later"}"#;
    plugins.plugin("second", &format!("{refusal}'; exit 1; echo '"), "true");
    let pod = pod("s1", &place);
    let refused = plugins.cni.attach(&pod).unwrap_err();
    assert_eq!(refused.to_string(), r#"plugin type="second" failed (add): try again; later"#);
    plugins.take_invocations();
    plugins.cni.detach("s1", &pod.network).unwrap();
    let deleted = plugins.take_invocations();
    assert_eq!(commands(&deleted), "DEL second, DEL first");
    assert!(deleted[0]["input"].get("prevResult").is_none(), "there never was a result");
}

#[test]
fn the_network_is_not_ready_without_its_plugins() {
    let node = Netns::new();
    let plugins = recorded(&node, "1.1.0");
    let named = |what: &str| {
        let problem = plugins.cni.not_ready().unwrap_or_default();
        assert!(problem.contains(what), "{problem:?} does not say {what:?}");
    };
    plugins.plugin("second", "{}", r#"echo '{"code": 50, "msg": "the daemon is away"}'; exit 1"#);
    named("the daemon is away");
    plugins.configure(&json!({"name": "test", "cniVersion": "0.3.1", "plugins": [{"type": "first"}]}));
    named("it speaks versions 0.4.0, 1.1.0 but not 0.3.1");
    plugins.configure(&json!({"name": "test", "cniVersion": "1.1.0", "plugins": [{"type": "third"}]}));
    named(r#"failed to find plugin "third""#);
    fs::remove_file(plugins.folder.path().join("net.d/10-test.conflist")).unwrap();
    named("cni plugin not initialized: no network config found in");
    let refused = plugins.cni.attach(&pod("s1", &node));
    assert!(matches!(refused, Err(Error::NoConfiguration(_))), "{refused:?}");
}

#[test]
fn the_reference_plugins_attach_pods() {
    let world = World::new(&[]);
    let plugins = Plugins::new(&world.node, Some(REFERENCE_PLUGINS));
    plugins.configure(&json!({
        "name": "usual", "cniVersion": "1.0.0",
        "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": {
                "type": "host-local", "dataDir": plugins.folder.path().join("addresses"),
                "ranges": [[{"subnet": "10.9.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}],
            }},
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        ],
    }));
    assert_eq!(plugins.cni.not_ready(), None);
    let (a, b) = (Netns::new(), Netns::new());
    let on_a = plugins.cni.attach(&pod("a", &a)).unwrap();
    let without_ports = Pod { capabilities: serde_json::Map::new(), ..pod("b", &b) };
    let on_b = plugins.cni.attach(&without_ports).unwrap();
    assert_eq!((on_a[0].to_string(), on_b[0].to_string()), ("10.9.0.2".into(), "10.9.0.3".into()));
    a.serve("0.0.0.0:80");
    assert_eq!(b.reaches(at(&on_a[0], 80)), "10.9.0.3");
    let host_port = at(NODE, 8080);
    world.outside.reaches(host_port);
    plugins.cni.check("b", &b.path()).unwrap();
    let interface = b.routing().link("eth0").unwrap().unwrap().index;
    b.routing().delete_link(interface).unwrap();
    let broken = plugins.cni.check("b", &b.path()).unwrap_err();
    assert!(broken.to_string().contains(r#"plugin type="bridge" failed (check)"#), "{broken}");
    plugins.cni.detach("a", &a.path()).unwrap();
    world.outside.does_not_reach(host_port);
    assert!(a.routing().link("eth0").unwrap().is_none(), "its interface is gone");
    plugins.cni.detach("b", &b.path()).unwrap();
}
