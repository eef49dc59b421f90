//! The parts of the table that are the same for all Services: the base chains, and the lookups in maps.

use std::net::IpAddr;

use corten_net::Cidr;
use corten_net::nftables::{Element, Family, Field, Hook, Key, MapsTo, Rule, Set, Transaction, Type};

use super::TABLE;
use super::service::{Map, REJECT};
use crate::base::{Base, LocalPods};

const NODE_PORT_IPS: &str = "nodeport-ips";
const SERVICE_CIDRS: &str = "service-cidrs";

const BEFORE_DESTINATION: i32 = -110;
const DESTINATION: i32 = -100;
const FILTER: i32 = 0;
const SOURCE: i32 = 100;

const WHERE_TO: [Field; 3] = [Field::Destination, Field::Protocol, Field::DestinationPort];
const WHICH_PORT: [Field; 2] = [Field::Protocol, Field::DestinationPort];
/// The IDs of optional sets within the transaction, apart from those of the maps.
const SETS: u32 = 100;

/// A match for packets of this node's pods; `None` if they are not detected.
pub(crate) fn from_pods(local: &LocalPods, rule: Rule) -> Option<Rule> {
    match local {
        LocalPods::Unknown => None,
        LocalPods::Within(network) => Some(rule.from_network(*network)),
        LocalPods::Bridge(link) => Some(rule.came_through(link)),
        LocalPods::Prefix(prefix) => Some(rule.came_through_any(prefix)),
    }
}

fn not_from_pods(local: &LocalPods, rule: Rule) -> Option<Rule> {
    match local {
        LocalPods::Unknown => None,
        LocalPods::Within(network) => Some(rule.not_from_network(*network)),
        LocalPods::Bridge(link) => Some(rule.did_not_come_through(link)),
        LocalPods::Prefix(prefix) => Some(rule.did_not_come_through_any(prefix)),
    }
}

impl Base {
    pub(crate) fn family(&self) -> Family {
        if self.ipv4 { Family::Ipv4 } else { Family::Ipv6 }
    }

    /// Begins the transaction that creates or replaces the table.
    pub(crate) fn table(&self) -> Transaction {
        let mut table = Transaction::replacing_in(self.family(), TABLE);
        self.chains(&mut table);
        self.sets(&mut table);
        self.masquerading(&mut table);
        self.refusing(&mut table);
        self.leading(&mut table);
        table
    }

    fn chains(&self, table: &mut Transaction) {
        for (name, kind, hook, priority) in [
            ("filter-prerouting-pre-dnat", "filter", Hook::Prerouting, BEFORE_DESTINATION),
            ("filter-output-pre-dnat", "filter", Hook::Output, BEFORE_DESTINATION),
            ("filter-input", "filter", Hook::Input, FILTER),
            ("filter-forward", "filter", Hook::Forward, FILTER),
            ("filter-output", "filter", Hook::Output, FILTER),
            ("nat-prerouting", "nat", Hook::Prerouting, DESTINATION),
            ("nat-output", "nat", Hook::Output, DESTINATION),
            ("nat-postrouting", "nat", Hook::Postrouting, SOURCE),
        ] {
            table.base_chain(name, kind, hook, priority);
        }
        for name in [
            "nodeport-endpoints-check",
            "service-endpoints-check",
            "firewall-check",
            "services",
            "masquerading",
            "cluster-ips-check",
            REJECT,
        ] {
            table.chain(name);
        }
        for (from, to) in [
            ("filter-input", "nodeport-endpoints-check"),
            ("filter-input", "service-endpoints-check"),
            ("filter-forward", "service-endpoints-check"),
            ("filter-output", "service-endpoints-check"),
            ("filter-prerouting-pre-dnat", "firewall-check"),
            ("filter-output-pre-dnat", "firewall-check"),
            ("filter-forward", "cluster-ips-check"),
            ("filter-output", "cluster-ips-check"),
        ] {
            table.rule(from, &Rule::of(self.family()).begins_connection().jump(to));
        }
        for (from, to) in
            [("nat-output", "services"), ("nat-prerouting", "services"), ("nat-postrouting", "masquerading")]
        {
            table.rule(from, &Rule::of(self.family()).jump(to));
        }
    }

