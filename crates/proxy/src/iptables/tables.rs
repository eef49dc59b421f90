//! The tables in the kernel: the one place where iptables is run.
//!
//! *Invariants:* each Service changes atomically; if `iptables-restore` fails the Services stay as they were, and the next
//! change writes all rules. Chains of other programs are never changed, except for the jumps to our own.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

use corten_client::Key;
use corten_net::namespace::Namespace;

use super::kept::{Count, FIREWALL, FORWARD, Kept, POSTROUTING};
use super::names::is_of_service;
use super::service::{MARK_MASQUERADE, Wanted, wanted};
use crate::backend::{Backend, RuleCount};
use crate::base::Base;
use crate::route::Routed;

/// The seconds to wait for the xtables lock.
const LOCK_TIMEOUT: &str = "5";
/// A chain that is missing after another program has flushed the tables.
const CANARY: &str = "KUBE-PROXY-CANARY";
const ROUTE_LOCALNET: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";

/// A jump from a built-in chain to one of ours.
struct Jump {
    table: &'static str,
    from: &'static str,
    to: &'static str,
    comment: &'static str,
    only_new: bool,
}

const fn jump(
    table: &'static str,
    from: &'static str,
    to: &'static str,
    comment: &'static str,
    only_new: bool,
) -> Jump {
    Jump { table, from, to, comment, only_new }
}

const EXTERNAL: &str = "kubernetes externally-visible service portals";
const PORTALS: &str = "kubernetes service portals";
const LOAD_BALANCER: &str = "kubernetes load balancer firewall";

const JUMPS: [Jump; 12] = [
    jump("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", EXTERNAL, true),
    jump("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", EXTERNAL, true),
    jump("filter", "INPUT", "KUBE-NODEPORTS", "kubernetes health check service ports", false),
    jump("filter", "FORWARD", "KUBE-SERVICES", PORTALS, true),
    jump("filter", "OUTPUT", "KUBE-SERVICES", PORTALS, true),
    jump("filter", "FORWARD", FORWARD, "kubernetes forwarding rules", false),
    jump("filter", "INPUT", "KUBE-PROXY-FIREWALL", LOAD_BALANCER, true),
    jump("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", LOAD_BALANCER, true),
    jump("filter", "FORWARD", "KUBE-PROXY-FIREWALL", LOAD_BALANCER, true),
    jump("nat", "OUTPUT", "KUBE-SERVICES", PORTALS, false),
    jump("nat", "PREROUTING", "KUBE-SERVICES", PORTALS, false),
    jump("nat", "POSTROUTING", POSTROUTING, "kubernetes postrouting rules", false),
];

/// The jumps that kubelets make, too: they are never removed.
const GUARDS: [Jump; 2] =
    [jump("filter", "INPUT", FIREWALL, "", false), jump("filter", "OUTPUT", FIREWALL, "", false)];

#[derive(Debug)]
pub struct Tables {
    tools: Tools,
    base: Base,
    kept: Kept,
    /// As of the last change.
    count: Count,
    is_written: bool,
}

impl Tables {
    /// Writes nothing yet. Fails if iptables is not installed.
    pub fn open(namespace: Namespace, base: Base) -> io::Result<Tables> {
        let tools = Tools { namespace, ipv4: base.ipv4 };
        tools.run("", &["--version"])?;
        Ok(Tables { tools, base, kept: Kept::default(), count: Count::default(), is_written: false })
    }

    /// Removes all our chains and jumps. Without iptables, or without our first chain, there are none.
    pub fn remove(namespace: Namespace, ipv4: bool) -> io::Result<()> {
        let tools = Tools { namespace, ipv4 };
        if tools.run("", &["-t", "nat", "-S", "KUBE-SERVICES"]).is_err() {
            return Ok(());
        }
        for jump in &JUMPS {
            if tools.has_rule(jump) {
                tools.run("", &jump.arguments("-D"))?;
            }
        }
        let shared = ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"];
        let ours = [FORWARD, POSTROUTING, MARK_MASQUERADE, CANARY];
        let is_ours = |chain: &str| shared.contains(&chain) || ours.contains(&chain) || is_of_service(chain);
        for table in ["filter", "nat", "mangle"] {
            let found = tools.chains(table)?;
            let found: Vec<&String> = found.iter().filter(|chain| is_ours(chain)).collect();
            let headers: String = found.iter().map(|chain| format!(":{chain} - [0:0]\n")).collect();
            let removal: String = found.iter().map(|chain| format!("-X {chain}\n")).collect();
            tools.restore(&format!("*{table}\n{headers}{removal}COMMIT\n"))?;
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.is_written {
            self.prepare()?;
        }
        self.kept.restore_inputs(&self.base).iter().try_for_each(|text| self.tools.restore(text))?;
        self.count = self.kept.count();
        self.kept.mark_written();
        self.is_written = true;
        Ok(())
    }

    /// Creates our chains and the jumps to them. The chains stay empty until the first change.
    fn prepare(&mut self) -> io::Result<()> {
        if self.base.ipv4 && self.base.localhost_node_ports {
            self.tools.namespace.run(|| std::fs::write(ROUTE_LOCALNET, "1"))?;
        }
        for table in ["filter", "nat", "mangle"] {
            self.tools.ensure_chain(table, CANARY)?;
        }
        for jump in JUMPS.iter().chain(&GUARDS) {
            self.tools.ensure_chain(jump.table, jump.to)?;
            if !self.tools.has_rule(jump) {
                self.tools.run("", &jump.arguments("-I"))?;
            }
        }
        let found = self.tools.chains("nat")?;
        self.kept.distrust(found.iter().map(String::as_str));
        Ok(())
    }
}

impl Backend for Tables {
    fn set_base(&mut self, base: Base) {
        if self.base != base {
            self.base = base;
            self.is_written = false;
        }
    }

