//! A simulated cluster of a few trees: plans are applied to them, and tests set the state of pods.

use corten_api::{Status, value};
use corten_client::{Error, Patch};
use corten_reconcile::{Event, Outcome};

use corten_api::meta;

use super::super::*;
use crate::conditions;
use crate::testing::{at, at_text, cached};

pub(super) fn set(replicas: i64) -> Value {
    value!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "peers",
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "web:1"}], "volumes": [{"name": "tmp", "emptyDir": {}}]},
            },
        },
    })
}

pub(super) fn with(mut tree: Value, path: &[&str], value: impl Into<Value>) -> Value {
    tree.set(path, value);
    tree
}

pub(super) fn parallel(set: Value) -> Value {
    with(set, &["spec", "podManagementPolicy"], "Parallel")
}

pub(super) fn with_claims(set: Value) -> Value {
    let template = value!({"metadata": {"name": "data", "labels": {"kind": "db"}}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    with(set, &["spec", "volumeClaimTemplates"], vec![template])
}

#[derive(Default)]
pub(super) struct Cluster {
    pub(super) set: Value,
    pub(super) pods: BTreeMap<String, Value>,
    pub(super) claims: BTreeMap<String, Value>,
    pub(super) revisions: BTreeMap<String, Value>,
    pub(super) events: Vec<String>,
    /// Requests for objects of these names fail.
    pub(super) refused: Vec<(&'static str, String)>,
    pub(super) now: i64,
    pub(super) requeue_after: Option<Duration>,
    made: usize,
}

impl Cluster {
    pub(super) fn new(set: Value) -> Cluster {
        Cluster { set, ..Cluster::default() }
    }

    pub(super) fn world(&self) -> World {
        let objects = |map: &BTreeMap<String, Value>| map.values().map(cached).collect::<Vec<_>>();
        let mut world = World::of(self.set.clone(), &objects(&self.pods), &objects(&self.revisions)).unwrap();
        let there = world.claim_names().into_iter().filter_map(|name| self.claims.get(&name).map(cached));
        world.claims = there.map(|claim| (claim.key.name.clone(), claim)).collect();
        world.namesake = self.revisions.get(meta::name(&world.revisions.update)).cloned();
        world
    }

    /// Reconciles once; returns the actions.
    pub(super) fn sync(&mut self) -> Vec<String> {
        let key = Key::new("default", "web");
        let world = Some(self.world());
        let plan = StatefulSets.plan(&key, &world, at(self.now));
        let (mut report, mut words) = (Report::default(), Vec::new());
        for step in &plan.steps {
            let chains: Vec<&[Action]> = match step {
                Step::One(action) => vec![std::slice::from_ref(action)],
                Step::Together(actions) | Step::SlowStart(actions) => actions.chunks(1).collect(),
                Step::SlowStartEach(chains) => chains.iter().map(Vec::as_slice).collect(),
            };
            let failed = chains.into_iter().any(|chain| !self.perform_all(chain, &mut report, &mut words));
            if failed {
                break;
            }
        }
        let conclusion = StatefulSets.conclude(&key, &world, &report, at(self.now));
        for action in conclusion.actions() {
            self.perform(action).unwrap();
        }
        self.requeue_after = conclusion.requeue_after;
        let word = |e: &Event| format!("{} {}", e.reason, e.message);
        self.events.extend(plan.events.iter().chain(&conclusion.events).map(word));
        words
    }

    fn perform_all(&mut self, actions: &[Action], report: &mut Report, words: &mut Vec<String>) -> bool {
        for action in actions {
            let result = self.perform(action);
            let failed = result.is_err();
            if !failed && *action.kind() != kinds::CONTROLLER_REVISIONS {
                words.push(word(action));
            }
            report.outcomes.push(Outcome { action: action.clone(), result });
            if failed {
                return false;
            }
        }
        true
    }

    fn perform(&mut self, action: &Action) -> Result<Value, Error> {
        if self.refused.contains(&verb_and_name(action)) {
            return Err(Status::internal("no").into());
        }
        let kind = action.kind();
        if *kind == kinds::STATEFUL_SETS {
            let Action::Update { object, subresource: "status", .. } = action else { panic!("{action:?}") };
            self.set.set(&["status"], object.get("status").cloned().unwrap());
            return Ok(object.clone());
        }
        self.made += 1;
        let uid = format!("uid-{}", self.made);
        let map = match kind.plural.as_str() {
            "pods" => &mut self.pods,
            "persistentvolumeclaims" => &mut self.claims,
            _ => &mut self.revisions,
        };
        match action {
            Action::Create { object, .. } => {
                let name = meta::name(object).to_owned();
                if map.contains_key(&name) {
                    return Err(Status::already_exists("", &kind.plural, &name).into());
                }
                let mut object = with(object.clone(), &["metadata", "uid"], uid);
                if *kind == kinds::PODS {
                    object.set(&["status", "phase"], "Pending");
                }
                map.insert(name, object.clone());
                Ok(object)
            }
            Action::Update { object, .. } => {
                map.insert(meta::name(object).to_owned(), object.clone());
                Ok(object.clone())
            }
            Action::Delete { key, .. } => {
                let object = map.get_mut(key.name.as_str()).unwrap();
                if *kind == kinds::PODS {
                    object.set(&["metadata", "deletionTimestamp"], at_text(0));
                } else {
                    map.remove(key.name.as_str());
                }
                Ok(Value::Null)
            }
            Action::Patch { key, patch: Patch::Strategic(patch), .. } => {
                let object = map.get_mut(key.name.as_str()).unwrap();
                let references = patch.items_at(&["metadata", "ownerReferences"]);
                match references.iter().all(|reference| reference.get("$patch").is_none()) {
                    true => object.set(&["metadata", "ownerReferences"], references.to_vec()),
                    false => drop(object.remove(&["metadata", "ownerReferences"])),
                }
                Ok(object.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    /// A pod runs and is ready from now on.
    pub(super) fn ready(&mut self, name: &str) {
        let condition = conditions::new("Ready", "True", "", "", at(self.now));
        let pod = self.pods.get_mut(name).unwrap_or_else(|| panic!("no {name}"));
        pod.set(&["status", "phase"], "Running");
        pod.set(&["status", "conditions"], vec![condition]);
    }

    pub(super) fn unready(&mut self, name: &str) {
        self.pods.get_mut(name).unwrap().remove(&["status", "conditions"]);
    }

    pub(super) fn phase(&mut self, name: &str, phase: &str) {
        self.pods.get_mut(name).unwrap().set(&["status", "phase"], phase);
    }

    /// Deletes terminating objects, and the claims they own.
    pub(super) fn collect(&mut self) {
        self.pods.retain(|_, pod| !meta::is_deleting(pod));
        let alive: Vec<String> =
            self.pods.values().map(|pod| meta::uid(pod).to_owned()).chain(["set".to_owned()]).collect();
        self.claims.retain(|_, claim| {
            let owners = claim.items_at(&["metadata", "ownerReferences"]);
            owners.is_empty()
                || owners.iter().any(|o| alive.iter().any(|uid| o.str_at(&["uid"]) == Some(uid)))
        });
    }

    /// Reconciles until nothing is left to do; every pod becomes ready at once. Returns the actions.
    pub(super) fn settle(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..100 {
            self.collect();
            let words = self.sync();
            let still = words.is_empty();
            all.extend(words);
            self.collect();
            let names: Vec<String> = self.pods.keys().cloned().collect();
            let waiting = names.iter().filter(|name| !conditions::is_true(&self.pods[*name], "Ready"));
            let waiting: Vec<&String> = waiting.collect();
            if still && waiting.is_empty() {
                self.sync();
                return all;
            }
            waiting.into_iter().for_each(|name| self.ready(name));
        }
        panic!("it never ends: {all:?}")
    }

    pub(super) fn update_image(&mut self, image: &str) {
        self.set
            .set(&["spec", "template", "spec", "containers"], value!([{"name": "main", "image": (image)}]));
        let generation = meta::generation(&self.set) + 1;
        self.set.set(&["metadata", "generation"], generation);
    }

    pub(super) fn status(&self, field: &str) -> i64 {
        self.set.int_at(&["status", field]).unwrap_or(0)
    }

    /// The images of all pods, in order of their names.
    pub(super) fn images(&self) -> Vec<String> {
        let image =
            |pod: &Value| pod.items_at(&["spec", "containers"])[0].str_at(&["image"]).unwrap().to_owned();
        self.pods.values().map(image).collect()
    }
}

fn verb_and_name(action: &Action) -> (&'static str, String) {
    match action {
        Action::Create { object, .. } => ("create", meta::name(object).to_owned()),
        Action::Update { object, .. } => ("update", meta::name(object).to_owned()),
        Action::Delete { key, .. } => ("delete", key.name.to_string()),
        Action::Patch { key, .. } => ("patch", key.name.to_string()),
        Action::Post { key, .. } => ("post", key.name.to_string()),
        Action::Scale { path, .. } => ("scale", path.clone()),
    }
}

fn word(action: &Action) -> String {
    let (verb, name) = verb_and_name(action);
    format!("{verb} {name}")
}
