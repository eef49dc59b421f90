//! The interface of the backends, which write rules with iptables or nftables.

use std::io;

use corten_client::Key;

use crate::base::Base;
use crate::route::Routed;

/// The number of rules in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCount {
    pub table: &'static str,
    pub total: usize,
    /// The rules that the last change wrote.
    pub written: usize,
}

/// The rules of one IP family.
pub(crate) trait Backend: Send {
    /// Sets the rules that hold for all Services. The next change writes them.
    fn set_base(&mut self, base: Base);

    /// Makes the next change write all rules, because those in the kernel may differ from those that were written.
    fn distrust(&mut self);

    /// True if the next change writes all rules.
    fn is_full(&self) -> bool;

    /// True if the written rules are still in the kernel. Called often, so it is cheap.
    fn is_intact(&mut self) -> bool;

    /// Writes the rules of changed Services; a Service without ports is removed.
    fn change(&mut self, services: Vec<(Key, Vec<Routed>)>) -> io::Result<()>;

    /// The rules by table, as of the last change; empty for a backend that does not count them.
    fn rule_counts(&self) -> Vec<RuleCount>;

    /// True if there are chains or maps to remove that no rule refers to any more.
    fn has_stale(&self) -> bool;

    /// Removes stale chains and maps. To be called a while after the change.
    fn clean_up(&mut self) -> io::Result<()>;
}