    fn distrust(&mut self) {
        self.is_written = false;
    }

    fn is_full(&self) -> bool {
        !self.is_written
    }

    fn is_intact(&mut self) -> bool {
        let tables = ["filter", "nat", "mangle"];
        tables.iter().all(|table| self.tools.run("", &["-t", table, "-S", CANARY]).is_ok())
    }

    fn change(&mut self, services: Vec<(Key, Vec<Routed>)>) -> io::Result<()> {
        let services: Vec<(Key, Wanted)> =
            services.into_iter().map(|(key, ports)| (key, wanted(&ports, &self.base))).collect();
        self.kept.change(services);
        let written = self.write();
        if written.is_err() {
            self.is_written = false;
        }
        written
    }

    fn rule_counts(&self) -> Vec<RuleCount> {
        let Count { filter, nat, nat_written } = self.count;
        // Every change counts all rules of the filter table as written, as upstream does.
        vec![
            RuleCount { table: "filter", total: filter, written: filter },
            RuleCount { table: "nat", total: nat, written: nat_written },
        ]
    }

    fn has_stale(&self) -> bool {
        false
    }

    fn clean_up(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Jump {
    fn arguments(&self, action: &'static str) -> Vec<&'static str> {
        let mut arguments = vec!["-t", self.table, action, self.from];
        if self.only_new {
            arguments.extend(["-m", "conntrack", "--ctstate", "NEW"]);
        }
        if !self.comment.is_empty() {
            arguments.extend(["-m", "comment", "--comment", self.comment]);
        }
        arguments.extend(["-j", self.to]);
        arguments
    }
}

/// The iptables programs of one IP family, run in one namespace.
#[derive(Debug)]
struct Tools {
    namespace: Namespace,
    ipv4: bool,
}

impl Tools {
    /// Runs `iptables`, `iptables-save` or `iptables-restore`.
    fn run(&self, companion: &str, arguments: &[&str]) -> io::Result<Output> {
        self.run_with(companion, arguments, None)
    }

    fn run_with(&self, companion: &str, arguments: &[&str], input: Option<&str>) -> io::Result<Output> {
        let program = format!("{}{companion}", if self.ipv4 { "iptables" } else { "ip6tables" });
        let patience: &[&str] = if companion == "-save" { &[] } else { &["-w", LOCK_TIMEOUT] };
        let output = self.namespace.run(|| {
            let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
            let mut child = Command::new(&program)
                .args(patience)
                .args(arguments)
                .stdin(stdin)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| io::Error::new(error.kind(), format!("cannot start {program}: {error}")))?;
            if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
                // A program that stops reading early reports why when it exits.
                let _ = stdin.write_all(input.as_bytes());
            }
            child.wait_with_output()
        })?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("{program}: {}", said.trim_end())))
    }

    fn restore(&self, text: &str) -> io::Result<()> {
        self.run_with("-restore", &["--noflush", "--counters"], Some(text)).map(drop)
    }

    fn ensure_chain(&self, table: &str, chain: &str) -> io::Result<()> {
        if self.run("", &["-t", table, "-S", chain]).is_ok() {
            return Ok(());
        }
        self.run("", &["-t", table, "-N", chain]).map(drop)
    }

    /// True if the rule exists. Errors count as absent: adding the rule reports them.
    fn has_rule(&self, jump: &Jump) -> bool {
        self.run("", &jump.arguments("-C")).is_ok()
    }

    /// The names of a table's chains.
    fn chains(&self, table: &str) -> io::Result<Vec<String>> {
        let saved = self.run("-save", &["-t", table])?;
        let text = String::from_utf8_lossy(&saved.stdout);
        let headers = text.lines().filter_map(|line| line.strip_prefix(':'));
        Ok(headers.filter_map(|header| header.split(' ').next()).map(str::to_owned).collect())
    }
}
