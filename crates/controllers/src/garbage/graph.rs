//! The ownership graph: a node per object with its owners, without the object's text. Pure: watch events go in, and the
//! objects that have to be processed come out.
//!
//! An owner that a reference names and that was never observed is a virtual node until it is observed, or the API
//! server says that it does not exist.

use std::collections::{HashMap, HashSet, VecDeque};

use corten_api::Str;
use corten_client::Owner;

/// The number of absent owners that are remembered.
const ABSENT: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) api_version: Str,
    pub(super) kind: Str,
    pub(super) namespace: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
}

impl Identity {
    /// The identity of the owner that a reference of an object in a namespace names.
    pub(super) fn of_owner(owner: &Owner, namespace: Str) -> Identity {
        let Owner { api_version, kind, name, uid, .. } = owner.clone();
        Identity { api_version, kind, namespace, name, uid }
    }

    /// True if a reference names this very object.
    fn is_meant_by(&self, owner: &Owner) -> bool {
        let Identity { api_version, kind, name, uid, .. } = self;
        (api_version, kind, name, uid) == (&owner.api_version, &owner.kind, &owner.name, &owner.uid)
    }
}

/// An object as it was observed.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) identity: Identity,
    pub(super) owners: Box<[Owner]>,
    pub(super) deleting: bool,
    /// It is being deleted in the foreground, after its dependents.
    pub(super) waits_for_deletion: bool,
    /// It is being deleted, after its dependents are orphaned.
    pub(super) waits_for_orphaning: bool,
}

#[derive(Debug)]
struct Node {
    facts: Facts,
    seen: bool,
    dependents: HashSet<Str>,
}

/// Work for the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// Decide whether to delete an object, or to remove its finalizer.
    Delete(Str),
    /// Orphan the dependents of an object.
    Orphan(Str),
    /// Report that an object names an owner in another namespace.
    Report(Identity, Owner),
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<Str, Node>,
    absent: HashSet<Identity>,
    absent_order: VecDeque<Identity>,
}

/// A node with the facts that decisions need.
#[derive(Debug, Clone)]
pub(super) struct NodeState {
    pub(super) facts: Facts,
    pub(super) is_virtual: bool,
    pub(super) has_dependents: bool,
    /// One of its dependents waits for its own dependents.
    pub(super) dependent_waits: bool,
}

impl Graph {
    pub(super) fn state_of(&self, uid: &str) -> Option<NodeState> {
        let node = self.nodes.get(uid)?;
        let waits = |uid: &Str| self.nodes.get(uid).is_some_and(|n| n.facts.waits_for_deletion);
        Some(NodeState {
            facts: node.facts.clone(),
            is_virtual: !node.seen,
            has_dependents: !node.dependents.is_empty(),
            dependent_waits: node.dependents.iter().any(waits),
        })
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Identity> {
        let uids = self.nodes.get(uid).map(|node| &node.dependents).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get(uid)).map(|node| node.facts.identity.clone()).collect()
    }

    /// The dependents that block the deletion of their owner, and whether they wait for their own.
    pub(super) fn blocking(&self, uid: &str) -> Vec<(Str, bool)> {
        let uids = self.nodes.get(uid).map(|node| &node.dependents).into_iter().flatten();
        let blocks = |node: &&Node| node.facts.owners.iter().any(|o| o.uid == uid && o.blocks_deletion);
        let blocking = uids.filter_map(|uid| self.nodes.get(uid)).filter(blocks);
        blocking.map(|node| (node.facts.identity.uid.clone(), node.facts.waits_for_deletion)).collect()
    }

    pub(super) fn is_absent(&self, owner: &Identity) -> bool {
        self.absent.contains(owner)
    }

    /// Remembers that an object does not exist.
    pub(super) fn note_absent(&mut self, owner: Identity) {
        if self.absent.insert(owner.clone()) {
            self.absent_order.push_back(owner);
        }
        if self.absent_order.len() > ABSENT
            && let Some(oldest) = self.absent_order.pop_front()
        {
            self.absent.remove(&oldest);
        }
    }

