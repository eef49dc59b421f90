//! The hosts file of a pod's containers.

use corten_api::Value;

use crate::pod::Pod;

const HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HOST_HEADER: &str = "# Kubernetes-managed hosts file (host network).\n";

pub(super) fn text(pod: &Pod, on_host: bool, pod_ips: &[String], name: &str, domain: &str) -> String {
    let mut text = match on_host {
        true => format!("{HOST_HEADER}{}", std::fs::read_to_string("/etc/hosts").unwrap_or_default()),
        false => format!(
            "{HEADER}127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n\
             fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
        ),
    };
    if !on_host {
        for ip in pod_ips {
            match domain {
                "" => text.push_str(&format!("{ip}\t{name}\n")),
                domain => text.push_str(&format!("{ip}\t{name}.{domain}\t{name}\n")),
            }
        }
    }
    let aliases = pod.tree().items_at(&["spec", "hostAliases"]);
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names: Vec<&str> = alias.items_at(&["hostnames"]).iter().filter_map(Value::as_str).collect();
        text.push_str(&format!("{}\t{}\n", alias.str_at(&["ip"]).unwrap_or_default(), names.join("\t")));
    }
    text
}
