//! The rules in the tables, and the changes that bring them to the desired state.
//!
//! `iptables-restore` takes quadratic time in the chains of its input, so many chains are written in several inputs: first
//! Services' own chains, each Service's in one input, and the shared chains that jump to them last. Shared chains are written
//! whole, and only if one of their rules changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use corten_client::Key;

use super::names::is_of_service;
use super::service::{MARK_MASQUERADE, Shared, Wanted};
use crate::base::Base;

pub(crate) const FORWARD: &str = "KUBE-FORWARD";
pub(crate) const POSTROUTING: &str = "KUBE-POSTROUTING";
pub(crate) const FIREWALL: &str = "KUBE-FIREWALL";

const FILTER: [Shared; 4] =
    [Shared::FilterServices, Shared::FilterExternalServices, Shared::FilterNodePorts, Shared::FilterFirewall];
const NAT: [Shared; 2] = [Shared::NatServices, Shared::NatNodePorts];
/// The number of chains in one input, or slightly more.
const CHAINS_PER_INPUT: usize = 500;

#[derive(Debug, Clone, Default)]
pub struct Kept {
    services: BTreeMap<Key, Wanted>,
    /// Chains to write, and chains to delete.
    changed: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// Services with chains to write.
    touched: BTreeSet<Key>,
    rules: Rules,
    /// True if the shared chains have to be written.
    shared_changed: bool,
}

/// The number of rules: in the shared chains of each table, and in Services' own chains.
#[derive(Debug, Clone, Copy, Default)]
struct Rules {
    filter: usize,
    shared: usize,
    own: usize,
}

impl Rules {
    fn of(wanted: &Wanted) -> Rules {
        let within = |chains: &[Shared]| -> usize {
            let rules = chains.iter().filter_map(|chain| wanted.shared.get(chain));
            rules.map(Vec::len).sum()
        };
        let own = wanted.own.values().map(Vec::len).sum();
        Rules { filter: within(&FILTER), shared: within(&NAT), own }
    }

    /// Adds the rules of `new` and subtracts those of `old`.
    fn replace(&mut self, old: Rules, new: Rules) {
        self.filter = self.filter + new.filter - old.filter;
        self.shared = self.shared + new.shared - old.shared;
        self.own = self.own + new.own - old.own;
    }
}

/// The number of rules by table, and of those to write in `nat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub filter: usize,
    pub nat: usize,
    pub nat_written: usize,
}

impl Kept {
    /// Sets the desired rules of some Services.
    pub fn change(&mut self, services: impl IntoIterator<Item = (Key, Wanted)>) {
        for (service, wanted) in services {
            let had = self.services.remove(&service).unwrap_or_default();
            self.shared_changed |= had.shared != wanted.shared;
            self.rules.replace(Rules::of(&had), Rules::of(&wanted));
            for (chain, rules) in &wanted.own {
                if had.own.get(chain) != Some(rules) {
                    self.changed.insert(chain.clone());
                }
                self.gone.remove(chain);
            }
            for chain in had.own.into_keys().filter(|chain| !wanted.own.contains_key(chain)) {
                self.changed.remove(&chain);
                self.gone.insert(chain);
            }
            if wanted != Wanted::default() {
                self.touched.insert(service.clone());
                self.services.insert(service, wanted);
            }
        }
    }

    /// Marks all rules as to be written; `found` are the chains in the kernel.
    pub fn distrust<'a>(&mut self, found: impl Iterator<Item = &'a str>) {
        let wanted: BTreeSet<&String> = self.services.values().flat_map(|wanted| wanted.own.keys()).collect();
        let found = found.filter(|chain| is_of_service(chain)).map(str::to_owned);
        self.gone = found.filter(|chain| !wanted.contains(chain)).collect();
        self.changed = wanted.into_iter().cloned().collect();
        self.touched = self.services.keys().cloned().collect();
        self.shared_changed = true;
    }

    /// Marks all rules as written.
    pub fn mark_written(&mut self) {
        self.changed.clear();
        self.gone.clear();
        self.touched.clear();
        self.shared_changed = false;
    }

    pub fn count(&self) -> Count {
        let shared = if self.shared_changed { self.rules.shared } else { 0 };
        let changed = self.touched.iter().flat_map(|service| self.changed_of(service));
        let own: usize = changed.map(|(_, rules)| rules.len()).sum();
        Count {
            filter: self.rules.filter,
            nat: self.rules.shared + self.rules.own,
            nat_written: shared + own,
        }
    }

    /// The own chains of a Service that have to be written.
    fn changed_of(&self, service: &Key) -> impl Iterator<Item = (&String, &Vec<String>)> {
        let own = self.services.get(service).into_iter().flat_map(|wanted| &wanted.own);
        own.filter(|(chain, _)| self.changed.contains(*chain))
    }

    /// The inputs of `iptables-restore`, in order.
    pub fn restore_inputs(&self, base: &Base) -> Vec<String> {
        let mut restore_inputs = Vec::new();
        let mut text = OwnChains::default();
        for service in &self.touched {
            self.changed_of(service).for_each(|(chain, rules)| text.put(chain, rules));
            if text.count >= CHAINS_PER_INPUT {
                restore_inputs.push(std::mem::take(&mut text).alone(base));
            }
        }
        restore_inputs.push(if self.shared_changed {
            self.with_shared(base, &text)
        } else {
            self.with_gone(base, &text)
        });
        restore_inputs
    }

    /// The last input if the shared chains have not changed.
    fn with_gone(&self, base: &Base, own: &OwnChains) -> String {
        let headers: String = self.gone.iter().map(|chain| header(chain) + "\n").collect();
        let removals: String = self.gone.iter().map(|chain| format!("-X {chain}\n")).collect();
        own.between(base, &headers, &removals)
    }

    /// The last input if the shared chains have changed.
    fn with_shared(&self, base: &Base, own: &OwnChains) -> String {
        let mut out = String::from("*filter\n");
        let mut put = |line: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{line}");
        };
        for chain in FILTER.map(Shared::name).into_iter().chain([FORWARD]) {
            put(&header(chain));
        }
        if base.ipv4 && base.localhost_node_ports {
            put(&header(FIREWALL));
            put(&guard_loopback());
        }
        self.shared(&FILTER, &mut put);
        forward(base).iter().for_each(|line| put(line));
        put("COMMIT\n*nat");
        for chain in NAT.map(Shared::name).into_iter().chain([POSTROUTING, MARK_MASQUERADE]) {
            put(&header(chain));
        }
        own.headers.lines().for_each(&mut put);
        self.gone.iter().for_each(|chain| put(&header(chain)));
        masquerade(base).iter().for_each(|line| put(line));
        put(&mark(base));
        self.shared(&NAT, &mut put);
        own.rules.lines().for_each(&mut put);
        self.gone.iter().for_each(|chain| put(&format!("-X {chain}")));
        node_ports(base).iter().for_each(|line| put(line));
        put("COMMIT");
        out
    }

    fn shared(&self, chains: &[Shared], put: &mut impl FnMut(&str)) {
        for chain in chains {
            let rules = self.services.values().filter_map(|wanted| wanted.shared.get(chain)).flatten();
            rules.for_each(|rule| put(&format!("-A {} {rule}", chain.name())));
        }
    }
}

