//! How many pods there should be, by the scale of what manages them: from the caches for the built-in kinds, by
//! asking the server for any other kind that has a scale.

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Error, Key, Kind, Object, Owner, kinds};

use crate::pods::Pod;

/// What manages some pods, and what is known of its scale.
#[derive(Debug)]
struct Managing {
    owner: Owner,
    namespace: Str,
    state: State,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    /// This one counts, with so many pods.
    Known(Str, i64),
    /// Its group has to be asked for where it is served.
    Unknown,
    /// Its scale is to be read there; the resource is called so in messages.
    Served(String, String),
    Missing,
    Failed(String),
}

#[derive(Debug, Default)]
pub(super) struct Scales(Vec<Managing>);

/// Everything that manages one of the pods.
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

/// What the caches know. The pods of a deployment's replica set count for the deployment.
fn look_up(caches: &Caches, namespace: &str, owner: &Owner) -> State {
    let kind = match (owner.kind.as_str(), group(&owner.api_version)) {
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

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Where a group in a version says what it serves.
fn group_path(api_version: &str) -> String {
    if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") }
}

impl Managing {
    fn question(&self) -> Option<String> {
        match &self.state {
            State::Unknown => Some(group_path(&self.owner.api_version)),
            State::Served(path, _) => Some(path.clone()),
            _ => None,
        }
    }

    fn learn(&mut self, answer: &Result<Value, Error>) {
        self.state = match (&self.state, answer) {
            (State::Unknown, Ok(resources)) => self.place(resources),
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

    /// Where the kind is served, and whether it has a scale.
    fn place(&self, resources: &Value) -> State {
        let named = |name: &str| {
            resources.items_at(&["resources"]).iter().any(|one| one.str_at(&["name"]) == Some(name))
        };
        let is_kind = |one: &&Value| {
            let name = one.str_at(&["name"]).unwrap_or_default();
            one.str_at(&["kind"]) == Some(&self.owner.kind) && !name.contains('/')
        };
        let Some(resource) = resources.items_at(&["resources"]).iter().find(is_kind) else {
            return State::Failed(self.no_match());
        };
        let plural = resource.str_at(&["name"]).unwrap_or_default();
        let called = match group(&self.owner.api_version) {
            "" => plural.to_owned(),
            group => format!("{plural}.{group}"),
        };
        if !named(&format!("{plural}/scale")) {
            return State::Failed(format!("{called} does not implement the scale subresource"));
        }
        let root = group_path(&self.owner.api_version);
        let (namespace, name) = (&self.namespace, &self.owner.name);
        State::Served(format!("{root}/namespaces/{namespace}/{plural}/{name}/scale"), called)
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

    /// How many pods there should be, and whether nobody manages some of them; or why that cannot be said.
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
