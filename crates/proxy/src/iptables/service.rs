//! The desired rules of one Service: rules in the shared chains, and chains of its own.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::names;
use crate::base::{Base, LocalPods};
use crate::route::{Routed, Target};
use crate::service::ServicePort;

/// The chains that all Services share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    FilterServices,
    FilterExternalServices,
    FilterNodePorts,
    FilterFirewall,
    NatServices,
    NatNodePorts,
}

impl Shared {
    pub fn name(self) -> &'static str {
        match self {
            Shared::FilterServices | Shared::NatServices => "KUBE-SERVICES",
            Shared::FilterExternalServices => "KUBE-EXTERNAL-SERVICES",
            Shared::FilterNodePorts | Shared::NatNodePorts => "KUBE-NODEPORTS",
            Shared::FilterFirewall => "KUBE-PROXY-FIREWALL",
        }
    }
}

pub(crate) const MARK_MASQUERADE: &str = "KUBE-MARK-MASQ";
const NOT_LOCAL: &str = " -m addrtype ! --dst-type LOCAL";

/// The desired rules of one Service in one IP family. Rules are without their chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub shared: BTreeMap<Shared, Vec<String>>,
    /// In the table `nat`.
    pub own: BTreeMap<String, Vec<String>>,
}

/// Computes the desired rules of a Service.
pub fn wanted(ports: &[Routed], base: &Base) -> Wanted {
    let mut wanted = Wanted::default();
    for routed in ports {
        wanted.lead_internal(routed, base);
        wanted.lead_external(routed, base);
        wanted.firewall(routed, base);
        wanted.reach_endpoints(routed);
    }
    if let Some((name, port)) = ports.first().and_then(|routed| health_check(&routed.port)) {
        let comment = comment(&format!("{name} health check node port"));
        wanted.share(Shared::FilterNodePorts, format!("{comment} -m tcp -p tcp --dport {port} -j ACCEPT"));
    }
    wanted
}

impl Wanted {
    fn share(&mut self, chain: Shared, rule: String) {
        self.shared.entry(chain).or_default().push(rule);
    }

    fn add(&mut self, chain: &str, rule: String) {
        self.own.entry(chain.to_owned()).or_default().push(rule);
    }

    fn lead_internal(&mut self, routed: &Routed, base: &Base) {
        let (port, name) = (&routed.port, names::shown(&routed.port.name));
        let to = destination(routed, port.cluster_ip, port.port);
        if !routed.has_internal_endpoints() {
            let (why, target) = refusal(routed, &name);
            return self.share(Shared::FilterServices, format!("{why} {to} -j {target}"));
        }
        let chain = if port.internal_local { names::local(&port.name) } else { names::cluster(&port.name) };
        let comment = comment(&format!("{name} cluster IP"));
        self.share(Shared::NatServices, format!("{comment} {to} -j {chain}"));
        let masqueraded =
            if base.masquerade_all { Some(String::new()) } else { not_from_pods(&base.local_pods) };
        if let Some(who) = masqueraded {
            self.add(&chain, format!("{comment} {to} {who}-j {MARK_MASQUERADE}"));
        }
    }

    fn lead_external(&mut self, routed: &Routed, base: &Base) {
        let (port, name) = (&routed.port, names::shown(&routed.port.name));
        let external = names::external(&port.name);
        let firewalled = routed.has_endpoints && !port.source_ranges.is_empty();
        let balanced = if firewalled { names::firewall(&port.name) } else { external.clone() };
        // The node's own addresses are never redirected, whatever a Service declares as its external IP.
        let outside = port.external_ips.iter().map(|ip| (ip, "external IP", &external, NOT_LOCAL));
        let outside =
            outside.chain(port.load_balancer_ips.iter().map(|ip| (ip, "loadbalancer IP", &balanced, "")));
        for (address, what, chain, only) in outside {
            let to = format!("{}{only}", destination(routed, *address, port.port));
            if routed.has_endpoints {
                let comment = comment(&format!("{name} {what}"));
                self.share(Shared::NatServices, format!("{comment} {to} -j {chain}"));
            }
            if !routed.has_external_endpoints() {
                let (why, target) = refusal(routed, &name);
                self.share(Shared::FilterExternalServices, format!("{why} {to} -j {target}"));
            }
        }
        if let Some(node_port) = port.node_port {
            let protocol = names::protocol(&port.name);
            let to = format!("-m {protocol} -p {protocol} --dport {node_port}");
            if routed.has_endpoints {
                self.share(Shared::NatNodePorts, format!("{} {to} -j {external}", comment(&name)));
            }
            if !routed.has_external_endpoints() {
                let (why, target) = refusal(routed, &name);
                let rule = format!("{why} -m addrtype --dst-type LOCAL {to} -j {target}");
                self.share(Shared::FilterExternalServices, rule);
            }
        }
        if routed.has_endpoints && port.is_external() {
            for rule in external_rules(routed, &name, base) {
                self.add(&external, rule);
            }
        }
    }