    fn sets(&self, table: &mut Transaction) {
        let address = if self.ipv4 { Type::Ipv4 } else { Type::Ipv6 };
        let where_to = [address, Type::Protocol, Type::Port];
        let which_port = [Type::Protocol, Type::Port];
        let hairpin = [address, address, Type::Protocol, Type::Port];
        let sets: [(&str, &[Type], MapsTo<'_>); 9] = [
            (Map::ClusterIps.name(), &[address], MapsTo::Nothing),
            (Map::ServiceIps.name(), &where_to, MapsTo::Verdict),
            (Map::ExternalIps.name(), &where_to, MapsTo::Verdict),
            (Map::FirewallIps.name(), &where_to, MapsTo::Verdict),
            (Map::NoEndpointServices.name(), &where_to, MapsTo::Verdict),
            (Map::NoEndpointExternalIps.name(), &where_to, MapsTo::Verdict),
            (Map::NoEndpointNodePorts.name(), &which_port, MapsTo::Verdict),
            (Map::ServiceNodePorts.name(), &which_port, MapsTo::Verdict),
            (Map::HairpinConnections.name(), &hairpin, MapsTo::Nothing),
        ];
        for (id, (name, key, maps_to)) in (1..).zip(sets) {
            table.set(id, &Set { name, key, maps_to, intervals: false, timeout: None });
        }
        if let Some(addresses) = &self.node_port_addresses {
            let set = Set {
                name: NODE_PORT_IPS,
                key: &[address],
                maps_to: MapsTo::Nothing,
                intervals: false,
                timeout: None,
            };
            table.set(SETS, &set);
            let open = addresses.iter().filter(|address| !address.is_loopback());
            let open: Vec<Element> =
                open.map(|address| Element::Member(Key::new().address(*address))).collect();
            table.add_elements(NODE_PORT_IPS, &open);
        }
        if !self.service_cidrs.is_empty() {
            table.networks(SETS + 1, SERVICE_CIDRS, self.ipv4, &self.service_cidrs);
        }
    }

    fn masquerading(&self, table: &mut Transaction) {
        let mark = self.masquerade_mark;
        table.rule("masquerading", &Rule::of(self.family()).is_marked(mark).flip_mark(mark).masquerade());
        // A pod drops packets from its own address, so packets of a pod to itself are masqueraded.
        let itself = [Field::Source, Field::Destination, Field::Protocol, Field::DestinationPort];
        let hairpin =
            Rule::of(self.family()).was_redirected().in_set(&itself, Map::HairpinConnections.name());
        table.rule("masquerading", &hairpin.masquerade());
    }

    fn refusing(&self, table: &mut Transaction) {
        table.rule(REJECT, &Rule::of(self.family()).reject());
        let to_service = Rule::of(self.family()).judged_by(&WHERE_TO, Map::NoEndpointServices.name());
        table.rule("service-endpoints-check", &to_service);
        let outside = Rule::of(self.family()).not_to_local();
        let to_external = outside.judged_by(&WHERE_TO, Map::NoEndpointExternalIps.name());
        table.rule("service-endpoints-check", &to_external);
        let to_node = self.to_node_ports(false);
        let to_node = to_node.judged_by(&WHICH_PORT, Map::NoEndpointNodePorts.name());
        table.rule("nodeport-endpoints-check", &to_node);
        let firewalled = Rule::of(self.family()).judged_by(&WHERE_TO, Map::FirewallIps.name());
        table.rule("firewall-check", &firewalled);
        // Packets that still go to a cluster IP here were sent to a port that the Service does not have.
        let to_cluster_ip = Rule::of(self.family()).in_set(&[Field::Destination], Map::ClusterIps.name());
        table.rule("cluster-ips-check", &to_cluster_ip.reject());
        if !self.service_cidrs.is_empty() {
            // Addresses of the node itself are exempt: it may serve a Service that another proxy handles.
            table.rule("cluster-ips-check", &Rule::of(self.family()).to_local().back());
            let unallocated = Rule::of(self.family()).in_set(&[Field::Destination], SERVICE_CIDRS);
            table.rule("cluster-ips-check", &unallocated.drop());
        }
    }

    fn leading(&self, table: &mut Transaction) {
        let to_cluster_ip = Rule::of(self.family()).in_set(&[Field::Destination], Map::ClusterIps.name());
        let masqueraded = if self.masquerade_all {
            Some(to_cluster_ip)
        } else {
            not_from_pods(&self.local_pods, to_cluster_ip)
        };
        if let Some(masqueraded) = masqueraded {
            table.rule("services", &masqueraded.mark(self.masquerade_mark));
        }
        table.rule("services", &Rule::of(self.family()).judged_by(&WHERE_TO, Map::ServiceIps.name()));
        // The node's own addresses are never redirected, whatever a Service declares as its external IP.
        let outside = Rule::of(self.family()).not_to_local();
        table.rule("services", &outside.judged_by(&WHERE_TO, Map::ExternalIps.name()));
        let to_node = self.to_node_ports(true);
        table.rule("services", &to_node.judged_by(&WHICH_PORT, Map::ServiceNodePorts.name()));
    }

    /// Matches addresses where node ports are open. `check_local` is false for packets that are known to be for the node.
    fn to_node_ports(&self, check_local: bool) -> Rule {
        if self.node_port_addresses.is_some() {
            return Rule::of(self.family()).in_set(&[Field::Destination], NODE_PORT_IPS);
        }
        let rule = if check_local { Rule::of(self.family()).to_local() } else { Rule::of(self.family()) };
        rule.not_to_network(loopback(self.ipv4))
    }
}

fn loopback(ipv4: bool) -> Cidr {
    let (address, prefix): (IpAddr, u8) =
        if ipv4 { ([127, 0, 0, 0].into(), 8) } else { (std::net::Ipv6Addr::LOCALHOST.into(), 128) };
    Cidr::new(address, prefix).unwrap_or(Cidr::single(address))
}
