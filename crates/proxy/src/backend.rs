//! What every way of writing rules can do.

use std::io;

use corten_client::Key;

use crate::base::Base;
use crate::iptables::kept::Count;
use crate::route::Routed;

/// The rules of one IP family.
pub(crate) trait Backend: Send {
    /// Sets what holds for all Services. Written with the next change.
    fn set_base(&mut self, base: Base);

    /// Everything is written anew with the next change, whatever happened to the rules.
    fn distrust(&mut self);

    /// Whether the next change writes everything.
    fn is_full(&self) -> bool;

    /// Whether nobody removed what was written. Asked often, so it is cheap.
    fn is_intact(&mut self) -> bool;

    /// Writes what follows from some Services' ports; those without ports are gone.
    fn change(&mut self, services: Vec<(Key, Vec<Routed>)>) -> io::Result<()>;

    /// How many rules of iptables there are, where that is what they are.
    fn count(&self) -> Option<Count>;

    /// Whether there is something to remove that nothing leads to any more.
    fn has_stale(&self) -> bool;

    /// Removes it. To be called a while after the change.
    fn clean_up(&mut self) -> io::Result<()>;
}
