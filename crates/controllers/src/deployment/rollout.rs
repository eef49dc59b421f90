//! One reconcile of a deployment: the replica sets there shall be, and the size of each.
//!
//! Decisions are made on the replica sets themselves, in order; the differences in the end are the plan.

use std::collections::HashSet;

use corten_api::{Str, Value, meta, value};
use corten_client::{DeleteOptions, Key, kinds};
use corten_reconcile::{Action, Step};
use jiff::Timestamp;

use super::sets::{self, Set};
use super::{progress, spec};
use crate::{claims, hashes};

#[derive(Debug)]
pub(super) struct Rollout {
    /// The deployment as it shall be, including its status.
    pub(super) deployment: Value,
    /// The replica set of the current template.
    pub(super) new: Option<Set>,
    /// The others, oldest first.
    pub(super) old: Vec<Set>,
    cleaned: Vec<Set>,
    now: Timestamp,
}

impl Rollout {
    /// Decides about everything.
    pub(super) fn decide(
        deployment: &Value,
        known: &[Value],
        running: &HashSet<Str>,
        now: Timestamp,
    ) -> Rollout {
        let mut rollout = Rollout::new(deployment, known, now);
        let mut estimate = false;
        if meta::is_deleting(deployment) {
            rollout.sync_revision();
        } else {
            progress::note_pause(&mut rollout.deployment, now);
            rollout.sync_revision();
            if spec::is_paused(deployment) {
                rollout.scale();
                if spec::rollback_to(deployment).is_none() {
                    rollout.clean_up();
                }
            } else if rollout.is_scaling() {
                rollout.scale();
            } else {
                estimate = true;
                if spec::is_rolling(deployment) { rollout.roll() } else { rollout.recreate(running) }
            }
        }
        let status = progress::status(&rollout, estimate, now);
        rollout.deployment.set(&["status"], status);
        rollout
    }

    fn new(deployment: &Value, known: &[Value], now: Timestamp) -> Rollout {
        let mut old: Vec<Set> = known.iter().cloned().map(Set::known).collect();
        old.sort_by(sets::by_age);
        // Of several replica sets with the template, the oldest is the new one.
        let current = old.iter().position(|set| sets::has_template_of(&set.tree, deployment));
        let new = current.map(|at| old.remove(at));
        Rollout { deployment: deployment.clone(), new, old, cleaned: Vec::new(), now }
    }

    /// The replica sets, the new one last.
    pub(super) fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    fn wanted(&self) -> i64 {
        spec::replicas(&self.deployment)
    }

    fn allowed(&self) -> i64 {
        self.wanted() + spec::max_surge(&self.deployment)
    }

    fn total(&self) -> i64 {
        self.all().map(Set::replicas).sum()
    }

    fn next_revision(&self) -> i64 {
        self.old.iter().filter_map(Set::revision).max().unwrap_or(0).max(0) + 1
    }

    /// Updates the annotations of the new replica set, and the revision of the deployment.
    fn sync_revision(&mut self) {
        let revision = self.next_revision();
        let Some(new) = &mut self.new else { return };
        new.copy_annotations(&self.deployment);
        new.raise_revision(revision);
        let min_ready = self.deployment.at(&["spec", "minReadySeconds"]).cloned();
        if new.tree.int_at(&["spec", "minReadySeconds"]).unwrap_or(0)
            != min_ready.as_ref().and_then(Value::as_int).unwrap_or(0)
        {
            new.tree.set(&["spec", "minReadySeconds"], min_ready.unwrap_or(Value::from(0)));
        }
        note_revision(&mut self.deployment, new.revision_text());
        progress::note_found(&mut self.deployment, new.name(), self.now);
    }

    /// The replica set of the current template; created if there is none.
    fn ensure_new(&mut self) {
        if self.new.is_some() {
            return;
        }
        let revision = self.next_revision();
        let mut new = Set::new(new_set(&self.deployment));
        self.new = Some(new.clone());
        let replicas = if spec::is_rolling(&self.deployment) { self.room_for_new() } else { self.wanted() };
        new.tree.set(&["spec", "replicas"], replicas);
        new.copy_annotations(&self.deployment);
        new.raise_revision(revision);
        new.note_replicas(self.wanted(), self.allowed());
        note_revision(&mut self.deployment, new.revision_text());
        progress::note_created(&mut self.deployment, new.name(), self.now);
        self.new = Some(new);
    }

    /// True if the deployment was scaled since its replica sets were last scaled.
    fn is_scaling(&self) -> bool {
        self.all()
            .filter(|set| set.replicas() > 0)
            .filter_map(Set::desired)
            .any(|desired| desired != self.wanted())
    }

