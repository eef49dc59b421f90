//! The endpoints of the `kubernetes` service that follow from the servers' addresses. Pure.
//!
//! Servers with the same port are one subset of the Endpoints, and one EndpointSlice for each IP family. As upstream has it,
//! the slice of the most servers has the name of the service; servers with another port or family, which upstream does not
//! have, are in slices of their own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use corten_api::{Value, meta, value};

use super::{ENDPOINTS, NAME, NAMESPACE, SERVICE_NAME, SKIP_MIRROR, SLICES};

/// Servers with one port and one IP family.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    ipv6: bool,
    port: u16,
    /// In order of their texts, as upstream.
    ips: Vec<String>,
}

/// The groups, the largest first. All servers agree on the order.
fn groups(servers: &[SocketAddr]) -> Vec<Group> {
    let mut by_group: BTreeMap<(bool, u16), Vec<String>> = BTreeMap::new();
    for server in servers {
        by_group.entry((server.is_ipv6(), server.port())).or_default().push(server.ip().to_string());
    }
    let group = |((ipv6, port), mut ips): (_, Vec<String>)| {
        ips.sort_unstable();
        ips.dedup();
        Group { ipv6, port, ips }
    };
    let mut groups: Vec<Group> = by_group.into_iter().map(group).collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.ips.len()), group.ipv6, group.port));
    groups
}

/// The Endpoints object.
pub(super) fn endpoints(servers: &[SocketAddr]) -> Value {
    let mut endpoints = ENDPOINTS.named(NAMESPACE, NAME);
    endpoints.set(&["metadata", "labels", SKIP_MIRROR], "true");
    let mut by_port: Vec<(u16, Vec<String>)> = Vec::new();
    for group in groups(servers) {
        match by_port.iter_mut().find(|(port, _)| *port == group.port) {
            Some((_, ips)) => ips.extend(group.ips),
            None => by_port.push((group.port, group.ips)),
        }
    }
    let subset = |(number, mut ips): (u16, Vec<String>)| {
        ips.sort_unstable();
        let address = |ip: String| value!({"ip": (ip)});
        let addresses: Vec<Value> = ips.into_iter().map(address).collect();
        value!({"addresses": (addresses), "ports": [(port(number))]})
    };
    let subsets: Vec<Value> = by_port.into_iter().map(subset).collect();
    if !subsets.is_empty() {
        endpoints.set(&["subsets"], subsets);
    }
    endpoints
}

/// The EndpointSlices; the first has the name of the service, and exists without servers too.
pub(super) fn slices(servers: &[SocketAddr]) -> Vec<Value> {
    let groups = groups(servers);
    if groups.is_empty() {
        let mut slice = slice(NAME, false);
        slice.set(&["endpoints"], Value::Null);
        slice.set(&["ports"], Value::Null);
        return vec![slice];
    }
    let of_group = |(index, group): (usize, &Group)| {
        let name = if index == 0 { NAME.to_owned() } else { other_name(group) };
        let mut slice = slice(&name, group.ipv6);
        let endpoint = |ip: &String| value!({"addresses": [(ip.as_str())], "conditions": {"ready": true}});
        slice.set(&["endpoints"], group.ips.iter().map(endpoint).collect::<Vec<Value>>());
        slice.set(&["ports"], vec![port(group.port)]);
        slice
    };
    groups.iter().enumerate().map(of_group).collect()
}

fn other_name(group: &Group) -> String {
    format!("{NAME}-{}-{}", if group.ipv6 { "ipv6" } else { "ipv4" }, group.port)
}

/// True for the name of a slice of servers with another port or family.
pub(super) fn is_other_name(name: &str) -> bool {
    let rest = name.strip_prefix(NAME).unwrap_or_default();
    let port = rest.strip_prefix("-ipv4-").or_else(|| rest.strip_prefix("-ipv6-"));
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

fn slice(name: &str, ipv6: bool) -> Value {
    let mut slice = SLICES.named(NAMESPACE, name);
    meta::set_text(&mut slice, "name", name);
    slice.set(&["metadata", "labels", SERVICE_NAME], NAME);
    slice.set(&["addressType"], if ipv6 { "IPv6" } else { "IPv4" });
    slice
}

fn port(number: u16) -> Value {
    let mut port = value!({"name": "https", "protocol": "TCP"});
    port.set(&["port"], i64::from(number));
    port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn endpoints_have_the_servers_addresses() {
        let one = servers(&["192.0.2.2:6443"]);
        let expected = value!([
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]},
        ]);
        assert_eq!(endpoints(&one).get("subsets"), Some(&expected));
        assert_eq!(endpoints(&[]).get("subsets"), None);
        let shown = slices(&one).remove(0);
        assert_eq!(shown.str_at(&["addressType"]), Some("IPv4"));
        let expected = value!([{"addresses": ["192.0.2.2"], "conditions": {"ready": true}}]);
        assert_eq!(shown.get("endpoints"), Some(&expected));
        assert_eq!(slices(&servers(&["[2001:db8::1]:6443"]))[0].str_at(&["addressType"]), Some("IPv6"));
        assert_eq!(slices(&[])[0].get("endpoints"), Some(&Value::Null));
    }

    #[test]
    fn servers_are_listed_in_one_order() {
        let (some, others) = (["192.0.2.9:1", "192.0.2.10:1"], ["192.0.2.10:1", "192.0.2.9:1"]);
        assert_eq!(endpoints(&servers(&some)), endpoints(&servers(&others)));
        assert_eq!(slices(&servers(&some)), slices(&servers(&others)));
        let subsets = endpoints(&servers(&some));
        let first = &subsets.items_at(&["subsets"])[0].items_at(&["addresses"])[0];
        assert_eq!(first.str_at(&["ip"]), Some("192.0.2.10"), "by their texts");
    }

    #[test]
    fn servers_with_other_ports_have_slices_of_their_own() {
        let mixed = servers(&["192.0.2.1:6443", "192.0.2.2:7443", "192.0.2.3:7443", "[2001:db8::1]:6443"]);
        let names: Vec<String> = slices(&mixed).iter().map(|slice| meta::name(slice).to_owned()).collect();
        assert_eq!(names, ["kubernetes", "kubernetes-ipv4-6443", "kubernetes-ipv6-6443"]);
        let endpoints = endpoints(&mixed);
        let counts: Vec<usize> = endpoints
            .items_at(&["subsets"])
            .iter()
            .map(|subset| subset.items_at(&["addresses"]).len())
            .collect();
        assert_eq!(counts, [2, 2]);
        assert!(names[1..].iter().all(|name| is_other_name(name)));
        for other in ["kubernetes", "kubernetes-x7f2a", "kubernetes-ipv4-", "kubernetes-ipv4-70000"] {
            assert!(!is_other_name(other), "{other}");
        }
    }
}
