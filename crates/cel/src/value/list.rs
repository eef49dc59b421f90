//! Lists: created by an expression, parts of an object, or concatenations.
//!
//! A concatenation copies nothing, because its cost is constant: an expression could otherwise build lists that are far
//! larger than its cost. Invariant: no part of a concatenation is empty. Concatenations are walked and dropped without
//! recursion, because their depth is bounded only by the cost of an evaluation.

use std::sync::Arc;

use super::{Value, depth_around, tree};
use crate::error::{Error, Result};
use crate::schema::{ListKind, Schema};

#[derive(Clone, Debug)]
pub enum List<'a> {
    /// With its depth.
    Items(Arc<[Value<'a>]>, u32),
    /// The union of lists of a kind that merges, which keeps that kind.
    Merged(Arc<Merged<'a>>),
    /// A list that a comprehension builds.
    Growing(Arc<Growing<'a>>),
    /// An array of an object without a schema.
    Plain(&'a [corten_api::Value]),
    /// An array with its schema, which is that of the array.
    Typed(&'a [corten_api::Value], &'a Schema),
    Joined(Arc<Joined<'a>>),
}

#[derive(Debug)]
pub struct Merged<'a> {
    pub(super) items: Vec<Value<'a>>,
    pub(super) kind: &'a ListKind,
    depth: u32,
}

/// A list that only the accumulator of a comprehension holds.
#[derive(Clone, Debug, Default)]
pub struct Growing<'a> {
    items: Vec<Value<'a>>,
    depth: u32,
}

impl<'a> Growing<'a> {
    pub(crate) fn push(&mut self, item: Value<'a>) {
        self.depth = self.depth.max(item.depth() + 1);
        self.items.push(item);
    }
}

/// Two lists, neither of them empty.
#[derive(Debug)]
pub struct Joined<'a> {
    left: List<'a>,
    right: List<'a>,
    length: usize,
    depth: u32,
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let mut pending = vec![std::mem::take(&mut self.left), std::mem::take(&mut self.right)];
        while let Some(list) = pending.pop() {
            if let List::Joined(joined) = list
                && let Ok(mut joined) = Arc::try_unwrap(joined)
            {
                pending.push(std::mem::take(&mut joined.left));
                pending.push(std::mem::take(&mut joined.right));
            }
        }
    }
}

impl Default for List<'_> {
    fn default() -> Self {
        List::Plain(&[])
    }
}

impl<'a> List<'a> {
    /// A list that an expression created.
    pub fn of(items: Arc<[Value<'a>]>) -> List<'a> {
        let depth = depth_around(items.iter());
        List::Items(items, depth)
    }

    /// The union of lists of a kind that merges.
    pub(super) fn merged(items: Vec<Value<'a>>, kind: &'a ListKind) -> List<'a> {
        let depth = depth_around(items.iter());
        List::Merged(Arc::new(Merged { items, kind, depth }))
    }

    pub(super) fn depth(&self) -> u32 {
        match self {
            List::Items(_, depth) => *depth,
            List::Merged(merged) => merged.depth,
            List::Growing(growing) => growing.depth,
            List::Joined(joined) => joined.depth,
            List::Plain(_) | List::Typed(..) => 0,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            List::Items(items, _) => items.len(),
            List::Merged(merged) => merged.items.len(),
            List::Growing(growing) => growing.items.len(),
            List::Plain(items) | List::Typed(items, _) => items.len(),
            List::Joined(joined) => joined.length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for the zero value: an empty list. Lists with a schema have none.
    pub(super) fn is_zero(&self) -> bool {
        !matches!(self, List::Typed(..)) && self.is_empty()
    }

    /// The item at a position. Items of an object that contradicts its schema are errors.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>>> {
        let (mut list, mut index) = (self, index);
        loop {
            match list {
                List::Items(items, _) => return items.get(index).cloned().map(Ok),
                List::Merged(merged) => return merged.items.get(index).cloned().map(Ok),
                List::Growing(growing) => return growing.items.get(index).cloned().map(Ok),
                List::Plain(items) => return items.get(index).map(|item| Ok(tree::plain(item))),
                List::Typed(items, schema) => return items.get(index).map(|item| tree::item(item, schema)),
                List::Joined(joined) => {
                    let left = joined.left.len();
                    if index < left {
                        list = &joined.left;
                    } else {
                        index -= left;
                        list = &joined.right;
                    }
                }
            }
        }
    }

    pub fn iter(&self) -> Iter<'_, 'a> {
        Iter { current: None, pending: vec![self] }
    }

    /// This list followed by another, in constant time. Lists with a schema merge instead (`tree::add`).
    pub fn join(&self, other: &List<'a>) -> Result<List<'a>> {
        if matches!(self, List::Typed(..) | List::Merged(_)) {
            return tree::add(self, self.kind(), other);
        }
        if self.is_empty() {
            return Ok(other.clone());
        }
        if other.is_empty() {
            return Ok(self.clone());
        }
        let length = self.len().checked_add(other.len()).ok_or(Error::Cancelled)?;
        let depth = self.depth().max(other.depth());
        Ok(List::Joined(Arc::new(Joined { left: self.clone(), right: other.clone(), length, depth })))
    }

    /// True if an item equals a value.
    ///
    /// Items of lists with a schema decide by their own rules, which can fail.
    pub fn contains(&self, value: &Value<'a>) -> Result<bool> {
        if let List::Joined(_) = self {
            return self.parts().try_fold(false, |found, part| Ok(found || part.contains(value)?));
        }
        let typed = matches!(self, List::Typed(..));
        let mut error = None;
        for item in self.iter() {
            let outcome = if typed {
                item.and_then(|item| super::equality::direct(&item, value))
            } else {
                item.and_then(|item| super::equality::direct(value, &item)).or_else(Error::unless_cancelled)
            };
            match outcome {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        error.map_or(Ok(false), Err)
    }

    /// The lists that a concatenation consists of, first to last.
    fn parts(&self) -> impl Iterator<Item = &List<'a>> {
        let mut pending = vec![self];
        std::iter::from_fn(move || {
            loop {
                match pending.pop()? {
                    List::Joined(joined) => pending.extend([&joined.right, &joined.left]),
                    part => return Some(part),
                }
            }
        })
    }

    /// The kind of list that its schema declares.
    pub(super) fn kind(&self) -> Option<&'a ListKind> {
        match self {
            List::Typed(_, schema) => schema.list_kind(),
            List::Merged(merged) => Some(merged.kind),
            _ => None,
        }
    }
}

/// Items of a list, without recursion.
pub struct Iter<'l, 'a> {
    current: Option<(&'l List<'a>, usize)>,
    pending: Vec<&'l List<'a>>,
}

impl<'a> Iterator for Iter<'_, 'a> {
    type Item = Result<Value<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((list, at)) = &mut self.current {
                if let Some(item) = list.get(*at) {
                    *at += 1;
                    return Some(item);
                }
                self.current = None;
            }
            match self.pending.pop()? {
                List::Joined(joined) => self.pending.extend([&joined.right, &joined.left]),
                list => self.current = Some((list, 0)),
            }
        }
    }
}
