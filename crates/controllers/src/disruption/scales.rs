//! The number of expected pods, by the scale of their controllers: from the caches for the built-in kinds, from the API
//! server for any other kind with a scale subresource.

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Error, Key, Kind, Object, Owner, kinds};

use crate::pods::Pod;
use crate::resources;

/// A controller of some pods, and its scale as far as it is known.
#[derive(Debug)]
struct Managing {
    owner: Owner,
    namespace: Str,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// The uid of the controller that counts, and its number of pods.
    Known(Str, i64),
    /// The resources of its group have to be requested from the API server.
    Unknown,
    /// Its scale has to be read at this path.
    Served(String),
    Missing,
    Failed(String),
}

#[derive(Debug, Default)]
pub(super) struct Scales(Vec<Managing>);

/// The controllers of the pods.
pub(super) fn observe(caches: &Caches, pods: &[Pod]) -> Scales {
    let mut scales = Scales::default();
    for pod in pods {
        let Some(owner) = pod.object.controller() else { continue };
        if !scales.0.iter().any(|known| known.owner.uid == owner.uid) {
            let namespace = pod.object.key.namespace.clone();
            let state = look_up(caches, &namespace, owner);
            scales.0.push(Managing { owner: owner.clone(), namespace, state });
        }
    }
    scales
}

/// The scale in the caches. The pods of a deployment's replica set count for the deployment.
fn look_up(caches: &Caches, namespace: &str, owner: &Owner) -> State {
    let kind = match (owner.kind.as_str(), resources::group(&owner.api_version)) {
        ("ReplicationController", "") => &kinds::REPLICATION_CONTROLLERS,
        ("ReplicaSet", "apps" | "extensions") => &kinds::REPLICA_SETS,
        ("StatefulSet", "apps") => &kinds::STATEFUL_SETS,
        _ => return State::Unknown,
    };
    let Some(object) = referred(caches, kind, namespace, owner) else { return State::Missing };
    let deployment = object
        .controller()
        .filter(|owner| *kind == kinds::REPLICA_SETS && owner.kind == "Deployment")
        .and_then(|owner| referred(caches, &kinds::DEPLOYMENTS, namespace, owner));
    let counts = deployment.unwrap_or(object);
    State::Known(counts.uid.clone(), counts.tree().int_at(&["spec", "replicas"]).unwrap_or(1))
}

fn referred(caches: &Caches, kind: &Kind, namespace: &str, owner: &Owner) -> Option<std::sync::Arc<Object>> {
    let found = caches.of(kind).get(&Key::new(namespace, owner.name.clone()))?;
    (found.uid == owner.uid).then_some(found)
}

impl Managing {
    fn question(&self) -> Option<String> {
        match &self.state {
            State::Unknown => Some(resources::list_path(&self.owner.api_version)),
            State::Served(path) => Some(path.clone()),
            _ => None,
        }
    }

    fn learn(&mut self, answer: &Result<Value, Error>) {
        self.state = match (&self.state, answer) {
            (State::Unknown, Ok(list)) => self.place(list),
            (State::Unknown, Err(error)) if error.code() != 0 && !error.is_not_found() => {
                State::Failed(error.to_string())
            }
            (State::Unknown, Err(_)) => State::Failed(self.no_match()),
            (_, Ok(scale)) if meta::uid(scale) == self.owner.uid => {
                State::Known(self.owner.uid.clone(), scale.int_at(&["spec", "replicas"]).unwrap_or(0))
            }
            (_, Ok(_)) => State::Missing,
            (_, Err(error)) if error.is_not_found() => State::Missing,
            (_, Err(error)) => State::Failed(error.to_string()),
        };
    }

    /// The path of the kind's scale, if it has one.
    fn place(&self, list: &Value) -> State {
        let Some(plural) = resources::plural(list, &self.owner.kind) else {
            return State::Failed(self.no_match());
        };
        let called = resources::qualified(plural, resources::group(&self.owner.api_version));
        if !resources::has(list, &format!("{plural}/scale")) {
            return State::Failed(format!("{called} does not implement the scale subresource"));
        }
        let root = resources::list_path(&self.owner.api_version);
        let (namespace, name) = (&self.namespace, &self.owner.name);
        State::Served(format!("{root}/namespaces/{namespace}/{plural}/{name}/scale"))
    }

    fn no_match(&self) -> String {
        format!("no matches for kind {:?} in version {:?}", &*self.owner.kind, &*self.owner.api_version)
    }
}

impl Scales {
    pub(super) fn ask(&self) -> Vec<String> {
        let mut paths: Vec<String> = self.0.iter().filter_map(Managing::question).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    pub(super) fn learn(&mut self, path: &str, answer: &Result<Value, Error>) {
        for managing in self.0.iter_mut().filter(|one| one.question().as_deref() == Some(path)) {
            managing.learn(answer);
        }
    }

    /// The number of expected pods, and whether some pods have no controller; or an error.
    pub(super) fn total(&self, pods: &[Pod]) -> Result<(i64, bool), String> {
        let mut counted: Vec<(&str, i64)> = Vec::new();
        let mut has_unmanaged = false;
        for pod in pods {
            let Some(owner) = pod.object.controller() else {
                has_unmanaged = true;
                continue;
            };
            match self.0.iter().find(|one| one.owner.uid == owner.uid).map(|one| &one.state) {
                Some(State::Known(uid, replicas)) => {
                    if !counted.iter().any(|(known, _)| known == uid) {
                        counted.push((uid, *replicas));
                    }
                }
                Some(State::Failed(why)) => return Err(why.clone()),
                _ => return Err(format!("found no controllers for pod {:?}", &*pod.object.key.name)),
            }
        }
        Ok((counted.iter().map(|(_, replicas)| replicas).sum(), has_unmanaged))
    }

    #[cfg(test)]
    pub(super) fn known(pods: &[Pod], scale: impl Fn(&Owner) -> Option<(Str, i64)>) -> Scales {
        let managing = |pod: &Pod| {
            let owner = pod.object.controller()?.clone();
            let state = scale(&owner).map_or(State::Unknown, |(uid, replicas)| State::Known(uid, replicas));
            Some(Managing { owner, namespace: pod.object.key.namespace.clone(), state })
        };
        Scales(pods.iter().filter_map(managing).collect())
    }
}
