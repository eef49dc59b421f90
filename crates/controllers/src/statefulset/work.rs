//! The actions on the pods of a stateful set: first the replicas, in order; then condemned pods, the last first; then
//! pods of an old revision, the last first.
//!
//! With ordered management, a reconcile does one thing and waits for each pod to be available before it continues; with
//! parallel management it does not wait.

use corten_api::{Value, meta};
use corten_client::{Object, kinds};
use corten_reconcile::{Action, Event, Step};
use jiff::Timestamp;

use super::retention::Owners;
use super::{COMPONENT, World, events, identity, min_ready, update};
use crate::pods::{self, Pod};

/// The actions of one reconcile.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) steps: Vec<Step>,
    pub(super) events: Vec<Event>,
    /// The deletions of pods of an old revision, last of all.
    pub(super) outdated: Vec<Action>,
}

/// A replica.
#[derive(Debug)]
pub(super) enum Replica {
    /// It is yet to be created.
    Missing(i64),
    There(i64, Pod),
}

/// The actions on one pod.
#[derive(Debug, Default)]
struct Turn {
    actions: Vec<Action>,
    events: Vec<Event>,
    /// With ordered management, later pods wait.
    waits: bool,
    /// An action is impossible: no later one is taken.
    fails: bool,
}

impl World {
    /// The replicas in order, and the condemned pods, the last first.
    pub(super) fn members(&self) -> (Vec<Replica>, Vec<Pod>) {
        let ordinals = identity::ordinals(&self.set);
        let mut there: Vec<Option<Pod>> = ordinals.clone().map(|_| None).collect();
        let mut condemned = Vec::new();
        for pod in self.pods.owned.iter().cloned().map(Pod::from) {
            let Some(ordinal) = identity::ordinal(&pod.object.key.name) else { continue };
            match usize::try_from(ordinal - ordinals.start).ok().and_then(|at| there.get_mut(at)) {
                Some(place) => *place = Some(pod),
                None => condemned.push((ordinal, pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let replicas = ordinals.zip(there).map(|(ordinal, pod)| match pod {
            Some(pod) => Replica::There(ordinal, pod),
            None => Replica::Missing(ordinal),
        });
        (replicas.collect(), condemned.into_iter().map(|(_, pod)| pod).collect())
    }

    /// A new pod; below the partition of the current revision.
    fn new_pod(&self, ordinal: i64) -> Value {
        let set = &self.set;
        let start = identity::ordinals(set).start;
        let old = match update::partition(set) {
            Some(partition) => partition,
            None if update::is_rolling(set) => set.int_at(&["status", "currentReplicas"]).unwrap_or(0),
            None => 0,
        };
        let is_old = ordinal < start + old;
        let revision = if is_old { &self.revisions.current } else { &self.revisions.update };
        identity::new_pod(set, revision, ordinal)
    }

    fn keeps_order(&self) -> bool {
        self.set.str_at(&["spec", "podManagementPolicy"]) != Some("Parallel")
    }

    pub(super) fn is_available(&self, pod: &Pod, now: Timestamp) -> bool {
        pod.is_available(min_ready(&self.set), now)
    }

    /// The actions of this reconcile.
    pub(super) fn work(&self, now: Timestamp) -> Work {
        let mut work = Work::default();
        if meta::is_deleting(&self.set) {
            return work;
        }
        let (replicas, condemned) = self.members();
        let turns = replicas.iter().map(|replica| self.keep(replica, now));
        if !work.take(turns, self.keeps_order()) {
            return work;
        }
        let owners = condemned.iter().map(|pod| self.settle_condemned(pod));
        if !work.take(owners, self.keeps_order()) {
            return work;
        }
        let first = self.first_unavailable(&replicas, &condemned, now);
        let turns = condemned.iter().map(|pod| self.condemn(pod, first.as_deref(), now));
        if work.take(turns, self.keeps_order()) && update::is_rolling(&self.set) {
            work.outdated = update::outdated(self, &replicas, now);
            work.steps.extend(work.outdated.iter().cloned().map(Step::One));
        }
        work
    }

    /// The actions on a replica.
    fn keep(&self, replica: &Replica, now: Timestamp) -> Turn {
        let (ordinal, pod) = match replica {
            Replica::Missing(ordinal) => return self.make(*ordinal),
            Replica::There(ordinal, pod) => (*ordinal, pod),
        };
        let mut turn = Turn::default();
        if pod.is_finished() {
            // Whatever its exit codes: it is created again after its deletion.
            turn.actions.extend((!pod.object.deleting).then(|| pods::delete(pod)));
            turn.waits = true;
            return turn;
        }
        let owners = self.owners(&pod.object.key.name, &pod.object.uid);
        let is_pending = pod.view.phase == "Pending";
        if is_pending {
            match self.missing_claims(ordinal) {
                Ok(actions) => turn.actions.extend(actions),
                Err((actions, _)) => {
                    return Turn { actions, waits: true, fails: true, ..turn };
                }
            }
            self.settle_claims(&owners, ordinal, &mut turn);
        }
        let is_running = pod.view.phase == "Running" && pod.view.ready;
        turn.waits = pod.object.deleting || !is_running || !self.is_available(pod, now);
        if !(turn.waits && self.keeps_order()) {
            self.correct(ordinal, pod, !is_pending, &owners, &mut turn);
        }
        turn
    }

    /// Creates a pod, after its claims.
    fn make(&self, ordinal: i64) -> Turn {
        let name = identity::pod_name(&self.set, ordinal);
        let owners = self.owners(&name, "");
        let mut turn = Turn { waits: true, ..Turn::default() };
        if self.claims_of(ordinal).any(|claim| owners.blocks_creation(claim)) {
            return turn;
        }
        match self.missing_claims(ordinal) {
            Ok(actions) => turn.actions = actions,
            Err((actions, why)) => {
                let event = events::failed(&self.set, "Create", &name, &why);
                return Turn { actions, events: vec![event], fails: true, ..turn };
            }
        }
        turn.actions.push(Action::Create { kind: &kinds::PODS, object: self.new_pod(ordinal) });
        self.settle_claims(&owners, ordinal, &mut turn);
        turn
    }

    /// Corrects a pod's identity, volumes and claims.
    fn correct(&self, ordinal: i64, pod: &Pod, with_claims: bool, owners: &Owners, turn: &mut Turn) {
        let set = &self.set;
        let has_identity = identity::has_identity(set, &pod.object, ordinal);
        let has_claim_volumes = identity::has_claim_volumes(set, pod, ordinal);
        let is_settled = !with_claims || self.claims_of(ordinal).all(|claim| owners.is_settled(claim));
        if has_identity && has_claim_volumes && is_settled {
            return;
        }
        let mut object = pod.object.tree();
        identity::set_identity(set, ordinal, &mut object);
        if !has_claim_volumes {
            identity::set_claim_volumes(set, ordinal, &mut object);
            match self.missing_claims(ordinal) {
                Ok(actions) => turn.actions.extend(actions),
                Err((actions, why)) => {
                    turn.actions.extend(actions);
                    turn.events.push(events::failed(set, "Update", &pod.object.key.name, &why));
                    turn.fails = true;
                    return;
                }
            }
        }
        if !is_settled {
            self.settle_claims(owners, ordinal, turn);
        }
        turn.actions.push(Action::Update { kind: &kinds::PODS, object, subresource: "" });
    }

    /// A condemned pod takes its claims along, if that is the policy.
    fn settle_condemned(&self, pod: &Pod) -> Turn {
        let mut turn = Turn::default();
        let name = &pod.object.key.name;
        if let Some(ordinal) = identity::ordinal(name) {
            let owners = self.owners(name, &pod.object.uid);
            if !self.claims_of(ordinal).all(|claim| owners.is_settled(claim)) {
                self.settle_claims(&owners, ordinal, &mut turn);
            }
        }
        turn
    }

    /// The actions on a condemned pod.
    fn condemn(&self, pod: &Pod, first_unavailable: Option<&str>, now: Timestamp) -> Turn {
        let mut turn = Turn::default();
        if pod.object.deleting {
            turn.waits = true;
            return turn;
        }
        let is_running = pod.view.phase == "Running" && self.is_available(pod, now);
        let is_first = first_unavailable == Some(pod.object.key.name.as_str());
        turn.waits = true;
        if is_running || is_first || !self.keeps_order() {
            turn.actions.push(pods::delete(pod));
        }
        turn
    }

    /// The first unavailable pod: of the replicas, then of the condemned ones.
    fn first_unavailable(&self, replicas: &[Replica], condemned: &[Pod], now: Timestamp) -> Option<String> {
        let is_unavailable = |pod: &Pod| pod.object.deleting || !self.is_available(pod, now);
        let of_replica = |replica: &Replica| match replica {
            Replica::Missing(ordinal) => Some(identity::pod_name(&self.set, *ordinal)),
            Replica::There(_, pod) => is_unavailable(pod).then(|| pod.object.key.name.to_string()),
        };
        replicas.iter().find_map(of_replica).or_else(|| {
            let found = condemned.iter().rev().find(|pod| is_unavailable(pod));
            found.map(|pod| pod.object.key.name.to_string())
        })
    }

    fn owners<'a>(&'a self, pod_name: &'a str, pod_uid: &'a str) -> Owners<'a> {
        Owners { set: &self.set, pod_name, pod_uid }
    }

    /// The existing claims of a pod.
    fn claims_of(&self, ordinal: i64) -> impl Iterator<Item = &Object> {
        identity::claim_names(&self.set, ordinal)
            .filter_map(|(_, name)| self.claims.get(name.as_str()).map(AsRef::as_ref))
    }

    /// The actions that create the missing claims of a pod; as an error with a message if some are terminating.
    fn missing_claims(&self, ordinal: i64) -> Result<Vec<Action>, (Vec<Action>, String)> {
        let (mut actions, mut going) = (Vec::new(), Vec::new());
        for (key, object) in identity::claims(&self.set, ordinal) {
            match self.claims.get(&key.name) {
                None => actions.push(Action::Create { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, object }),
                Some(claim) if claim.deleting => going.push(format!("pvc {} is being deleted", key.name)),
                Some(_) => {}
            }
        }
        match going.as_slice() {
            [] => Ok(actions),
            [one] => Err((actions, one.clone())),
            several => Err((actions, format!("[{}]", several.join(", ")))),
        }
    }

    /// Sets the owners of a pod's claims.
    fn settle_claims(&self, owners: &Owners, ordinal: i64, turn: &mut Turn) {
        for claim in self.claims_of(ordinal) {
            if owners.conflicts(claim) {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                    claim.key.name
                );
                turn.events.push(Event::warning(COMPONENT, &self.set, "ConflictingController", message));
            }
            if !owners.is_settled(claim) {
                turn.actions.push(owners.settle(claim));
            }
        }
    }
}

impl Work {
    /// Adds the turns, one at a time or all at once. Returns true if later work may follow.
    fn take(&mut self, turns: impl Iterator<Item = Turn>, in_order: bool) -> bool {
        let (mut chains, mut goes_on) = (Vec::new(), true);
        for turn in turns {
            self.events.extend(turn.events);
            if in_order {
                self.steps.extend(turn.actions.into_iter().map(Step::One));
                if turn.waits || turn.fails {
                    return false;
                }
            } else {
                goes_on &= !turn.fails;
                chains.push(turn.actions);
            }
        }
        chains.retain(|actions| !actions.is_empty());
        if !chains.is_empty() {
            self.steps.push(Step::SlowStartEach(chains));
        }
        goes_on
    }
}