    /// Every observed object of a kind.
    pub(super) fn of_kind(&self, api_version: &str, kind: &str) -> Vec<Str> {
        let is = |node: &&Node| {
            let identity = &node.facts.identity;
            node.seen && identity.kind == kind && identity.api_version == api_version
        };
        self.nodes.values().filter(is).map(|node| node.facts.identity.uid.clone()).collect()
    }

    /// Stores the newest state of an object.
    pub(super) fn present(&mut self, facts: Facts) -> Vec<Work> {
        let mut work = Vec::new();
        let uid = facts.identity.uid.clone();
        let (starts_orphaning, starts_deleting) = match self.nodes.get(&uid) {
            Some(node) => (
                facts.waits_for_orphaning && !node.facts.waits_for_orphaning,
                facts.waits_for_deletion && !node.facts.waits_for_deletion,
            ),
            None => (facts.waits_for_orphaning, facts.waits_for_deletion),
        };
        self.settle_identity(&facts.identity, &mut work);
        let owners = facts.owners.clone();
        let before = match self.nodes.get_mut(&uid) {
            Some(node) => {
                node.seen = true;
                std::mem::replace(&mut node.facts, facts).owners
            }
            None => {
                self.nodes.insert(uid.clone(), Node { facts, seen: true, dependents: HashSet::new() });
                Box::default()
            }
        };
        if before != owners {
            self.change_owners(&uid, &before, &owners, &mut work);
        }
        if starts_orphaning {
            work.push(Work::Orphan(uid));
        } else if starts_deleting {
            let node = &self.nodes[&uid];
            work.extend(node.dependents.iter().cloned().map(Work::Delete));
            work.push(Work::Delete(uid));
        }
        work
    }

    /// A virtual node was observed: dependents that name another identity have to be processed.
    fn settle_identity(&self, identity: &Identity, work: &mut Vec<Work>) {
        let Some(node) = self.nodes.get(&identity.uid) else { return };
        if node.seen || node.facts.identity == *identity {
            return;
        }
        for dependent in self.partition(node, identity).1 {
            self.report(dependent, identity, work);
            work.push(Work::Delete(dependent.facts.identity.uid.clone()));
        }
    }

    fn report(&self, dependent: &Node, owner: &Identity, work: &mut Vec<Work>) {
        let of = &dependent.facts.identity;
        if owner.namespace.is_empty() || owner.namespace == of.namespace {
            return;
        }
        if let Some(reference) = dependent.facts.owners.iter().find(|o| o.uid == owner.uid) {
            work.push(Work::Report(of.clone(), reference.clone()));
        }
    }

