//! The bootstrap roles and bindings: created if missing, completed if rules or subjects are missing.
//!
//! All of them are written by concurrent ordinary requests, so that the store commits them together. Nothing is written if
//! all are complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Value, json, meta, value};
use corten_auth::rbac::{
    self, BootstrapPolicy, Change, aggregate_all, bootstrap_policy, reconcile_binding, reconcile_role,
};
use corten_auth::{MASTERS, User};
use futures_util::future::join_all;
use http::{Method, Request, StatusCode, header};
use http_body_util::Full;

use crate::Server;
use crate::authentication::Peer;
use crate::respond::Answer;

/// The attempts to write objects that other servers write at the same time.
const ATTEMPTS: usize = 5;

/// The result of writing one object.
#[derive(PartialEq)]
enum Outcome {
    Done,
    /// Another server has written it meanwhile.
    Conflict,
}

/// Reconciles the bootstrap roles and bindings.
pub(crate) async fn run(server: &Arc<Server>) -> Result<(), String> {
    let policy = bootstrap_policy()?;
    let user = User { name: "system:apiserver".into(), groups: vec![MASTERS.into()], ..User::default() };
    let peer = Peer::InProcess(Arc::new(user));
    let served =
        |change: &Change| server.backend.catalog.get(rbac::GROUP, "v1", &resource(change.object())).is_some();
    for _ in 0..ATTEMPTS {
        let changes = plan(&policy, |resource| all(server, resource));
        let writes =
            changes.into_iter().filter(served).map(|change| Box::pin(execute(server, &peer, change)));
        let outcomes: Vec<Outcome> = join_all(writes).await.into_iter().collect::<Result<_, _>>()?;
        if outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
            return Ok(());
        }
    }
    Err("other servers keep changing the bootstrap roles".to_owned())
}

/// All objects of a resource, by namespace and name.
fn all(server: &Server, resource: &str) -> BTreeMap<String, Value> {
    let Some(cache) = server.backend.catalog.cache(rbac::GROUP, resource) else { return BTreeMap::new() };
    let objects = cache.snapshot("", None).objects;
    objects.iter().map(|object| object.tree()).map(|tree| (key(&tree), tree)).collect()
}

fn key(object: &Value) -> String {
    match meta::namespace(object) {
        "" => meta::name(object).to_owned(),
        namespace => format!("{namespace}/{}", meta::name(object)),
    }
}

/// The changes, given the existing objects of each resource.
fn plan(policy: &BootstrapPolicy, all: impl Fn(&str) -> BTreeMap<String, Value>) -> Vec<Change> {
    let mut changes = plan_cluster_roles(&policy.cluster_roles, &all("clusterroles"));
    let expected = [
        ("clusterrolebindings", &policy.cluster_role_bindings),
        ("roles", &policy.roles),
        ("rolebindings", &policy.role_bindings),
    ];
    for (resource, expected) in expected {
        let existing = all(resource);
        let reconcile = if resource == "roles" { reconcile_role } else { reconcile_binding };
        changes.extend(expected.iter().filter_map(|wanted| reconcile(existing.get(&key(wanted)), wanted)));
    }
    changes
}

/// The changes of cluster roles, which are planned together because they aggregate each other.
fn plan_cluster_roles(expected: &[Value], existing: &BTreeMap<String, Value>) -> Vec<Change> {
    let mut wanted = existing.clone();
    for role in expected {
        if let Some(Change::Create(new) | Change::Update(new)) =
            reconcile_role(existing.get(meta::name(role)), role)
        {
            wanted.insert(meta::name(role).to_owned(), new);
        }
    }
    aggregate_all(&mut wanted);
    let change = |(name, role): (String, Value)| match existing.get(&name) {
        None => Some(Change::Create(role)),
        Some(old) if *old != role => Some(Change::Update(role)),
        Some(_) => None,
    };
    wanted.into_iter().filter_map(change).collect()
}