    /// The largest size of the new replica set.
    fn room_for_new(&self) -> i64 {
        let has = self.new.as_ref().map_or(0, Set::replicas);
        let room = (self.allowed() - self.total()).max(0);
        has + room.min(self.wanted() - has)
    }

    /// A step of a rolling update.
    fn roll(&mut self) {
        self.ensure_new();
        let (wanted, allowed) = (self.wanted(), self.allowed());
        let size = match self.new.as_ref().map_or(0, Set::replicas) {
            has if has < wanted => self.room_for_new(),
            _ => wanted,
        };
        let scaled = self.new.as_mut().is_some_and(|new| resize(new, size, wanted, allowed));
        if !scaled && !self.scale_down_old() && progress::is_complete(&self.deployment) {
            self.clean_up();
        }
    }

    /// Scales down the old replica sets: first their unhealthy pods, then as many as maxUnavailable allows.
    fn scale_down_old(&mut self) -> bool {
        let (wanted, allowed) = (self.wanted(), self.allowed());
        let least = wanted - spec::max_unavailable(&self.deployment);
        let unavailable = self.new.as_ref().map_or(0, |new| new.replicas() - new.available());
        let mut broken = self.total() - least - unavailable;
        if broken <= 0 {
            return false;
        }
        let mut scaled = false;
        for set in &mut self.old {
            let going = broken.min(set.replicas() - set.available());
            if broken > 0 && set.replicas() > 0 && going > 0 {
                scaled |= resize(set, set.replicas() - going, wanted, allowed);
                broken -= going;
            }
        }
        let mut spare = self.all().map(Set::available).sum::<i64>() - least;
        for set in &mut self.old {
            let going = spare.min(set.replicas());
            if going > 0 {
                scaled |= resize(set, set.replicas() - going, wanted, allowed);
                spare -= going;
            }
        }
        scaled
    }

    /// Scales all old replica sets to zero, then creates the new one.
    fn recreate(&mut self, running: &HashSet<Str>) {
        let (wanted, allowed) = (self.wanted(), self.allowed());
        let mut scaled = false;
        for set in self.old.iter_mut().filter(|set| set.replicas() > 0) {
            scaled |= resize(set, 0, wanted, allowed);
        }
        let uid = |set: &Set| Str::new(meta::uid(&set.tree));
        let old_pods = |set: &Set| set.count("replicas") > 0 || running.contains(&uid(set));
        if scaled || self.old.iter().any(old_pods) {
            return;
        }
        self.ensure_new();
        if let Some(new) = &mut self.new {
            resize(new, wanted, wanted, allowed);
        }
        if progress::is_complete(&self.deployment) {
            self.clean_up();
        }
    }

    /// Deletes old replica sets beyond the history limit.
    fn clean_up(&mut self) {
        let Some(limit) = spec::history_limit(&self.deployment) else { return };
        let mut cleanable: Vec<Set> =
            self.old.iter().filter(|set| !meta::is_deleting(&set.tree)).cloned().collect();
        let surplus = cleanable.len().saturating_sub(limit);
        cleanable.sort_by(sets::by_revision);
        cleanable.truncate(surplus);
        cleanable.retain(|set| {
            let observed = set.count("observedGeneration") >= meta::generation(&set.tree);
            set.count("replicas") == 0 && set.replicas() == 0 && observed
        });
        self.cleaned = cleanable;
    }

    /// The requests for the differences.
    pub(super) fn steps(&self) -> Vec<Step> {
        let kind = &kinds::REPLICA_SETS;
        let change = |set: &Set| match &set.was {
            Some(_) => Action::Update { kind, object: set.tree.clone(), subresource: "" },
            None => Action::Create { kind, object: set.tree.clone() },
        };
        let mut steps = Vec::new();
        steps.extend(self.new.iter().filter(|set| set.is_changed()).map(|set| Step::One(change(set))));
        let old: Vec<_> = self.old.iter().filter(|set| set.is_changed()).map(change).collect();
        let cleaned: Vec<_> = self.cleaned.iter().map(delete).collect();
        steps.extend([old, cleaned].into_iter().filter(|actions| !actions.is_empty()).map(Step::Together));
        steps
    }
}

impl Rollout {
    /// Scales the replica sets to the deployment's size, without continuing a rollout.
    fn scale(&mut self) {
        let (wanted, allowed) = (self.wanted(), self.allowed());
        if let Some(only) = self.active_or_latest() {
            resize(only, wanted, wanted, allowed);
        } else if self.is_saturated() {
            for set in self.old.iter_mut().filter(|set| set.replicas() > 0) {
                resize(set, 0, wanted, allowed);
            }
        } else if spec::is_rolling(&self.deployment) {
            self.scale_proportionally();
        }
    }