    /// Restricts the load balancer's addresses to their source ranges. Node ports are not restricted, as upstream.
    fn firewall(&mut self, routed: &Routed, base: &Base) {
        let (port, name) = (&routed.port, names::shown(&routed.port.name));
        if !routed.has_endpoints || port.load_balancer_ips.is_empty() || port.source_ranges.is_empty() {
            return;
        }
        let (chain, external) = (names::firewall(&port.name), names::external(&port.name));
        for address in &port.load_balancer_ips {
            let comment = comment(&format!("{name} traffic not accepted by {chain}"));
            let to = destination(routed, *address, port.port);
            self.share(Shared::FilterFirewall, format!("{comment} {to} -j DROP"));
        }
        let admitted = comment(&format!("{name} loadbalancer IP"));
        for range in &port.source_ranges {
            self.add(&chain, format!("{admitted} -s {range} -j {external}"));
        }
        // If the node has the load balancer's address, its own packets to it come from that address.
        if base.node.is_some_and(|node| port.source_ranges.iter().any(|range| range.contains(node))) {
            for address in &port.load_balancer_ips {
                self.add(&chain, format!("{admitted} -s {address} -j {external}"));
            }
        }
        let rest = format!("other traffic to {name} will be dropped by KUBE-PROXY-FIREWALL");
        self.add(&chain, comment(&rest));
    }

    fn reach_endpoints(&mut self, routed: &Routed) {
        let name = &routed.port.name;
        if !routed.cluster.is_empty() && routed.port.uses_cluster_endpoints() {
            self.spread(&names::cluster(name), routed, &routed.cluster);
        }
        if !routed.local.is_empty() && routed.port.uses_local_endpoints() {
            self.spread(&names::local(name), routed, &routed.local);
        }
        let protocol = names::protocol(name);
        for address in routed.reachable.iter().map(|target| target.address) {
            let chain = names::endpoint(name, address);
            // A pod's packets to itself have to return through the node.
            self.add(&chain, format!("-s {} -j {MARK_MASQUERADE}", address.ip()));
            let remember = match routed.port.affinity {
                Some(_) => format!("-m recent --name {chain} --set "),
                None => String::new(),
            };
            let rule = format!("{remember}-m {protocol} -p {protocol} -j DNAT --to-destination {address}");
            self.add(&chain, rule);
        }
    }

    fn spread(&mut self, chain: &str, routed: &Routed, targets: &[Target]) {
        let endpoint = |target: &Target| names::endpoint(&routed.port.name, target.address);
        if let Some(timeout) = routed.port.affinity {
            for to in targets.iter().map(endpoint) {
                let seconds = timeout.as_secs();
                let rule = format!("-m recent --name {to} --rcheck --seconds {seconds} --reap -j {to}");
                self.add(chain, rule);
            }
        }
        for (n, to) in targets.iter().map(endpoint).enumerate() {
            // The last endpoint matches all packets that no earlier one has.
            let chance = match targets.len() - n {
                1 => String::new(),
                left => format!("-m statistic --mode random --probability {:.10} ", 1.0 / left as f64),
            };
            self.add(chain, format!("{chance}-j {to}"));
        }
    }
}

fn health_check(port: &ServicePort) -> Option<(String, u16)> {
    Some((names::shown(&port.name), port.health_check_port?))
}

fn comment(text: &str) -> String {
    format!("-m comment --comment \"{text}\"")
}

fn destination(routed: &Routed, address: IpAddr, port: u16) -> String {
    let protocol = names::protocol(&routed.port.name);
    format!("-m {protocol} -p {protocol} -d {address} --dport {port}")
}

/// The comment and the verdict of packets without endpoints.
fn refusal(routed: &Routed, name: &str) -> (String, &'static str) {
    if routed.has_endpoints {
        (comment(&format!("{name} has no local endpoints")), "DROP")
    } else {
        (comment(&format!("{name} has no endpoints")), "REJECT")
    }
}

/// The rules for traffic to other addresses than the cluster IP.
fn external_rules(routed: &Routed, name: &str, base: &Base) -> Vec<String> {
    let port = &routed.port;
    let cluster = names::cluster(&port.name);
    let about = |what: &str| comment(&what.replace("{}", name));
    if !port.external_local {
        let why = about("masquerade traffic for {} external destinations");
        return vec![format!("{why} -j {MARK_MASQUERADE}"), format!("-j {cluster}")];
    }
    let mut rules = Vec::new();
    if let Some(pods) = from_pods(&base.local_pods) {
        rules.push(format!("{} {pods}-j {cluster}", about("pod traffic for {} external destinations")));
    }
    let own = "-m addrtype --src-type LOCAL";
    let why = about("masquerade LOCAL traffic for {} external destinations");
    rules.push(format!("{why} {own} -j {MARK_MASQUERADE}"));
    rules.push(format!("{} {own} -j {cluster}", about("route LOCAL traffic for {} external destinations")));
    if routed.has_external_endpoints() {
        rules.push(format!("-j {}", names::local(&port.name)));
    }
    rules
}

/// The match for packets of this node's pods; `None` if they are not detected.
fn from_pods(local: &LocalPods) -> Option<String> {
    match local {
        LocalPods::Unknown => None,
        LocalPods::Within(network) => Some(format!("-s {network} ")),
        LocalPods::Bridge(link) => Some(format!("-i {link} ")),
        LocalPods::Prefix(prefix) => Some(format!("-i {prefix}+ ")),
    }
}

fn not_from_pods(local: &LocalPods) -> Option<String> {
    from_pods(local).map(|pods| format!("! {pods}"))
}

#[cfg(test)]
mod tests;