async fn execute(server: &Arc<Server>, peer: &Peer, change: Change) -> Result<Outcome, String> {
    let object = change.object();
    let collection = collection(object);
    let one = format!("{collection}/{}", meta::name(object));
    let failed = |answer: &Answer| Err(format!("cannot write {one}: {}", answer.status()));
    if let Change::Recreate(_) = change {
        let options = value!({"kind": "DeleteOptions", "apiVersion": "v1"});
        let answer = send(server, peer, Method::DELETE, &one, &options).await?;
        if !answer.status().is_success() && answer.status() != StatusCode::NOT_FOUND {
            return failed(&answer);
        }
    }
    let answer = match change {
        Change::Update(_) => send(server, peer, Method::PUT, &one, object).await?,
        _ => send(server, peer, Method::POST, &collection, object).await?,
    };
    match answer.status() {
        StatusCode::CONFLICT => Ok(Outcome::Conflict),
        status if status.is_success() => Ok(Outcome::Done),
        _ => failed(&answer),
    }
}

fn resource(object: &Value) -> String {
    format!("{}s", meta::kind(object).to_lowercase())
}

fn collection(object: &Value) -> String {
    let resource = resource(object);
    match meta::namespace(object) {
        "" => format!("/apis/{}/v1/{resource}", rbac::GROUP),
        namespace => format!("/apis/{}/v1/namespaces/{namespace}/{resource}", rbac::GROUP),
    }
}

async fn send(
    server: &Arc<Server>,
    peer: &Peer,
    method: Method,
    path: &str,
    body: &Value,
) -> Result<Answer, String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, "kube-apiserver/v1.37.0")
        .body(Full::new(Bytes::from(json::write_to_string(body))))
        .map_err(|e| e.to_string())?;
    Ok(server.handle(request, peer).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(changes: &[Change]) -> Vec<String> {
        let name = |change: &Change| match change {
            Change::Create(object) => format!("create {}", key(object)),
            Change::Update(object) => format!("update {}", key(object)),
            Change::Recreate(object) => format!("recreate {}", key(object)),
        };
        changes.iter().map(name).collect()
    }

    /// The objects after the first start.
    fn complete(policy: &BootstrapPolicy) -> BTreeMap<String, BTreeMap<String, Value>> {
        let mut cluster: BTreeMap<_, BTreeMap<String, Value>> = BTreeMap::new();
        for change in plan(policy, |_| BTreeMap::new()) {
            let Change::Create(object) = change else { panic!("not a creation") };
            cluster.entry(resource(&object)).or_default().insert(key(&object), object);
        }
        cluster
    }

    #[test]
    fn a_fresh_cluster_gets_everything_and_a_complete_one_nothing() {
        let policy = bootstrap_policy().unwrap();
        let cluster = complete(&policy);
        assert_eq!(cluster.values().map(BTreeMap::len).sum::<usize>(), 141);
        let count = |role: &str| cluster["clusterroles"][role].items_at(&["rules"]).len();
        assert!(count("admin") > count("edit") && count("edit") > count("view") && count("view") > 5);
        assert!(plan(&policy, |resource| cluster[resource].clone()).is_empty());
    }

    #[test]
    fn incomplete_roles_and_bindings_are_completed() {
        let policy = bootstrap_policy().unwrap();
        let mut cluster = complete(&policy);
        let roles = cluster.get_mut("clusterroles").unwrap();
        roles.remove("view");
        roles.get_mut("system:basic-user").unwrap().remove(&["rules"]);
        let bindings = cluster.get_mut("clusterrolebindings").unwrap();
        bindings.get_mut("system:discovery").unwrap().set(&["roleRef", "name"], "cluster-admin");
        let changes = plan(&policy, |resource| cluster[resource].clone());
        assert_eq!(names(&changes), ["update system:basic-user", "create view", "recreate system:discovery"]);
    }
}
