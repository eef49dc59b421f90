//! Faults between a scheduling decision and its binding: refused bindings, lost responses, deleted nodes,
//! a killed process. No pod is bound twice or lost, and no node is overcommitted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use corten_api::{Status, Value, value};
use corten_client::{Client, DeleteOptions, Error, EventStream, Key, Transport, WatchRequest, kinds};
use corten_e2e::eventually;
use corten_testkit::{Cluster, ClusterOptions, Server};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use serde_json::json;

const NAMESPACE: &str = "default";
/// The number of pods that fit on a simulated node, which has 32 cores, at eight cores each.
const PER_NODE: usize = 4;

/// The fault of a binding.
#[derive(Clone, Copy)]
enum Fault {
    /// It is refused, as if another binding had been first.
    Refused,
    /// It is accepted, but the response is lost.
    AnswerLost,
    /// The request is lost.
    RequestLost,
    /// Its node is deleted just before.
    NodeGone,
}

/// The number of accepted bindings, by pod.
type Taken = Arc<Mutex<BTreeMap<String, usize>>>;

/// A transport on which the first bindings meet a fault.
struct Faulty {
    server: Arc<dyn Transport>,
    administrator: Arc<dyn Transport>,
    fault: Fault,
    left: Arc<AtomicUsize>,
    taken: Taken,
}

impl Transport for Faulty {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let path = request.uri().path().to_owned();
        let binds = request.method() == Method::POST && path.ends_with("/binding");
        if !binds {
            return self.server.call(request);
        }
        let spend = |left: usize| left.checked_sub(1);
        let struck = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, spend).is_ok();
        let fault = struck.then_some(self.fault);
        let (server, administrator) = (self.server.clone(), self.administrator.clone());
        let taken = self.taken.clone();
        async move {
            match fault {
                Some(Fault::Refused) => {
                    return Err(
                        Status::conflict("", "pods/binding", &path, "another binding was first").into()
                    );
                }
                Some(Fault::RequestLost) => return Err(Error::transport("the line is cut")),
                Some(Fault::NodeGone) => delete_node(administrator, request.body()).await,
                Some(Fault::AnswerLost) | None => {}
            }
            let answer = server.call(request).await?;
            if answer.status().is_success() {
                *taken.lock().expect("no holder of the lock panicked").entry(path).or_default() += 1;
            }
            match fault {
                Some(Fault::AnswerLost) => Err(Error::transport("the line is cut")),
                _ => Ok(answer),
            }
        }
        .boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        self.server.watch(request)
    }
}

/// Deletes the node of a binding.
async fn delete_node(administrator: Arc<dyn Transport>, binding: &Bytes) {
    let binding = corten_api::json::parse(binding).expect("a binding");
    let node = binding.str_at(&["target", "name"]).expect("a node").to_owned();
    let client = Client::new(administrator, "test");
    client.delete(&kinds::NODES, &Key::new("", node), &DeleteOptions::default()).await.expect("deleted");
}

/// A cluster in which the first bindings of the scheduler meet a fault.
fn cluster(nodes: usize, fault: Fault, times: usize) -> (Cluster, Taken) {
    let taken = Taken::default();
    let (counted, left) = (taken.clone(), Arc::new(AtomicUsize::new(times)));
    let between = move |server, administrator| {
        let faulty = Faulty { server, administrator, fault, left, taken: counted };
        Arc::new(faulty) as Arc<dyn Transport>
    };
    let options = ClusterOptions {
        simulated_nodes: nodes,
        scheduler_through: Some(Box::new(between)),
        ..ClusterOptions::default()
    };
    (Cluster::start(options), taken)
}

fn spec() -> Value {
    let resources = value!({"requests": {"cpu": "8"}});
    value!({"containers": [{"name": "main", "image": "registry.example/app:1", "resources": (resources)}]})
}

fn pod(index: usize) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": (format!("pod-{index}")), "namespace": NAMESPACE}, "spec": (spec()),
    })
}

/// The number of pods on each node; pods without a node are on "".
fn places(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    for pod in cluster.list(&kinds::PODS, NAMESPACE) {
        *places.entry(pod.str_at(&["spec", "nodeName"]).unwrap_or_default().to_owned()).or_default() += 1;
    }
    places
}