    fn change_owners(&mut self, uid: &Str, before: &[Owner], after: &[Owner], work: &mut Vec<Work>) {
        // An object may name any number of owners: each is looked up in a set, not searched for.
        fn uids<'o>(owners: impl Iterator<Item = &'o Owner>) -> HashSet<&'o Str> {
            owners.map(|owner| &owner.uid).collect()
        }
        let blocking = uids(after.iter().filter(|new| new.blocks_deletion));
        for old in before.iter().filter(|old| old.blocks_deletion) {
            if !blocking.contains(&old.uid) && self.nodes.contains_key(&old.uid) {
                work.push(Work::Delete(old.uid.clone()));
            }
        }
        let (had, has) = (uids(before.iter()), uids(after.iter()));
        self.add_to_owners(uid, after.iter().filter(|owner| !had.contains(&owner.uid)), work);
        for old in before.iter().filter(|old| !has.contains(&old.uid)) {
            if let Some(owner) = self.nodes.get_mut(&old.uid) {
                owner.dependents.remove(uid);
            }
        }
    }

    fn add_to_owners<'a>(
        &mut self,
        uid: &Str,
        owners: impl Iterator<Item = &'a Owner>,
        work: &mut Vec<Work>,
    ) {
        let namespace = self.nodes[uid].facts.identity.namespace.clone();
        let mut doubtful = false;
        for owner in owners {
            if let Some(node) = self.nodes.get_mut(&owner.uid) {
                node.dependents.insert(uid.clone());
                let (node, dependent) = (&self.nodes[&owner.uid], &self.nodes[uid]);
                let identity = &node.facts.identity;
                let elsewhere = identity.namespace != namespace;
                if node.seen && elsewhere {
                    self.report(dependent, identity, work);
                }
                // The namespace of a virtual node is only a guess.
                doubtful |= (elsewhere && (!identity.namespace.is_empty() || !node.seen))
                    || !identity.is_meant_by(owner);
                continue;
            }
            let identity = Identity::of_owner(owner, namespace.clone());
            self.nodes.insert(owner.uid.clone(), Node::unseen(identity, uid.clone()));
            work.push(Work::Delete(owner.uid.clone()));
        }
        if doubtful {
            work.push(Work::Delete(uid.clone()));
        }
    }

    /// The API server has deleted an object.
    pub(super) fn gone(&mut self, uid: &str) -> Vec<Work> {
        let Some(identity) = self.nodes.get(uid).map(|node| node.facts.identity.clone()) else {
            return Vec::new();
        };
        self.remove(uid, identity)
    }

    /// The API server has no such object. An object that was observed under another name with the same uid stays.
    pub(super) fn absent(&mut self, identity: &Identity) -> Vec<Work> {
        let Some(node) = self.nodes.get(&identity.uid) else { return Vec::new() };
        let same = node.facts.identity == *identity;
        let (matching, others) = self.partition(node, identity);
        if (node.seen && same) || (!node.seen && others.is_empty()) {
            return self.remove(&identity.uid, identity.clone());
        }
        let alternative = others.iter().find_map(|dependent| {
            let mut owners = dependent.facts.owners.iter().filter(|owner| owner.uid == identity.uid);
            let other = owners.find(|owner| !identity.is_meant_by(owner) || same)?;
            let other = Identity::of_owner(other, dependent.facts.identity.namespace.clone());
            (other != *identity).then_some(other)
        });
        let mut work: Vec<_> =
            matching.iter().map(|node| Work::Delete(node.facts.identity.uid.clone())).collect();
        let replaces = !node.seen && same;
        if !work.is_empty() {
            self.note_absent(identity.clone());
        }
        if let (true, Some(alternative)) = (replaces, alternative)
            && let Some(node) = self.nodes.get_mut(&identity.uid)
        {
            node.facts.identity = alternative;
            work.push(Work::Delete(identity.uid.clone()));
        }
        work
    }

    fn remove(&mut self, uid: &str, identity: Identity) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        for owner in &node.facts.owners {
            if let Some(owner) = self.nodes.get_mut(&owner.uid) {
                owner.dependents.remove(uid);
            }
        }
        if !node.dependents.is_empty() {
            self.note_absent(identity);
        }
        let waits = |owner: &&Owner| self.nodes.get(&owner.uid).is_some_and(|n| n.facts.waits_for_deletion);
        let owners = node.facts.owners.iter().filter(waits).map(|owner| owner.uid.clone());
        node.dependents.iter().cloned().chain(owners).map(Work::Delete).collect()
    }

    /// The dependents of a node that name this owner, and those that name another.
    fn partition<'a>(&'a self, node: &'a Node, owner: &Identity) -> (Vec<&'a Node>, Vec<&'a Node>) {
        let (mut matching, mut others) = (Vec::new(), Vec::new());
        for dependent in node.dependents.iter().filter_map(|uid| self.nodes.get(uid)) {
            let reachable =
                owner.namespace.is_empty() || owner.namespace == dependent.facts.identity.namespace;
            let mut references = dependent.facts.owners.iter().filter(|r| r.uid == owner.uid);
            if reachable && references.clone().any(|r| owner.is_meant_by(r)) {
                matching.push(dependent);
            }
            if !reachable || references.any(|r| !owner.is_meant_by(r)) {
                others.push(dependent);
            }
        }
        (matching, others)
    }
}

impl Node {
    fn unseen(identity: Identity, dependent: Str) -> Node {
        let facts = Facts {
            identity,
            owners: Box::default(),
            deleting: false,
            waits_for_deletion: false,
            waits_for_orphaning: false,
        };
        Node { facts, seen: false, dependents: HashSet::from([dependent]) }
    }
}
