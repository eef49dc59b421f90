//! The `kube` crate, unchanged: typed objects, apply, pages, watchers with and without streaming lists, and custom
//! resources that it derives from Rust types.

use std::collections::BTreeMap;

use corten_testkit::{DEADLINE, Server};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, GroupVersionKind, WatchEvent};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{conditions, wait::await_condition};
use kube::{Client, Config, CustomResource, CustomResourceExt, Discovery, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

async fn client(server: &Server) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("kube reads the kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("kube understands the kubeconfig")).expect("a client")
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(corten_e2e::pod(name)).expect("a pod")
}

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("a".to_owned(), "1".to_owned())])),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn typed_objects_are_created_and_deleted() {
    let server = Server::start();
    let client = client(&server).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let created = pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    assert!(created.uid().is_some());
    let error = pods.create(&PostParams::default(), &pod("p")).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_already_exists()));

    let merge = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let patched = pods.patch("p", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(patched.labels()["a"], "b");
    let error = pods.replace("p", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let running = pods.patch_status("p", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(running.status.and_then(|s| s.phase).as_deref(), Some("Running"));
    assert_eq!(pods.get_metadata("p").await.unwrap().labels()["a"], "b");
    assert_eq!(pods.list(&ListParams::default().labels("a=b")).await.unwrap().items.len(), 1);

    pods.delete("p", &DeleteParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
    let namespaces: Api<Namespace> = Api::all(client);
    assert!(namespaces.list(&ListParams::default()).await.unwrap().iter().any(|n| n.name_any() == "default"));
}

#[tokio::test]
async fn objects_are_applied() {
    let server = Server::start();
    let deployments: Api<Deployment> = Api::default_namespaced(client(&server).await);
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/image:1"}]},
            },
        },
    });
    let one = PatchParams::apply("one");
    let applied = deployments.patch("web", &one, &Patch::Apply(&web)).await.unwrap();
    assert_eq!(applied.managed_fields()[0].manager.as_deref(), Some("one"));
    let mine = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3}});
    let two = PatchParams::apply("two");
    let error = deployments.patch("web", &two, &Patch::Apply(&mine)).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
    let forced = deployments.patch("web", &two.force(), &Patch::Apply(&mine)).await.unwrap();
    assert_eq!(forced.spec.replicas, Some(3));
    let scale = deployments.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(3));
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server = Server::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server).await);
    for index in 0..7 {
        maps.create(&PostParams::default(), &map(&format!("m{index}"))).await.unwrap();
    }
    let mut names = Vec::new();
    let mut page = ListParams::default().limit(3);
    let mut pages = 0;
    loop {
        let list = maps.list(&page).await.unwrap();
        names.extend(list.iter().map(ResourceExt::name_any));
        pages += 1;
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(names, (0..7).map(|index| format!("m{index}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn watches_see_every_change() {
    let server = Server::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server).await);
    let version = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    maps.create(&PostParams::default(), &map("m")).await.unwrap();
    maps.patch("m", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "2"}}))).await.unwrap();
    maps.delete("m", &DeleteParams::default()).await.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = timeout(DEADLINE, events.try_next()).await.unwrap().unwrap().unwrap();
        seen.push(match event {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        });
    }
    assert_eq!(seen, ["added", "modified", "deleted"]);
}

#[tokio::test]
async fn watchers_list_then_watch() {
    follow(watcher::Config::default()).await;
}

#[tokio::test]
async fn watchers_stream_their_lists() {
    follow(watcher::Config::default().streaming_lists()).await;
}