    /// The only replica set with replicas; the newest if none has any.
    fn active_or_latest(&mut self) -> Option<&mut Set> {
        let active = self.all().filter(|set| set.replicas() > 0).count();
        let mut sets = self.new.iter_mut().chain(self.old.iter_mut().rev());
        match active {
            0 => sets.next(),
            1 => sets.find(|set| set.replicas() > 0),
            _ => None,
        }
    }

    /// True if the new replica set is complete and the only one needed.
    fn is_saturated(&self) -> bool {
        let wanted = self.wanted();
        self.new.as_ref().is_some_and(|new| {
            new.replicas() == wanted && new.desired() == Some(wanted) && new.available() == wanted
        })
    }

    /// Distributes a change of the deployment's size over all replica sets, in proportion to their sizes.
    fn scale_proportionally(&mut self) {
        let (wanted, allowed) = (self.wanted(), self.allowed());
        let before = self.deployment.int_at(&["status", "replicas"]).unwrap_or(0);
        let room = if wanted > 0 { allowed } else { 0 };
        let mut sets: Vec<&mut Set> =
            self.old.iter_mut().chain(&mut self.new).filter(|set| set.replicas() > 0).collect();
        let to_add = room - sets.iter().map(|set| set.replicas()).sum::<i64>();
        sets.sort_by(|a, b| {
            // Of equals, the newer grow and the older shrink.
            let age = sets::by_age(a, b);
            b.replicas().cmp(&a.replicas()).then(if to_add > 0 { age.reverse() } else { age })
        });
        let mut added = 0;
        let mut sizes = Vec::new();
        for set in &sets {
            let share = share(set, wanted, allowed, before);
            let left = to_add - added;
            let share = if to_add > 0 { share.min(left) } else { share.max(left) };
            let share = if left == 0 { 0 } else { share };
            sizes.push(set.replicas() + share);
            added += share;
        }
        // The rounding remainder goes to the largest.
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (set, size) in sets.into_iter().zip(sizes) {
            set.note_replicas(wanted, allowed);
            resize(set, size, wanted, allowed);
        }
    }
}

/// The change in size of one replica set.
fn share(set: &Set, wanted: i64, allowed: i64, before: i64) -> i64 {
    if wanted == 0 {
        return -set.replicas();
    }
    match set.max().filter(|max| *max > 0).unwrap_or(before) {
        0 => 0,
        max => (set.replicas() as f64 * allowed as f64 / max as f64).round() as i64 - set.replicas(),
    }
}

/// Scales a replica set. Returns true if its size or annotations changed.
fn resize(set: &mut Set, size: i64, wanted: i64, allowed: i64) -> bool {
    if set.replicas() == size {
        return false;
    }
    set.tree.set(&["spec", "replicas"], size);
    set.note_replicas(wanted, allowed);
    true
}

fn note_revision(deployment: &mut Value, revision: &str) {
    let path = ["metadata", "annotations", sets::REVISION];
    if deployment.str_at(&path).unwrap_or_default() != revision {
        deployment.set(&path, revision);
    }
}

/// A replica set for the deployment's template, named by the hash of the template.
fn new_set(deployment: &Value) -> Value {
    let mut template = deployment.at(&["spec", "template"]).cloned().unwrap_or_else(Value::object);
    let hash = hashes::of(&sets::without_hash(&template), spec::collisions(deployment));
    template.set(&["metadata", "labels", sets::HASH], hash.as_str());
    let mut selector = deployment.at(&["spec", "selector"]).cloned().unwrap_or_else(Value::object);
    selector.set(&["matchLabels", sets::HASH], hash.as_str());
    let labels = template.at(&["metadata", "labels"]).cloned().unwrap_or_else(Value::object);
    let mut set = value!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": (spec::set_name(meta::name(deployment), &hash)), "namespace": (meta::namespace(deployment)),
            "labels": (labels), "ownerReferences": [(claims::reference(deployment))],
        },
        "spec": {"replicas": 0, "selector": (selector), "template": (template)},
    });
    if let Some(seconds) = deployment.at(&["spec", "minReadySeconds"]) {
        set.set(&["spec", "minReadySeconds"], seconds.clone());
    }
    set
}

fn delete(set: &Set) -> Action {
    let options = DeleteOptions { uid: Some(meta::uid(&set.tree).into()), ..DeleteOptions::default() };
    Action::Delete { kind: &kinds::REPLICA_SETS, key: Key::of(&set.tree), options }
}
