//! Computes the invocations of plugins: command, environment and input. Pure.

use serde_json::{Map, Value, json};

use super::INTERFACE;
use super::config::List;

/// The attachment of a pod to a network.
#[derive(Debug, Clone)]
pub struct Attachment<'a> {
    pub sandbox: &'a str,
    /// A path that opens its network namespace; empty if it is gone.
    pub network: String,
    /// The value of `CNI_ARGS`.
    pub args: &'a str,
    pub capabilities: &'a Map<String, Value>,
}

/// One run of a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    pub plugin: String,
    pub command: &'static str,
    /// Besides `CNI_COMMAND` and `CNI_PATH`.
    pub environment: Vec<(&'static str, String)>,
    pub input: Value,
}

/// The ADD of one plugin, which gets the result of the previous one.
pub fn add(list: &List, index: usize, attachment: &Attachment<'_>, before: Option<&Value>) -> Invocation {
    about(list, index, "ADD", attachment, before)
}

/// The DELs of all plugins, the last one first.
pub fn del(list: &List, attachment: &Attachment<'_>, result: Option<&Value>) -> Vec<Invocation> {
    let result = result.filter(|_| list.version.is_at_least("0.4.0"));
    let plugins = (0..list.plugins.len()).rev();
    plugins.map(|index| about(list, index, "DEL", attachment, result)).collect()
}

/// The CHECKs of all plugins; empty if the network disables CHECK or its version does not have it.
pub fn check(list: &List, attachment: &Attachment<'_>, result: Option<&Value>) -> Vec<Invocation> {
    if list.disable_check || result.is_none() || !list.version.is_at_least("0.4.0") {
        return Vec::new();
    }
    (0..list.plugins.len()).map(|index| about(list, index, "CHECK", attachment, result)).collect()
}

/// The STATUS of all plugins; empty if the version does not have it.
pub fn status(list: &List) -> Vec<Invocation> {
    if !list.version.is_at_least("1.1.0") {
        return Vec::new();
    }
    (0..list.plugins.len()).map(|index| bare(list, index, "STATUS", input(list, index))).collect()
}

/// The VERSION of all plugins.
pub fn version(list: &List) -> Vec<Invocation> {
    let input = json!({"cniVersion": list.version.to_string()});
    (0..list.plugins.len()).map(|index| bare(list, index, "VERSION", input.clone())).collect()
}

/// The GC of all plugins, with the sandboxes that exist.
pub fn gc(list: &List, sandboxes: &[String]) -> Vec<Invocation> {
    if list.disable_gc || !list.version.is_at_least("1.1.0") {
        return Vec::new();
    }
    let valid = sandboxes.iter().map(|sandbox| json!({"containerID": sandbox, "ifname": INTERFACE}));
    let valid = Value::Array(valid.collect());
    let told = |index| {
        let mut input = input(list, index);
        input.insert("cni.dev/valid-attachments".to_owned(), valid.clone());
        bare(list, index, "GC", input)
    };
    (0..list.plugins.len()).map(told).collect()
}

/// The value of `CNI_ARGS`: the pod's names, for plugins that read it from the API server.
pub fn args(namespace: &str, name: &str, sandbox: &str, uid: &str) -> String {
    format!(
        "IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};\
         K8S_POD_INFRA_CONTAINER_ID={sandbox};K8S_POD_UID={uid}"
    )
}

fn about(
    list: &List,
    index: usize,
    command: &'static str,
    attachment: &Attachment<'_>,
    previous: Option<&Value>,
) -> Invocation {
    let mut input = input(list, index);
    let can = list.plugins[index].get("capabilities").and_then(Value::as_object);
    let wanted = |name: &str| can.is_some_and(|can| can.get(name) == Some(&Value::Bool(true)));
    let told = attachment.capabilities.iter().filter(|(name, _)| wanted(name));
    let told: Map<String, Value> = told.map(|(name, value)| (name.clone(), value.clone())).collect();
    if !told.is_empty() {
        input.insert("runtimeConfig".to_owned(), Value::Object(told));
    }
    if let Some(previous) = previous {
        input.insert("prevResult".to_owned(), previous.clone());
    }
    let environment = vec![
        ("CNI_CONTAINERID", attachment.sandbox.to_owned()),
        ("CNI_NETNS", attachment.network.clone()),
        ("CNI_IFNAME", INTERFACE.to_owned()),
        ("CNI_ARGS", attachment.args.to_owned()),
    ];
    Invocation { environment, ..bare(list, index, command, input) }
}

