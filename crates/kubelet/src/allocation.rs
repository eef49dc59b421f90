//! What pods were given of the node: what they asked for when they came, until they ask for something else and there is
//! room for it.
//!
//! A pod is given nothing before the node takes it on; then it is run by what it was given, never by what it asks for. What it was given, and what of that its containers
//! already have, is written down beside the pod's volumes before anything is done about it, and goes with them.

mod conditions;
mod given;
mod plan;
mod room;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use corten_api::{json, value};
use corten_base::files;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::machine::Machine;
use crate::node;
use crate::observed::Observed;
use crate::pod::Pod;
use crate::resources::Qos;
use conditions::summary;

pub(crate) use conditions::Resizing;
pub(crate) use given::Given;
pub(crate) use plan::{Resize, Step, needs_restart, resize};
pub(crate) use room::{Asked, Lack, lacks};

/// What all pods of the node have.
#[derive(Default)]
pub(crate) struct Allocations(Mutex<HashMap<String, Account>>);

/// One pod's.
struct Account {
    /// As it is asked for.
    wanted: Pod,
    /// Whether it may begin here.
    taken_on: bool,
    allocated: Given,
    /// What of it has been carried out.
    actuated: Given,
    resizing: Resizing,
    file: PathBuf,
}

/// A change that is to be told: about whom, how it is called, and in which words.
struct News {
    pod: Pod,
    warning: bool,
    reason: &'static str,
    message: String,
}

impl Allocations {
    /// Takes in a pod as it is asked for now; returns it with what it is given. Whoever waits for room gets it in turn.
    pub(crate) fn hear(&self, machine: &Machine, wanted: &Pod) -> Pod {
        let now = machine.clock.now();
        let mut accounts = self.0.lock();
        match accounts.get_mut(wanted.uid()) {
            Some(account) => account.wanted = wanted.clone(),
            None => {
                let file = machine.volumes.of_pod(wanted.uid()).join("resources.json");
                accounts.insert(wanted.uid().to_owned(), Account::open(wanted, file, now));
            }
        }
        let (changed, news) = settle(&mut accounts, machine, now);
        if !changed.is_empty() {
            weigh(&accounts, machine);
        }
        let allocated = accounts.get(wanted.uid()).map(|account| account.allocated.in_place(wanted));
        drop(accounts);
        tell(machine, news);
        changed.iter().filter(|uid| *uid != wanted.uid()).for_each(|uid| machine.pods.wake(uid));
        allocated.unwrap_or_else(|| wanted.clone())
    }

    /// Takes a pod on if that is what is decided, given all others that may be at work here. Nobody else is taken on
    /// meanwhile.
    pub(crate) fn take_on<T, E>(
        &self,
        machine: &Machine,
        pod: &Pod,
        decide: impl FnOnce(&[Pod]) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut accounts = self.0.lock();
        let decided = decide(&others(&accounts, machine, pod.uid()))?;
        if let Some(account) = accounts.get_mut(pod.uid())
            && !std::mem::replace(&mut account.taken_on, true)
        {
            account.save();
        }
        weigh(&accounts, machine);
        Ok(decided)
    }

    /// What a pod's containers have of what it was given.
    pub(crate) fn actuated(&self, uid: &str) -> Given {
        self.0.lock().get(uid).map(|account| account.actuated.clone()).unwrap_or_default()
    }

    /// Something of what a pod was given has been carried out.
    pub(crate) fn carried_out(&self, uid: &str, step: &Step) {
        let mut accounts = self.0.lock();
        let Some(account) = accounts.get_mut(uid) else { return };
        let before = account.actuated.clone();
        account.actuated.take(&account.allocated, step);
        if account.actuated != before {
            account.save();
        }
    }

    /// How a pod's resize stands, given what runs. Tells when one is done.
    pub(crate) fn review(&self, machine: &Machine, pod: &Pod, observed: &Observed) -> Resizing {
        let mut accounts = self.0.lock();
        let Some(account) = accounts.get_mut(pod.uid()) else { return Resizing::default() };
        let Account { resizing, actuated, .. } = account;
        let left = resize(pod, actuated, observed);
        let generation = generation(pod);
        let mut news = Vec::new();
        if !left.is_nothing() {
            resizing.proceed(generation, machine.clock.now());
        } else if let Some(done) = resizing.progress.take() {
            let message = summary("Pod resize completed", pod, done.generation, "");
            news.push(News { pod: pod.clone(), warning: false, reason: "ResizeCompleted", message });
        }
        let found = resizing.clone();
        drop(accounts);
        tell(machine, news);
        found
    }

    /// A resize could not be carried out.
    pub(crate) fn failed(&self, machine: &Machine, pod: &Pod, why: &str) {
        let mut accounts = self.0.lock();
        let Some(account) = accounts.get_mut(pod.uid()) else { return };
        let failed = account.resizing.fail(generation(pod), why, machine.clock.now());
        drop(accounts);
        if let Some(generation) = failed {
            let message = summary("Pod resize error", pod, generation, why);
            tell(machine, vec![News { pod: pod.clone(), warning: true, reason: "ResizeError", message }]);
        }
    }

    /// Forgets a pod that is gone; what it had is there for others.
    pub(crate) fn forget(&self, machine: &Machine, uid: &str) {
        let mut accounts = self.0.lock();
        accounts.remove(uid);
        let (changed, news) = settle(&mut accounts, machine, machine.clock.now());
        weigh(&accounts, machine);
        drop(accounts);
        tell(machine, news);
        changed.iter().for_each(|uid| machine.pods.wake(uid));
    }
}

