//! `metrics.k8s.io`: the resource usage of nodes and pods, scraped from their kubelets.
//!
//! Usage is computed from two scrapes; objects without two of them are left out, never estimated. Only nodes that report a
//! kubelet endpoint are scraped.

mod exposition;
pub(crate) mod fuzz;
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
use crate::negotiate::View;
use crate::object::Object;
use crate::respond::{self, Answer};
use crate::{Server, connect};
use points::{Batch, Points, Used};

pub(crate) const GROUP: &str = "metrics.k8s.io";
/// The interval between scrapes.
const RESOLUTION: Duration = Duration::from_secs(15);
/// The timeout of one scrape.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of concurrent scrapes.
const AT_ONCE: usize = 32;
/// The size limit of a response; a kubelet with a thousand containers sends less.
const LARGEST: usize = 16 * 1024 * 1024;

/// The samples of the last scrapes.
#[derive(Default)]
pub(crate) struct ResourceMetrics(Mutex<Points>);

/// Scrapes all kubelets periodically, and those of new nodes at once; never returns.
pub(crate) async fn scrape_kubelets(server: Arc<Server>) {
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
        let batch = scrape_all(kubelets).await;
        backend.resource_metrics.0.lock().take(batch, fresh);
        let until = backend.clock.now() + RESOLUTION;
        // A new node is scraped without delay; the others are scraped again with it.
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

fn kubelets(backend: &Backend) -> Vec<(String, connect::ProxyBackend)> {
    let Some(nodes) = backend.catalog.cache("", "nodes") else { return Vec::new() };
    let objects = nodes.snapshot("", None).objects;
    let kubelet = |node: &Arc<Object>| Some((node.name.to_string(), backend.kubelets.of_node(&node.tree())?));
    objects.iter().filter_map(kubelet).collect()
}

async fn scrape_all(kubelets: Vec<(String, connect::ProxyBackend)>) -> Batch {
    let scrapes = stream::iter(kubelets).map(|(node, kubelet)| async move {
        let scrape = kubelet.text("/metrics/resource", LARGEST);
        let scraped =
            tokio::time::timeout(PATIENCE, scrape).await.unwrap_or_else(|_| Err("timed out".to_owned()));
        (node, scraped)
    });
    let mut batch = Batch::default();
    let mut answers = scrapes.buffer_unordered(AT_ONCE);
    while let Some((node, scraped)) = answers.next().await {
        match scraped {
            Ok(text) => exposition::read(&node, &text, &mut batch),
            Err(err) => tracing::debug!(node, err, "cannot scrape kubelet resource metrics; retrying"),
        }
    }
    batch
}

/// Handles `get` and `list`.
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
    respond::object_tree(200, &call.served, with_type_meta(call, tree), call.wanted()?, &call.table_query()?)
}

fn list(call: &Call) -> Result<Answer, Status> {
    let wanted = call.wanted_list()?;
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
        let items = items.into_iter().map(|item| with_type_meta(call, item)).collect();
        let table = respond::table(&call.served, items, Map::new(), &call.table_query()?, version);
        return Ok(respond::tree(200, &table, wanted));
    }
    let kind = format!("{}List", call.served.kind());
    let list = value!({"kind": (kind), "apiVersion": (call.served.api_version.as_str()), "metadata": {}, "items": (items)});
    Ok(respond::tree(200, &list, wanted))
}

fn with_type_meta(call: &Call, mut tree: Value) -> Value {
    tree.set(&["kind"], call.served.kind());
    tree.set(&["apiVersion"], call.served.api_version.as_str());
    tree
}

/// The usage of an object; `None` without two samples.
fn metrics(call: &Call, points: &Points, object: &Object) -> Option<Value> {
    let now = call.backend.clock.now();
    match call.served.name() {
        "nodes" => {
            let used = points.of_node(&object.name)?;
            let mut tree = with_timestamp(object, &used, now);
            tree.set(&["usage"], used.tree());
            Some(tree)
        }
        _ => {
            let containers = points.of_pod(&object.namespace, &object.name)?;
            // The oldest sample: the pod's metrics are no newer than those of its containers.
            let oldest = containers.iter().map(|(_, used)| used).min_by_key(|used| used.at)?;
            let mut tree = with_timestamp(object, oldest, now);
            let each =
                |(name, used): &(String, Used)| value!({"name": (name.as_str()), "usage": (used.tree())});
            tree.set(&["containers"], containers.iter().map(each).collect::<Vec<_>>());
            Some(tree)
        }
    }
}

fn with_timestamp(object: &Object, used: &Used, now: Timestamp) -> Value {
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
    // To the millisecond, the precision of the kubelet's timestamps.
    let milliseconds = i64::try_from(used.window.as_millis()).unwrap_or(i64::MAX / 1_000_000);
    tree.set(&["window"], time::format_duration(milliseconds * 1_000_000));
    tree
}
