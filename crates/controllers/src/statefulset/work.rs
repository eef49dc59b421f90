//! What is to be done about the pods of a stateful set: first those that should be, in order; then those that are too
//! many, the last first; then those of an old revision, the last first.
//!
//! A set that keeps order does one thing at a time and waits for each pod to be available before it goes on; one
//! that does not goes on at once.

use corten_api::{Value, meta};
use corten_client::{Object, kinds};
use corten_reconcile::{Action, Event, Step};
use jiff::Timestamp;

use super::retention::Owners;
use super::{COMPONENT, World, identity, min_ready, told, update};
use crate::pods::{self, Pod};

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) steps: Vec<Step>,
    pub(super) events: Vec<Event>,
    /// The pods that go because they are of an old revision, last of all.
    pub(super) outdated: Vec<Action>,
}

/// A pod that should be.
#[derive(Debug)]
pub(super) enum Replica {
    /// It is yet to be made.
    Missing(i64),
    There(i64, Pod),
}

/// What is to be done about one pod.
#[derive(Debug, Default)]
struct Turn {
    actions: Vec<Action>,
    events: Vec<Event>,
    /// Those that come after wait, if the set keeps order.
    waits: bool,
    /// Something cannot be done: nothing that comes after is.
    fails: bool,
}

impl World {
    /// The pods that should be, in order, and those that are too many, the last first.
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

    /// Pods below the partition are made as they were.
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

    /// What is to be done now.
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
        let turns = condemned.iter().map(|pod| self.dismiss(pod, first.as_deref(), now));
        if work.take(turns, self.keeps_order()) && update::is_rolling(&self.set) {
            work.outdated = update::outdated(self, &replicas, now);
            work.steps.extend(work.outdated.iter().cloned().map(Step::One));
        }
        work
    }

    /// What is to be done about a pod that should be.
    fn keep(&self, replica: &Replica, now: Timestamp) -> Turn {
        let (ordinal, pod) = match replica {
            Replica::Missing(ordinal) => return self.make(*ordinal),
            Replica::There(ordinal, pod) => (*ordinal, pod),
        };
        let mut turn = Turn::default();
        if pod.is_finished() {
            // Whatever its containers' exit codes: it is made anew once it is gone.
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
            self.mend(ordinal, pod, !is_pending, &owners, &mut turn);
        }
        turn
    }

    /// Makes a pod, with its claims first.
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
                let event = told::failed(&self.set, "Create", &name, &why);
                return Turn { actions, events: vec![event], fails: true, ..turn };
            }
        }
        turn.actions.push(Action::Create { kind: &kinds::PODS, object: self.new_pod(ordinal) });
        self.settle_claims(&owners, ordinal, &mut turn);
        turn
    }

    /// Brings a pod's identity, volumes and claims to what they should be.
    fn mend(&self, ordinal: i64, pod: &Pod, with_claims: bool, owners: &Owners, turn: &mut Turn) {
        let set = &self.set;
        let is_identified = identity::is_identified(set, &pod.object, ordinal);
        let is_furnished = identity::is_furnished(set, pod, ordinal);
        let is_settled = !with_claims || self.claims_of(ordinal).all(|claim| owners.is_settled(claim));
        if is_identified && is_furnished && is_settled {
            return;
        }
        let mut object = pod.object.tree();
        identity::identify(set, ordinal, &mut object);
        if !is_furnished {
            identity::furnish(set, ordinal, &mut object);
            match self.missing_claims(ordinal) {
                Ok(actions) => turn.actions.extend(actions),
                Err((actions, why)) => {
                    turn.actions.extend(actions);
                    turn.events.push(told::failed(set, "Update", &pod.object.key.name, &why));
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

    /// A pod that is too many takes its claims along, if that is the policy.
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

    /// What is to be done about a pod that is too many.
    fn dismiss(&self, pod: &Pod, first_unavailable: Option<&str>, now: Timestamp) -> Turn {
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

    /// The first pod that is not available: of those that should be, then of those that are too many.
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

    /// The claims that are there of a pod.
    fn claims_of(&self, ordinal: i64) -> impl Iterator<Item = &Object> {
        identity::claim_names(&self.set, ordinal)
            .filter_map(|(_, name)| self.claims.get(name.as_str()).map(AsRef::as_ref))
    }

    /// What makes the claims of a pod that are not there; also why that is not enough, if some are going.
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

    /// Makes the claims of a pod belong to whom they should.
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
    /// Takes the turns, one by one or all at once; whether what comes after them may be done too.
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