/// Services' own chains, for the table `nat`.
#[derive(Debug, Default)]
struct OwnChains {
    count: usize,
    headers: String,
    rules: String,
}

impl OwnChains {
    fn put(&mut self, chain: &str, rules: &[String]) {
        self.count += 1;
        self.headers += &(header(chain) + "\n");
        self.rules.extend(rules.iter().map(|rule| format!("-A {chain} {rule}\n")));
    }

    fn alone(self, base: &Base) -> String {
        self.between(base, "", "")
    }

    /// An input for `nat` with these chains. It declares the masquerading chain, which all of them may jump to.
    fn between(&self, base: &Base, headers: &str, rules: &str) -> String {
        let (masquerading, mark) = (header(MARK_MASQUERADE), mark(base));
        format!("*nat\n{masquerading}\n{}{headers}{mark}\n{}{rules}COMMIT\n", self.headers, self.rules)
    }
}

/// Declares a chain, which also empties it.
fn header(chain: &str) -> String {
    format!(":{chain} - [0:0]")
}

/// Drops packets to loopback addresses that are not from this machine, because node ports over loopback enable routing them.
fn guard_loopback() -> String {
    let why = "-m comment --comment \"block incoming localnet connections\"";
    let outside = "-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT";
    format!("-A {FIREWALL} {why} {outside} -j DROP")
}

fn forward(base: &Base) -> [String; 3] {
    let mark = format!("{:#x}", base.masquerade_mark);
    let why = "-m comment --comment \"kubernetes forwarding";
    [
        format!("-A {FORWARD} -m conntrack --ctstate INVALID -j DROP"),
        format!("-A {FORWARD} {why} rules\" -m mark --mark {mark}/{mark} -j ACCEPT"),
        format!("-A {FORWARD} {why} conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
    ]
}

fn masquerade(base: &Base) -> [String; 3] {
    let mark = format!("{:#x}", base.masquerade_mark);
    let why = "-m comment --comment \"kubernetes service traffic requiring SNAT\"";
    [
        format!("-A {POSTROUTING} -m mark ! --mark {mark}/{mark} -j RETURN"),
        format!("-A {POSTROUTING} -j MARK --xor-mark {mark}"),
        format!("-A {POSTROUTING} {why} -j MASQUERADE --random-fully"),
    ]
}

/// The rule that marks packets for masquerading.
fn mark(base: &Base) -> String {
    format!("-A {MARK_MASQUERADE} -j MARK --or-mark {:#x}", base.masquerade_mark)
}

/// The rules for node ports, which come after those for all other addresses.
fn node_ports(base: &Base) -> Vec<String> {
    let why = "-m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\"";
    let rule = |to: &str| format!("-A KUBE-SERVICES {why} {to}-j KUBE-NODEPORTS");
    let Some(addresses) = &base.node_port_addresses else {
        let but = match (base.ipv4, base.localhost_node_ports) {
            (true, true) => "",
            (true, false) => "! -d 127.0.0.0/8 ",
            (false, _) => "! -d ::1/128 ",
        };
        return vec![rule(&format!("-m addrtype --dst-type LOCAL {but}"))];
    };
    let can_be = |address: &&IpAddr| !address.is_loopback() || base.ipv4 && base.localhost_node_ports;
    addresses.iter().filter(can_be).map(|address| rule(&format!("-d {address} "))).collect()
}

#[cfg(test)]
mod tests;
