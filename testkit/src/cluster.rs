//! A whole cluster within the test: API server, controllers, scheduler and simulated nodes on a clock that stands still until
//! the test moves it.
//!
//! There is one thread besides the store's, and no socket. The clock moves only when nothing is left to do at its
//! present time, so that the order of events does not depend on the speed of the machine: days pass in seconds, and
//! always in the same way.

use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_apiserver::{
    AdmissionPlugins, AuthenticationOptions, AuthorizationModes, Limits, PortRange, RuntimeConfig,
    ServiceRanges,
};
use corten_auth::authentication::SigningKey;
use corten_base::{Clock, ClockControl};
use corten_client::{Client, DeleteOptions, Error, Key, Kind, Patch, Propagation, Transport, kinds};
use corten_controllers::AuthoritySource;
use corten_pki::{Sans, ServerPki};
use corten_reconcile::{Manager, Selection};
use corten_store::Store;
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// The start time of every test: a Monday, at midnight.
const START: &str = "2026-03-02T00:00:00Z";
/// A memory file system: nothing has to outlive a test.
const MEMORY: &str = "/dev/shm";

pub struct Cluster {
    runtime: Runtime,
    /// Notified whenever nothing is left to do.
    idle: Arc<Notify>,
    clock: Clock,
    hands: ClockControl,
    client: Client,
    manager: Option<Manager>,
    server: Option<corten_apiserver::Running>,
    _directory: TempDir,
}

/// Wraps the transport of a component: receives its own transport and the administrator's.
pub type Between = Box<dyn FnOnce(Arc<dyn Transport>, Arc<dyn Transport>) -> Arc<dyn Transport>>;

/// The configuration of a cluster.
#[derive(Default)]
pub struct ClusterOptions {
    /// Certificates and keys are always the cluster's own.
    pub controllers: corten_controllers::Options,
    pub simulated_nodes: usize,
    /// The wrapper of the scheduler's transport.
    pub scheduler_through: Option<Between>,
}

impl Cluster {
    /// A new cluster with every controller and some nodes, ready to be used.
    pub fn with_nodes(simulated_nodes: usize) -> Cluster {
        Cluster::start(ClusterOptions { simulated_nodes, ..ClusterOptions::default() })
    }