/// As many pods as fit all get a node, each once and none too many, whatever happens to the first bindings.
#[track_caller]
fn check(fault: Fault) {
    let (cluster, taken) = cluster(3, fault, 5);
    for index in 0..3 * PER_NODE {
        cluster.create(&kinds::PODS, &pod(index));
    }
    let full = |cluster: &Cluster| !places(cluster).contains_key("");
    cluster.until("every pod has a node", Duration::from_secs(600), full);
    assert!(places(&cluster).values().all(|pods| *pods == PER_NODE), "{:?}", places(&cluster));
    let taken = taken.lock().expect("no holder of the lock panicked");
    assert_eq!(taken.len(), 3 * PER_NODE);
    assert!(taken.values().all(|times| *times == 1), "{taken:?}");
}

#[test]
fn refused_bindings_are_decided_again() {
    check(Fault::Refused);
}

#[test]
fn a_binding_whose_response_is_lost_is_bound_once() {
    check(Fault::AnswerLost);
}

#[test]
fn a_binding_that_is_lost_is_sent_again() {
    check(Fault::RequestLost);
}

#[test]
fn pods_bound_to_a_deleted_node_are_replaced() {
    let (cluster, _) = cluster(3, Fault::NodeGone, 1);
    let replicas = i64::try_from(2 * PER_NODE).unwrap();
    let deployment = value!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": (spec())}},
    });
    cluster.create(&kinds::DEPLOYMENTS, &deployment);
    let available = |cluster: &Cluster| {
        let web = cluster.get(&kinds::DEPLOYMENTS, NAMESPACE, "web").unwrap_or_default();
        web.int_at(&["status", "availableReplicas"]) == Some(replicas)
    };
    cluster.until("every replica runs", Duration::from_secs(3600), available);
    let nodes = cluster.list(&kinds::NODES, "");
    assert_eq!(nodes.len(), 2, "one of three is gone");
    let places = places(&cluster);
    for node in &nodes {
        assert_eq!(places.get(corten_api::meta::name(node)), Some(&PER_NODE), "{places:?}");
    }
}

const POD_COUNT: usize = 300;
const NODE_COUNT: usize = 10;

/// The node of every pod that has one.
fn bound(server: &Server) -> BTreeMap<String, String> {
    let list = server.client().get("/api/v1/namespaces/default/pods").expect(200);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let pods = list["items"].as_array().expect("a list").iter();
    let places = pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"])));
    places.filter(|(_, node)| !node.is_empty()).collect()
}

#[test]
fn a_scheduler_killed_while_binding_binds_the_rest_after_a_restart() {
    let arguments = [
        "--disable=agent,controller-manager",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ];
    let mut server = Server::start_with(&arguments);
    for index in 0..NODE_COUNT {
        let room = json!({"cpu": (POD_COUNT / NODE_COUNT).to_string(), "memory": "64Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{index}")},
            "status": {"capacity": room, "allocatable": room}});
        server.client().post("/api/v1/nodes", &node).expect(201);
    }
    let requests = json!({"requests": {"cpu": "1"}});
    let container = json!({"name": "main", "image": "registry.example/app:1", "resources": requests});
    let mut seen = BTreeMap::new();
    for index in 0..POD_COUNT {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{index}")},
            "spec": {"containers": [container]}});
        server.client().post("/api/v1/namespaces/default/pods", &pod).expect(201);
        if index % 60 == 59 {
            // Some are bound, some are being bound, and some are pending.
            let now = bound(&server);
            assert!(seen.iter().all(|(pod, node)| now.get(pod) == Some(node)), "a pod has moved");
            seen = now;
            server.kill_9();
            server.restart();
        }
    }
    eventually("every pod has a node", || bound(&server).len() == POD_COUNT);
    let last = bound(&server);
    assert!(seen.iter().all(|(pod, node)| last.get(pod) == Some(node)), "a pod has moved");
    for index in 0..NODE_COUNT {
        let node = format!("node-{index}");
        let pods = last.values().filter(|place| **place == node).count();
        assert_eq!(pods, POD_COUNT / NODE_COUNT, "{node} is full, and not more");
    }
}