impl Account {
    /// A pod's account as it was left, or a new one.
    fn open(wanted: &Pod, file: PathBuf, now: Timestamp) -> Account {
        let resizing = Resizing::read(wanted, now);
        if let Some((allocated, actuated)) = read(&file) {
            return Account { wanted: wanted.clone(), taken_on: true, allocated, actuated, resizing, file };
        }
        let allocated = Given::of(wanted);
        let actuated = allocated.clone();
        Account { wanted: wanted.clone(), taken_on: false, allocated, actuated, resizing, file }
    }

    fn has_ended(&self) -> bool {
        matches!(self.wanted.tree().str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
    }

    fn save(&self) {
        let tree = value!({"allocated": (self.allocated.written()), "actuated": (self.actuated.written())});
        if let Err(error) = write(&self.file, &json::write_to_string(&tree)) {
            tracing::warn!(pod = %self.wanted.key(), %error, "what a pod was given could not be written down");
        }
    }
}

/// Gives whoever asks for something else what there is room for, one after the other; who has changed, and what there is to
/// tell.
fn settle(
    accounts: &mut HashMap<String, Account>,
    machine: &Machine,
    now: Timestamp,
) -> (Vec<String>, Vec<News>) {
    let (mut changed, mut news) = (Vec::new(), Vec::new());
    for account in accounts.values_mut().filter(|account| account.allocated == Given::of(&account.wanted)) {
        if account.resizing.pending.take().is_some() {
            changed.push(account.wanted.uid().to_owned());
        }
    }
    let waiting = in_turn(accounts);
    if waiting.is_empty() {
        return (changed, news);
    }
    let allocatable = node::allocatable(machine);
    for uid in waiting {
        let others = others(accounts, machine, &uid);
        let Some(account) = accounts.get_mut(&uid) else { continue };
        let pod = account.wanted.clone();
        let generation = generation(&pod);
        match lacks(&pod, &others, &allocatable).first() {
            None => {
                account.allocated = Given::of(&pod);
                account.save();
                account.resizing = Resizing::default();
                account.resizing.proceed(generation, now);
                let message = summary("Pod resize started", &pod, generation, "");
                news.push(News { pod, warning: false, reason: "ResizeStarted", message });
                changed.push(uid);
            }
            Some(lack) => {
                let why = lack.to_string();
                if account.resizing.defer(generation, &why, now) {
                    let beginning = format!("Pod resize {}", lack.reason());
                    let message = summary(&beginning, &pod, generation, &why);
                    news.push(News { pod, warning: true, reason: "ResizeDeferred", message });
                    changed.push(uid);
                }
            }
        }
    }
    (changed, news)
}

/// The pods that ask for something else than they have. First those that ask for no more; then by priority, by how well they are
/// to be served, and by how long they have been waiting.
fn in_turn(accounts: &HashMap<String, Account>) -> Vec<String> {
    let mut waiting: Vec<&Account> = accounts
        .values()
        .filter(|account| !account.has_ended() && account.wanted.deleted_at().is_none())
        .filter(|account| account.allocated != Given::of(&account.wanted))
        .collect();
    waiting.sort_by_cached_key(|account| {
        let asks_more = room::asks_more(&account.wanted, &account.allocated.in_place(&account.wanted));
        let priority = account.wanted.tree().int_at(&["spec", "priority"]).unwrap_or(0);
        let guaranteed = account.wanted.tree().str_at(&["status", "qosClass"]) == Some("Guaranteed");
        let since = account.resizing.pending.as_ref().map_or(Timestamp::MAX, |pending| pending.since);
        (asks_more, std::cmp::Reverse(priority), !guaranteed, since, account.wanted.uid().to_owned())
    });
    waiting.into_iter().map(|account| account.wanted.uid().to_owned()).collect()
}

fn generation(pod: &Pod) -> i64 {
    pod.tree().int_at(&["metadata", "generation"]).unwrap_or(0)
}

/// All others that were taken on and may be at work still, with what they were given. Whoever began before this process did
/// counts although nobody has looked at it yet.
fn others(accounts: &HashMap<String, Account>, machine: &Machine, uid: &str) -> Vec<Pod> {
    let pods = machine.pods.at_work().into_iter().filter(|pod| pod.uid() != uid);
    pods.filter_map(|pod| match accounts.get(pod.uid()) {
        Some(account) => account.taken_on.then(|| account.allocated.in_place(&account.wanted)),
        None => pod.has_begun().then_some(pod),
    })
    .collect()
}

/// Lets pods that were promised something weigh as much as they were promised together.
fn weigh(accounts: &HashMap<String, Account>, machine: &Machine) {
    let pods = others(accounts, machine, "");
    let burstable = pods.iter().filter(|pod| Qos::of(pod) == Qos::Burstable);
    let milli_cpu = burstable.map(|pod| Asked::of(pod).amount("cpu")).sum();
    if let Err(error) = machine.cgroups.weigh(Qos::Burstable, milli_cpu) {
        tracing::warn!(%error, "the weight of burstable pods could not be set");
    }
}

fn tell(machine: &Machine, news: Vec<News>) {
    for News { pod, warning, reason, message } in news {
        match warning {
            true => machine.teller(&pod).warning(reason, message),
            false => machine.teller(&pod).normal(reason, message),
        }
    }
}

fn read(file: &Path) -> Option<(Given, Given)> {
    let text = std::fs::read(file).ok()?;
    let tree = json::parse(&text).ok()?;
    Some((Given::read(tree.get("allocated")?), Given::read(tree.get("actuated")?)))
}

/// All of it or nothing of it.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    files::private_directory(folder)?;
    let draft = folder.join(".resources.json");
    files::write_private(&draft, text)?;
    std::fs::rename(&draft, file)
}
