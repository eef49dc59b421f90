//! A set of paths into an object, as a trie.
//!
//! Invariants: the nodes of a level are sorted and unique, and a node that is not itself in the set has
//! something below it that is. So two sets are equal exactly if their tries are.

use std::cmp::Ordering;

use super::element::Element;
use crate::schema::{Kind, Struct};

use super::shape::Shape;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    /// True if the path that ends here is in the set, apart from those below it.
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl Set {
    pub const fn new() -> Set {
        Set { nodes: Vec::new() }
    }

    /// A set of paths made of field names only.
    pub fn of_fields(paths: &[&[&str]]) -> Set {
        let mut set = Set::new();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::Field((*name).into())).collect();
            set.insert(&path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of paths.
    pub fn size(&self) -> usize {
        self.nodes.iter().map(|n| usize::from(n.member) + n.children.size()).sum()
    }

    pub(super) fn find(&self, element: &Element) -> Result<usize, usize> {
        self.nodes.binary_search_by(|n| n.element.cmp(element))
    }

    pub(super) fn find_field(&self, name: &str) -> Result<usize, usize> {
        self.nodes.binary_search_by(|n| match &n.element {
            Element::Field(field) => field.as_str().cmp(name),
            _ => Ordering::Greater,
        })
    }

    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        self.find_field(name).ok().map(|i| &self.nodes[i])
    }

    pub(super) fn node(&self, element: &Element) -> Option<&Node> {
        self.find(element).ok().map(|i| &self.nodes[i])
    }

    /// Adds a path; those it passes through are not added.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.find(first) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element: first.clone(), member: false, children: Set::new() });
                at
            }
        };
        if rest.is_empty() {
            self.nodes[at].member = true;
        } else {
            self.nodes[at].children.insert(rest);
        }
    }

    pub fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.node(last).is_some_and(|n| n.member),
            [first, rest @ ..] => self.node(first).is_some_and(|n| n.children.contains(rest)),
        }
    }

    /// Adds every path of another set.
    pub fn unite(&mut self, other: Set) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        self.unite_all([other]);
    }

    /// Adds every path of many sets, at the cost of their sizes.
    pub(super) fn unite_all(&mut self, others: impl IntoIterator<Item = Set>) {
        let before = self.nodes.len();
        self.nodes.extend(others.into_iter().flat_map(|other| other.nodes));
        if self.nodes.len() > before {
            self.normalize();
        }
    }

    /// Sorts a level, and makes one node of those for the same step.
    pub(super) fn normalize(&mut self) {
        if self.nodes.is_sorted_by(|a, b| a.element < b.element) {
            return;
        }
        self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut mixed = Vec::new();
        let mut out: Vec<Node> = Vec::with_capacity(self.nodes.len());
        for node in self.nodes.drain(..) {
            match out.last_mut() {
                Some(last) if last.element == node.element => {
                    last.member |= node.member;
                    last.children.nodes.extend(node.children.nodes);
                    if mixed.last() != Some(&(out.len() - 1)) {
                        mixed.push(out.len() - 1);
                    }
                }
                _ => out.push(node),
            }
        }
        mixed.into_iter().for_each(|at| out[at].children.normalize());
        self.nodes = out;
    }

    pub fn union(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.unite(other.clone());
        out
    }

    /// Removes the paths of another set, keeping those below them.
    pub fn subtract(&mut self, other: &Set) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            if let Some(gone) = other.node(&node.element) {
                node.member &= !gone.member;
                node.children.subtract(&gone.children);
            }
            !node.is_empty()
        });
    }

    pub fn difference(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.subtract(other);
        out
    }

    /// Removes the paths of another set and everything below them.
    pub fn subtract_recursively(&mut self, other: &Set) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            let Some(gone) = other.node(&node.element) else { return true };
            if gone.member {
                return false;
            }
            node.children.subtract_recursively(&gone.children);
            !node.is_empty()
        });
    }

    pub fn recursive_difference(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.subtract_recursively(other);
        out
    }

    /// Keeps the paths at or below one of these prefixes.
    pub(super) fn retain_below(&mut self, prefixes: &[&[Option<Element>]]) {
        if prefixes.iter().any(|p| p.is_empty()) {
            return;
        }
        self.nodes.retain_mut(|node| {
            let step = |p: &&[Option<Element>]| p[0].as_ref().is_none_or(|e| *e == node.element);
            let below: Vec<_> = prefixes.iter().copied().filter(step).map(|p| &p[1..]).collect();
            if below.is_empty() {
                return false;
            }
            node.children.retain_below(&below);
            !node.is_empty()
        });
    }

    pub fn intersection(&self, other: &Set) -> Set {
        let mut out = Set::new();
        for node in &self.nodes {
            let Some(same) = other.node(&node.element) else { continue };
            let children = node.children.intersection(&same.children);
            let node = Node { element: node.element.clone(), member: node.member && same.member, children };
            if !node.is_empty() {
                out.nodes.push(node);
            }
        }
        out
    }

    /// Only the paths that have none below them.
    pub fn leaves(&self) -> Set {
        let nodes = self.nodes.iter().map(|n| Node {
            element: n.element.clone(),
            member: n.member && n.children.is_empty(),
            children: n.children.leaves(),
        });
        Set { nodes: nodes.collect() }
    }

    /// Paths as messages print them, a level's own before those below: all of them, or the first up to
    /// this total length.
    pub fn paths(&self, mut room: usize) -> Vec<String> {
        let mut out = Vec::new();
        self.print(&mut String::new(), &mut out, &mut room);
        out
    }

    fn print(&self, prefix: &mut String, out: &mut Vec<String>, room: &mut usize) {
        for node in self.nodes.iter().filter(|n| n.member) {
            if *room == 0 {
                return;
            }
            let path = format!("{prefix}{}", node.element);
            *room = room.saturating_sub(path.len());
            out.push(path);
        }
        for node in &self.nodes {
            if *room == 0 {
                return;
            }
            let length = prefix.len();
            prefix.push_str(&node.element.to_string());
            node.children.print(prefix, out, room);
            prefix.truncate(length);
        }
    }

    /// Adds the struct fields on the way: with `a.b` also `a` counts as owned.
    pub(super) fn with_named_fields(&self, shape: Shape<'_>) -> Set {
        let nodes = self.nodes.iter().map(|node| {
            let named = matches!((&node.element, shape), (Element::Field(name), Shape::Struct(s)) if s.field(name).is_some());
            let below = shape.below(&node.element);
            Node {
                element: node.element.clone(),
                member: node.member || named,
                children: below.map_or_else(|| node.children.clone(), |s| node.children.with_named_fields(s)),
            }
        });
        Set { nodes: nodes.collect() }
    }

    /// Converts a set of the time when a list, map or struct was granular to one where it is atomic.
    pub(super) fn reconcile(&mut self, schema: &Struct) {
        self.reconcile_level(Shape::Struct(schema));
    }

    fn reconcile_level(&mut self, shape: Shape<'_>) {
        for node in &mut self.nodes {
            match shape.below(&node.element) {
                Some(Shape::Leaf(kind)) => {
                    let container = matches!(kind, Kind::List(..) | Kind::Map(..) | Kind::Struct(_));
                    if container && !node.children.is_empty() {
                        node.children = Set::new();
                        node.member = true;
                    }
                }
                Some(shape) => node.children.reconcile_level(shape),
                None => {}
            }
        }
    }
}
