//! Parses the output of plugins: results, errors, versions. Pure.

use std::net::IpAddr;

use serde_json::Value;

use super::config::Version;
use super::{Error, Result};
use crate::Cidr;

/// Parses the result of a successful `ADD`.
pub fn result(plugin: &str, output: &[u8]) -> Result<Value> {
    match serde_json::from_slice(output) {
        Ok(result @ Value::Object(_)) => Ok(result),
        _ => Err(failed(plugin, "ADD", format!("it answered no result but {:?}", text(output)))),
    }
}

/// The error of a failed plugin.
pub fn failure(plugin: &str, command: &str, output: &[u8], complaint: &[u8], status: &str) -> Error {
    let said: Value = serde_json::from_slice(output).unwrap_or_default();
    let field = |name: &str| said.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let reason = match (field("msg"), field("details")) {
        (Some(message), Some(details)) => format!("{message}; {details}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => format!("{status}; {:?} and {:?}", text(output), text(complaint)),
    };
    failed(plugin, command, reason)
}

/// Fails if a plugin does not support a version.
pub fn speaks(plugin: &str, output: &[u8], version: &Version) -> Result<()> {
    let said: Value = serde_json::from_slice(output).unwrap_or_default();
    let spoken = said.get("supportedVersions").and_then(Value::as_array).cloned().unwrap_or_default();
    let spoken: Vec<&str> = spoken.iter().filter_map(Value::as_str).collect();
    if spoken.contains(&version.to_string().as_str()) {
        return Ok(());
    }
    let reason = format!("it speaks versions {} but not {version}", spoken.join(", "));
    Err(failed(plugin, "VERSION", reason))
}

/// The pod's addresses at an interface, in the plugins' order. A result of before 0.3.0 has one of each family.
pub fn addresses(result: &Value, interface: &str) -> Vec<IpAddr> {
    if let Some(ips) = result.get("ips").and_then(Value::as_array) {
        let interfaces = result.get("interfaces").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let here = |ip: &&Value| match ip.get("interface").and_then(Value::as_u64) {
            None => true,
            Some(index) => {
                usize::try_from(index).ok().and_then(|index| interfaces.get(index)).is_some_and(|of| {
                    let within =
                        of.get("sandbox").and_then(Value::as_str).is_some_and(|path| !path.is_empty());
                    within && of.get("name").and_then(Value::as_str) == Some(interface)
                })
            }
        };
        return ips.iter().filter(here).filter_map(|ip| address(ip.get("address"))).collect();
    }
    ["ip4", "ip6"].iter().filter_map(|family| address(result.get(family)?.get("ip"))).collect()
}

fn address(value: Option<&Value>) -> Option<IpAddr> {
    value?.as_str()?.parse::<Cidr>().ok().map(|cidr| cidr.address())
}

fn failed(plugin: &str, command: &str, reason: String) -> Error {
    Error::Plugin { plugin: plugin.to_owned(), command: command.to_lowercase(), reason }
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_those_of_the_pods_own_interface() {
        let of_today = json!({
            "interfaces": [{"name": "veth1"}, {"name": "eth0", "sandbox": "/n"}, {"name": "net1", "sandbox": "/n"}],
            "ips": [
                {"address": "10.0.0.2/24", "interface": 1}, {"address": "192.0.2.9/24", "interface": 2},
                {"address": "fd00::2/64", "interface": 1}, {"address": "10.0.0.1/24", "interface": 0},
            ],
        });
        let without_interfaces = json!({"ips": [{"version": "4", "address": "10.0.0.2/24"}]});
        let of_old = json!({"ip4": {"ip": "10.0.0.2/24"}, "ip6": {"ip": "fd00::2/64"}});
        let seen = |result: &Value| {
            addresses(result, "eth0").iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seen(&of_today), "10.0.0.2 fd00::2");
        assert_eq!(seen(&without_interfaces), "10.0.0.2");
        assert_eq!(seen(&of_old), "10.0.0.2 fd00::2");
        assert_eq!(seen(&json!({})), "");
    }

    #[test]
    fn errors_are_the_plugins_messages() {
        let said = br#"{"cniVersion": "1.0.0", "code": 7, "msg": "no room", "details": "10.0.0.0/30"}"#;
        let error = failure("bridge", "ADD", said, b"", "exit status: 1");
        assert_eq!(error.to_string(), r#"plugin type="bridge" failed (add): no room; 10.0.0.0/30"#);
        let error = failure("bridge", "DEL", b"", b"oops\n", "exit status: 2");
        let text = r#"plugin type="bridge" failed (del): exit status: 2; "" and "oops""#;
        assert_eq!(error.to_string(), text);
        assert!(result("bridge", b"").is_err());
    }
}