fn bare(list: &List, index: usize, command: &'static str, input: impl Into<Value>) -> Invocation {
    let plugin = list.plugins[index].get("type").and_then(Value::as_str).unwrap_or_default();
    Invocation { plugin: plugin.to_owned(), command, environment: Vec::new(), input: input.into() }
}

/// The input of a plugin: its own configuration with the list's name and version.
fn input(list: &List, index: usize) -> Map<String, Value> {
    let mut input = list.plugins[index].clone();
    input.remove("capabilities");
    input.insert("name".to_owned(), list.name.clone().into());
    input.insert("cniVersion".to_owned(), list.version.to_string().into());
    input
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;

    fn network(version: &str) -> List {
        let text = json!({
            "name": "net", "cniVersion": version,
            "plugins": [
                {"type": "bridge", "ipam": {"type": "host-local"}},
                {"type": "portmap", "capabilities": {"portMappings": true, "bandwidth": false}},
            ],
        });
        config::list(text.to_string().as_bytes()).unwrap()
    }

    fn capabilities() -> Map<String, Value> {
        let all = json!({"portMappings": [{"hostPort": 80}], "bandwidth": {"ingressRate": 1}});
        all.as_object().cloned().unwrap()
    }

    fn attachment(capabilities: &Map<String, Value>) -> Attachment<'_> {
        Attachment { sandbox: "s", network: "/n".into(), args: "K=V", capabilities }
    }

    #[test]
    fn each_plugin_gets_its_configuration_and_the_previous_result() {
        let (list, capabilities) = (network("1.0.0"), capabilities());
        let attachment = attachment(&capabilities);
        let first = add(&list, 0, &attachment, None);
        let expected = json!({
            "type": "bridge", "ipam": {"type": "host-local"}, "name": "net", "cniVersion": "1.0.0",
        });
        assert_eq!((first.plugin.as_str(), first.command, &first.input), ("bridge", "ADD", &expected));
        let environment = [
            ("CNI_CONTAINERID", "s".to_owned()),
            ("CNI_NETNS", "/n".to_owned()),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_ARGS", "K=V".to_owned()),
        ];
        assert_eq!(first.environment, environment);
        let second = add(&list, 1, &attachment, Some(&json!({"ips": []})));
        let expected = json!({
            "type": "portmap", "name": "net", "cniVersion": "1.0.0",
            "runtimeConfig": {"portMappings": [{"hostPort": 80}]}, "prevResult": {"ips": []},
        });
        assert_eq!(second.input, expected);
    }

    #[test]
    fn del_runs_in_reverse_order() {
        let capabilities = capabilities();
        let order = |version: &str| -> Vec<(String, bool)> {
            let all = del(&network(version), &attachment(&capabilities), Some(&json!({})));
            all.iter().map(|one| (one.plugin.clone(), one.input.get("prevResult").is_some())).collect()
        };
        assert_eq!(order("1.0.0"), [("portmap".to_owned(), true), ("bridge".to_owned(), true)]);
        assert_eq!(order("0.3.1"), [("portmap".to_owned(), false), ("bridge".to_owned(), false)]);
    }

    #[test]
    fn commands_are_only_used_with_versions_that_have_them() {
        let capabilities = capabilities();
        for (version, checks, asks) in [("0.3.1", 0, 0), ("0.4.0", 2, 0), ("1.0.0", 2, 0), ("1.1.0", 2, 2)] {
            let list = network(version);
            let attachment = attachment(&capabilities);
            assert_eq!(check(&list, &attachment, Some(&json!({}))).len(), checks, "{version}");
            assert!(check(&list, &attachment, None).is_empty(), "what was never added is not checked");
            assert_eq!((status(&list).len(), gc(&list, &[]).len()), (asks, asks), "{version}");
        }
        let silent = List { disable_check: true, disable_gc: true, ..network("1.1.0") };
        assert!(check(&silent, &attachment(&capabilities), Some(&json!({}))).is_empty());
        assert!(gc(&silent, &[]).is_empty());
    }

    #[test]
    fn gc_lists_valid_attachments() {
        let all = gc(&network("1.1.0"), &["a".to_owned()]);
        let listed = json!([{"containerID": "a", "ifname": "eth0"}]);
        assert!(all.iter().all(|one| one.input["cni.dev/valid-attachments"] == listed));
        assert!(all.iter().all(|one| one.environment.is_empty()));
    }
}