    pub fn start(mut options: ClusterOptions) -> Cluster {
        let directory = TempDir::with_prefix_in("corten-test-", MEMORY)
            .or_else(|_| TempDir::with_prefix("corten-test-"))
            .expect("a temporary directory");
        let store = Store::open(&directory.path().join("store"), corten_store::Options::default())
            .expect("an empty store opens");
        let (clock, hands) = Clock::manual(START.parse().expect("a good time"));
        let idle = Arc::new(Notify::new());
        let runtime = runtime(store.clone(), idle.clone());
        let pki =
            ServerPki::load_or_create(&directory.path().join("pki"), &Sans::default(), clock.now().into())
                .expect("certificates can be made");
        own_credentials(&mut options.controllers, &pki);
        let server = server_options(pki, store, clock.clone());
        let server = runtime.block_on(corten_apiserver::start(server)).expect("an empty cluster starts");
        let manager = runtime.block_on(async { manage(&server, clock.clone(), options) });
        let client = Client::new(server.transport("system:admin", &["system:masters"]), "corten-testkit");
        let (manager, server) = (Some(manager), Some(server));
        let cluster = Cluster { runtime, idle, clock, hands, client, manager, server, _directory: directory };
        cluster.settle();
        cluster
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The administrator's client, for use within `ask`.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client of a user without any rights but those of its role bindings.
    pub fn client_as(&self, user: &str) -> Client {
        let server = self.server.as_ref().expect("a cluster has a server until it ends");
        Client::new(server.transport(user, &[]), "corten-testkit")
    }

    /// Runs everything that is due now. The clock stands still.
    pub fn settle(&self) {
        self.runtime.block_on(self.idle.notified());
    }

    /// Advances the clock, and runs everything that becomes due.
    pub fn advance(&self, by: Duration) {
        let end = self.now() + SignedDuration::try_from(by).expect("a time that ends");
        self.settle();
        while self.hands.advance_to_next(end) {
            self.settle();
        }
    }

    /// Advances the clock until a condition holds, and returns the elapsed time.
    #[track_caller]
    pub fn until(&self, what: &str, limit: Duration, is_so: impl Fn(&Cluster) -> bool) -> Duration {
        let start = self.now();
        let end = start + SignedDuration::try_from(limit).expect("a time that ends");
        self.settle();
        while !is_so(self) {
            assert!(self.hands.advance_to_next(end), "{what}: not within {limit:?}");
            self.settle();
        }
        self.now().duration_since(start).unsigned_abs()
    }

    /// Waits for a response; the clock advances if it takes time.
    pub fn ask<T>(&self, request: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            let mut request = std::pin::pin!(request);
            loop {
                tokio::select! {
                    biased;
                    answer = &mut request => return answer,
                    () = self.idle.notified() => {
                        assert!(self.hands.advance_to_next(Timestamp::MAX), "an answer that never comes");
                    }
                }
            }
        })
    }

    #[track_caller]
    pub fn create(&self, kind: &Kind, object: &Value) -> Value {
        self.ask(self.client.create(kind, object)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An object, if it exists.
    #[track_caller]
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let found = self.ask(self.client.get(kind, &Key::new(namespace, name)));
        present(found).unwrap_or_else(|error| panic!("{error}"))
    }

    /// All objects of a kind in a namespace; in all namespaces if it is empty.
    #[track_caller]
    pub fn list(&self, kind: &Kind, namespace: &str) -> Vec<Value> {
        let list = self.ask(self.client.list(kind, namespace)).unwrap_or_else(|error| panic!("{error}"));
        list.items_at(&["items"]).to_vec()
    }

    /// Applies a merge patch to an object.
    #[track_caller]
    pub fn patch(&self, kind: &Kind, namespace: &str, name: &str, patch: Value) -> Value {
        let key = Key::new(namespace, name);
        self.ask(self.client.patch(kind, &key, &Patch::Merge(patch), ""))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Deletes an object, and its dependents in the background.
    #[track_caller]
    pub fn delete(&self, kind: &Kind, namespace: &str, name: &str) {
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        let deleted = self.ask(self.client.delete(kind, &Key::new(namespace, name), &options));
        present(deleted).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Disconnects a simulated node.
    #[track_caller]
    pub fn unplug(&self, node: &str) {
        let mut patch = Value::object();
        patch.set(&["metadata", "annotations", corten_simulator::UNPLUGGED], "true");
        self.patch(&kinds::NODES, "", node, patch);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.manager.take());
        if let Some(server) = self.server.take().filter(|_| !std::thread::panicking()) {
            self.runtime.block_on(server.stop());
        }
    }
}

fn present(answer: Result<Value, Error>) -> Result<Option<Value>, Error> {
    match answer {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

/// A runtime of one thread that reports when it is idle: no task can run, and none waits for the store. The
/// store commits only while no task can run, so that the speed of its threads does not matter.
fn runtime(store: Store, idle: Arc<Notify>) -> Runtime {
    store.hold();
    let tell = move || {
        store.flush();
        if store.is_quiet() {
            idle.notify_waiters();
        }
    };
    Builder::new_current_thread().enable_all().on_thread_park(tell).build().expect("a runtime")
}

fn server_options(pki: ServerPki, store: Store, clock: Clock) -> corten_apiserver::Options {
    let nowhere = ([127, 0, 0, 1], 6443).into();
    corten_apiserver::Options {
        authentication: AuthenticationOptions::of(&pki).expect("fresh keys are good"),
        pki,
        store,
        encryption: Arc::default(),
        listener: None,
        clock,
        runtime_config: RuntimeConfig::default(),
        admission_plugins: AdmissionPlugins::new(&[], &[]).expect("the usual ones"),
        authorization_modes: AuthorizationModes::parse("Node,RBAC").expect("the usual ones"),
        advertised: nowhere,
        endpoint: None,
        resource_metrics: false,
        service_ranges: ServiceRanges::parse("10.96.0.0/12").expect("a good range"),
        node_ports: PortRange::parse("30000-32767").expect("a good range"),
        limits: Limits {
            read_only: 0,
            mutating: 0,
            request_timeout: Duration::from_secs(60),
            min_request_timeout: Duration::from_secs(1800),
        },
        flags: Vec::new(),
        joins: None,
    }
}

fn own_credentials(options: &mut corten_controllers::Options, pki: &ServerPki) {
    let authority = pki.authority.clone();
    let signing = std::mem::take(&mut options.signing);
    options.signing = signing.with_all(&(Arc::new(move || Ok(authority.clone())) as AuthoritySource));
    options.root_ca = pki.ca_pem.clone();
    let key = SigningKey::from_pem(&pki.service_account_key_pem).expect("fresh keys are good");
    options.token_key = Some(Arc::new(key));
}

fn manage(server: &corten_apiserver::Running, clock: Clock, options: ClusterOptions) -> Manager {
    let handle = server.handle();
    let direct = handle.transport("system:kube-scheduler", &[]);
    let administrator = handle.transport("system:admin", &["system:masters"]);
    let scheduler = match options.scheduler_through {
        Some(between) => between(direct, administrator),
        None => direct,
    };
    let identities: corten_simulator::Identities =
        Arc::new(move |user, groups| Client::new(handle.transport(user, groups), "corten-testkit"));
    let of_account = identities.clone();
    let client_for = move |account: &str| {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        of_account(&format!("system:serviceaccount:kube-system:{account}"), &groups)
    };
    let client = identities("system:kube-controller-manager", &[]);
    let manager = Manager::new(client, Box::new(client_for), clock).only(Selection::everything());
    let networks_assigned = options.controllers.node_ipam.is_some();
    corten_controllers::start(&manager, options.controllers);
    let scheduler = Client::new(scheduler, "corten-testkit");
    corten_scheduler::start(&manager, scheduler, corten_scheduler::Config::default());
    if options.simulated_nodes > 0 {
        let nodes = corten_simulator::Options { nodes: options.simulated_nodes, networks_assigned };
        corten_simulator::start(&manager, &identities, nodes);
    }
    manager
}