async fn follow(config: watcher::Config) {
    let server = Server::start();
    let maps: Api<ConfigMap> = Api::default_namespaced(client(&server).await);
    for name in ["one", "two"] {
        maps.create(&PostParams::default(), &map(name)).await.expect("created");
    }
    let mut events = watcher(maps.clone(), config).boxed();
    let mut initial = Vec::new();
    loop {
        match timeout(DEADLINE, events.try_next()).await.expect("in time").expect("no error") {
            Some(Event::Init) => {}
            Some(Event::InitApply(object)) => initial.push(object.name_any()),
            Some(Event::InitDone) => break,
            other => panic!("{other:?} before the initial list was done"),
        }
    }
    initial.sort();
    assert_eq!(initial, ["one", "two"]);
    maps.create(&PostParams::default(), &map("three")).await.expect("created");
    maps.delete("one", &DeleteParams::default()).await.expect("deleted");
    let mut next = async || timeout(DEADLINE, events.try_next()).await.expect("in time").expect("no error");
    assert!(matches!(next().await, Some(Event::Apply(object)) if object.name_any() == "three"));
    assert!(matches!(next().await, Some(Event::Delete(object)) if object.name_any() == "one"));
}

#[tokio::test]
async fn discovery_leads_to_dynamic_objects() {
    let server = Server::start();
    let client = client(&server).await;
    let discovery = Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
    let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
    let leases: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
    let lease = DynamicObject::new("l", &resource).data(json!({"spec": {"holderIdentity": "me"}}));
    let created = leases.create(&PostParams::default(), &lease).await.unwrap();
    assert_eq!(created.data["spec"]["holderIdentity"], "me");
}

/// A custom resource as operators in Rust define theirs.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Machine",
    namespaced,
    status = "MachineStatus",
    shortname = "mc"
)]
#[kube(scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"))]
#[kube(validation = "self.spec.replicas <= 5")]
#[kube(printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"))]
struct MachineSpec {
    replicas: i32,
    mode: Option<Mode>,
    #[serde(default = "three")]
    tries: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
enum Mode {
    Fast,
    Safe,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
struct MachineStatus {
    replicas: i32,
}

fn three() -> i32 {
    3
}

#[tokio::test]
async fn derived_custom_resources_are_installed_and_used() {
    let server = Server::start();
    let client = client(&server).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("operator").force();
    let name = "machines.example.com";
    definitions.patch(name, &apply, &Patch::Apply(Machine::crd())).await.unwrap();
    let established = await_condition(definitions.clone(), name, conditions::is_crd_established());
    timeout(DEADLINE, established).await.unwrap().unwrap();

    let machines: Api<Machine> = Api::default_namespaced(client.clone());
    let machine = Machine::new("m", MachineSpec { replicas: 2, mode: Some(Mode::Safe), tries: 1 });
    let applied = machines.patch("m", &apply, &Patch::Apply(&machine)).await.unwrap();
    assert_eq!((applied.spec.replicas, applied.spec.mode), (2, Some(Mode::Safe)));
    let short = json!({"apiVersion": "example.com/v1", "kind": "Machine", "metadata": {"name": "short"}, "spec": {"replicas": 1}});
    let created = machines.patch("short", &apply, &Patch::Apply(short)).await.unwrap();
    assert_eq!(created.spec.tries, 3, "the schema's default");

    let too_many = Machine::new("n", MachineSpec { replicas: 6, mode: None, tries: 1 });
    let error = machines.create(&PostParams::default(), &too_many).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_invalid()));
    let status = Patch::Merge(json!({"status": {"replicas": 2}}));
    let patched = machines.patch_status("m", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(patched.status.map(|status| status.replicas), Some(2));
    assert_eq!(machines.get_scale("m").await.unwrap().spec.and_then(|spec| spec.replicas), Some(2));

    let mut events = watcher(machines.clone(), watcher::Config::default()).boxed();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        if let Event::InitApply(machine) =
            timeout(DEADLINE, events.try_next()).await.unwrap().unwrap().unwrap()
        {
            seen.push(machine.name_any());
        }
    }
    assert_eq!(seen, ["m", "short"]);
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    let uid = definitions.get(name).await.map(|found| found.uid().unwrap_or_default()).unwrap_or_default();
    timeout(DEADLINE, await_condition(definitions, name, conditions::is_deleted(&uid)))
        .await
        .unwrap()
        .unwrap();
}
