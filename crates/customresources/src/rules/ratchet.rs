//! Toleration of errors of unchanged values.
//!
//! A value is compared with its old value at most once, however many rules fail below it.

use std::cell::OnceCell;

use corten_api::Value;

use crate::correlate::is_unchanged;
use crate::schema::Node;

/// A value and its old value.
pub(super) struct Correlated<'v> {
    node: &'v Node,
    new: &'v Value,
    pub(super) old: &'v Value,
    is_unchanged: OnceCell<bool>,
}

impl<'v> Correlated<'v> {
    pub(super) fn new(node: &'v Node, new: &'v Value, old: &'v Value) -> Correlated<'v> {
        Correlated { node, new, old, is_unchanged: OnceCell::new() }
    }

    fn is_unchanged(&self) -> bool {
        *self.is_unchanged.get_or_init(|| is_unchanged(self.node, self.new, self.old))
    }
}

/// The correlation of a value, or else that of the nearest value around it that has one.
#[derive(Clone, Copy)]
pub(super) struct Ratchet<'r, 'v> {
    pub(super) current: Option<&'r Correlated<'v>>,
    pub(super) parent: Option<&'r Correlated<'v>>,
}

impl<'r, 'v> Ratchet<'r, 'v> {
    pub(super) const NONE: Ratchet<'static, 'static> = Ratchet { current: None, parent: None };

    /// Returns true if errors of the value are tolerated.
    pub(super) fn tolerates(&self) -> bool {
        self.current.or(self.parent).is_some_and(Correlated::is_unchanged)
    }

    /// The correlation of a part, whose own correlation is `part`.
    pub(super) fn below<'s>(&self, part: Option<&'s Correlated<'v>>) -> Ratchet<'s, 'v>
    where
        'r: 's,
    {
        match self.current {
            Some(current) => Ratchet { current: part, parent: Some(current) },
            None => *self,
        }
    }
}
