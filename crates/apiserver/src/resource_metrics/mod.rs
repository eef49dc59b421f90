//! `metrics.k8s.io`: what nodes and pods use, from what their kubelets tell every now and then.
//!
//! Answers only what two looks have shown; what is not known is left out, never guessed. Nobody is asked while no node
//! says that it has a kubelet.

mod exposition;
mod points;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Map, Status, Value, time, value};
use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::call::{Backend, Call};
use crate::filter::Filter;
use crate::negotiate::{self, View};
use crate::object::Object;
use crate::respond::{self, Answer};
use crate::{Server, connect};
use points::{Batch, Points, Used};

pub(crate) const GROUP: &str = "metrics.k8s.io";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
/// How often kubelets are asked.
const RESOLUTION: Duration = Duration::from_secs(15);
/// How long a kubelet may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many kubelets are asked at once.
const AT_ONCE: usize = 32;
/// More than a kubelet with a thousand containers says.
const LARGEST: usize = 16 * 1024 * 1024;

/// What is known.
#[derive(Default)]
pub(crate) struct ResourceMetrics(Mutex<Points>);

/// Asks kubelets for good: all of them from time to time, and a new one at once.
pub(crate) async fn follow(server: Arc<Server>) {
    let backend = &server.backend;
    let Some(nodes) = backend.catalog.cache("", "nodes") else { return };
    let mut changes = nodes.progress();
    let mut known = Vec::new();
    loop {
        changes.mark_unchanged();
        let kubelets = kubelets(backend);
        let names: Vec<String> = kubelets.iter().map(|(name, _)| name.clone()).collect();
        let fresh = names.iter().any(|name| !known.contains(name));
        known = names;
        if kubelets.is_empty() {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        let batch = ask_all(kubelets).await;
        backend.resource_metrics.0.lock().take(batch, fresh);
        let until = backend.clock.now() + RESOLUTION;
        // A node that comes in between is not kept waiting; the others are asked again with it.
        while let Ok(left) = Duration::try_from(until.duration_since(backend.clock.now())) {
            if left.is_zero() || backend.clock.timeout(left, changes.changed()).await.is_none() {
                break;
            }
            if self::kubelets(backend).iter().any(|(name, _)| !known.contains(name)) {
                break;
            }
        }
    }
}

fn kubelets(backend: &Backend) -> Vec<(String, connect::Peer)> {
    let Some(nodes) = backend.catalog.cache("", "nodes") else { return Vec::new() };
    let objects = nodes.snapshot("", None).objects;
    let kubelet = |node: &Arc<Object>| Some((node.name.to_string(), backend.kubelets.of_node(&node.tree())?));
    objects.iter().filter_map(kubelet).collect()
}

async fn ask_all(kubelets: Vec<(String, connect::Peer)>) -> Batch {
    let asked = stream::iter(kubelets).map(|(node, kubelet)| async move {
        let asking = kubelet.text("/metrics/resource", LARGEST);
        let told =
            tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err("timed out".to_owned()));
        (node, told)
    });
    let mut batch = Batch::default();
    let mut answers = asked.buffer_unordered(AT_ONCE);
    while let Some((node, told)) = answers.next().await {
        match told {
            Ok(text) => exposition::read(&node, &text, &mut batch),
            Err(error) => tracing::debug!(node, error, "a kubelet did not tell what is used"),
        }
    }
    batch
}

/// Answers `get` and `list`.
pub(crate) fn answer(call: &Call, verb: &str) -> Result<Answer, Status> {
    match verb {
        "get" => get(call),
        "list" => list(call),
        _ => Err(Status::method_not_allowed()),
    }
}

fn get(call: &Call) -> Result<Answer, Status> {
    let (at, name) = (&call.at, call.served.name());
    let missing = || Status::not_found("", name, &at.name);
    let cache = call.backend.catalog.cache("", name).ok_or_else(missing)?;
    let object = cache.get(&at.namespace, &at.name).ok_or_else(missing)?;
    let unknown = || match name {
        "nodes" => Status::not_found(GROUP, "nodemetrics", &at.name),
        _ => Status::not_found(GROUP, "podmetrics", &format!("{}/{}", at.namespace, at.name)),
    };
    let points = call.backend.resource_metrics.0.lock();
    let tree = metrics(call, &points, &object).ok_or_else(unknown)?;
    drop(points);
    respond::object_tree(200, &call.served, typed(call, tree), call.wanted()?, &call.table_query()?)
}

fn list(call: &Call) -> Result<Answer, Status> {
    let wanted = negotiate::wanted(&call.headers, call.query.get("pretty"), true)?;
    let query = &call.query;
    let filter = Filter::new(
        &call.served,
        &call.at.namespace,
        query.text("labelSelector"),
        query.text("fieldSelector"),
    )?;
    let cache = call.backend.catalog.cache("", call.served.name());
    let objects = cache.map(|cache| cache.snapshot(&call.at.namespace, None).objects).unwrap_or_default();
    let points = call.backend.resource_metrics.0.lock();
    let chosen = objects.iter().filter(|object| filter.matches(object));
    let items: Vec<Value> = chosen.filter_map(|object| metrics(call, &points, object)).collect();
    drop(points);
    if let View::Table(version) = wanted.view {
        let items = items.into_iter().map(|item| typed(call, item)).collect();
        let table = respond::table(&call.served, items, Map::new(), &call.table_query()?, version);
        return Ok(respond::tree(200, &table, wanted));
    }
    let kind = format!("{}List", call.served.kind());
    let list = value!({"kind": (kind), "apiVersion": API_VERSION, "metadata": {}, "items": (items)});
    Ok(respond::tree(200, &list, wanted))
}

fn typed(call: &Call, mut tree: Value) -> Value {
    tree.set(&["kind"], call.served.kind());
    tree.set(&["apiVersion"], API_VERSION);
    tree
}

/// What is known of an object's use.
fn metrics(call: &Call, points: &Points, object: &Object) -> Option<Value> {
    let now = call.backend.clock.now();
    match call.served.name() {
        "nodes" => {
            let used = points.of_node(&object.name)?;
            let mut tree = dated(object, &used, now);
            tree.set(&["usage"], used.tree());
            Some(tree)
        }
        _ => {
            let containers = points.of_pod(&object.namespace, &object.name)?;
            // The oldest of them: the whole is no newer than its parts.
            let oldest = containers.iter().map(|(_, used)| used).min_by_key(|used| used.at)?;
            let mut tree = dated(object, oldest, now);
            let each =
                |(name, used): &(String, Used)| value!({"name": (name.as_str()), "usage": (used.tree())});
            tree.set(&["containers"], containers.iter().map(each).collect::<Vec<_>>());
            Some(tree)
        }
    }
}

fn dated(object: &Object, used: &Used, now: Timestamp) -> Value {
    let mut tree = Value::object();
    tree.set(&["metadata", "name"], object.name.as_str());
    if !object.namespace.is_empty() {
        tree.set(&["metadata", "namespace"], object.namespace.as_str());
    }
    tree.set(&["metadata", "creationTimestamp"], time::format(now));
    let whole = object.tree();
    if let Some(labels) = whole.at(&["metadata", "labels"]).filter(|labels| !labels.is_null()) {
        tree.set(&["metadata", "labels"], labels.clone());
    }
    tree.set(&["timestamp"], time::format(used.at));
    // To the millisecond: nobody knows better when a kubelet looked.
    let milliseconds = i64::try_from(used.window.as_millis()).unwrap_or(i64::MAX / 1_000_000);
    tree.set(&["window"], time::format_duration(milliseconds * 1_000_000));
    tree
}
