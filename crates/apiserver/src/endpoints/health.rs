//! `/healthz`, `/livez` and `/readyz`, with upstream's checks by name.
//!
//! A check of a part of start-up passes once the server is ready: the work of upstream's start hooks is done here before the
//! first request is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corten_serving::metrics::{Exposition, Kind};
use corten_store::Store;
use parking_lot::Mutex;

use crate::EncryptionAtRest;
use crate::request::Query;
use crate::respond::{self, Answer};

/// Checks of every endpoint, in upstream's order.
const COMMON: [&str; 32] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
];

/// The check of all KMS plugins, and that of the hook which reads the encryption configuration again.
const PLUGINS: &str = "kms-providers";
const RELOAD_HOOK: &str = "poststarthook/start-encryption-provider-config-automatic-reload";

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

pub(crate) struct Health {
    ready: AtomicBool,
    stopping: AtomicBool,
    /// The outcome of the last check of the store.
    is_store_healthy: AtomicBool,
    store: Store,
    /// The reason why the last check of the KMS plugins failed.
    plugins_failure: Mutex<Option<String>>,
    encryption: Arc<EncryptionAtRest>,
}

impl Health {
    pub(crate) fn new(store: Store, encryption: Arc<EncryptionAtRest>) -> Health {
        Health {
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            is_store_healthy: AtomicBool::new(true),
            store,
            plugins_failure: Mutex::default(),
            encryption,
        }
    }

    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Checks the store and the KMS plugins for the next answer, about a path.
    pub(crate) async fn check(&self, path: &str) {
        let store = async {
            self.is_store_healthy.store(self.store.is_healthy().await, Ordering::Release);
        };
        let plugins = async {
            if !path.starts_with("/livez") {
                let failure = self.encryption.check().await.err();
                *self.plugins_failure.lock() = failure;
            }
        };
        tokio::join!(store, plugins);
    }

    /// All paths of health endpoints.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        ENDPOINTS.into_iter().flat_map(|endpoint| {
            let checks = self.checks(endpoint).into_iter().map(move |check| format!("/{endpoint}/{check}"));
            std::iter::once(format!("/{endpoint}")).chain(checks)
        })
    }

    /// The checks as metrics: one gauge per check and endpoint.
    pub(super) fn metrics(&self) -> String {
        let name = "kubernetes_healthcheck";
        let mut out = Exposition::default();
        out.family(name, Kind::Gauge, "[STABLE] This metric records the result of a single healthcheck.");
        for endpoint in ENDPOINTS {
            for check in self.checks(endpoint) {
                let value = u8::from(self.failure(check).is_none());
                out.sample(name, &[("name", check), ("type", endpoint)], value);
            }
        }
        out.finish()
    }

    fn checks(&self, endpoint: &str) -> Vec<&'static str> {
        let is_ready = endpoint == "readyz";
        let first: &[&str] = match is_ready {
            true => &["ping", "log", "etcd", "etcd-readiness"],
            false => &["ping", "log", "loopback-serving-certificate", "etcd"],
        };
        let plugins = (endpoint != "livez" && self.encryption.has_check()).then_some(&PLUGINS);
        let sync = is_ready.then_some(&"informer-sync");
        let hook = self.encryption.reloads().then_some(&RELOAD_HOOK);
        let rest = COMMON.iter().filter(|c| is_ready || **c != "shutdown");
        first.iter().chain(plugins).chain(sync).chain(hook).chain(rest).copied().collect()
    }

    /// The reason of a failed check; `None` if it passes.
    fn failure(&self, check: &str) -> Option<String> {
        let why = match check {
            PLUGINS => return self.plugins_failure.lock().clone(),
            "ping" | "log" | "loopback-serving-certificate" => None,
            "shutdown" => self.is_stopping().then_some("process is shutting down"),
            "etcd" | "etcd-readiness" => {
                (!self.is_store_healthy.load(Ordering::Acquire)).then_some("etcd client connection not ready")
            }
            _ => (!self.is_ready()).then_some("not finished"),
        };
        why.map(str::to_owned)
    }

    pub(crate) fn answer(&self, path: &str, query: &Query) -> Answer {
        let mut segments = path.trim_start_matches('/').splitn(2, '/');
        let endpoint = segments.next().unwrap_or_default();
        let checks = self.checks(endpoint);
        if let Some(single) = segments.next() {
            if !checks.contains(&single) {
                return respond::text(404, "404 page not found\n");
            }
            return match self.failure(single) {
                None => respond::text(200, "ok"),
                Some(why) => respond::text(500, format!("internal server error: {why}\n")),
            };
        }
        self.report(endpoint, &checks, query)
    }

    fn report(&self, endpoint: &str, checks: &[&str], query: &Query) -> Answer {
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut text = String::new();
        let mut failed = false;
        for check in checks {
            if excluded.contains(check) {
                text.push_str(&format!("[+]{check} excluded: ok\n"));
            } else if self.failure(check).is_some() {
                failed = true;
                text.push_str(&format!("[-]{check} failed: reason withheld\n"));
            } else {
                text.push_str(&format!("[+]{check} ok\n"));
            }
        }
        let unknown: Vec<String> =
            excluded.iter().filter(|e| !checks.contains(*e)).map(|e| format!("{e:?}")).collect();
        if !unknown.is_empty() {
            text.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                unknown.join(",")
            ));
        }
        match (failed, query.get("verbose").is_some()) {
            (true, _) => respond::text(500, format!("{text}{endpoint} check failed\n")),
            (false, true) => respond::text(200, format!("{text}{endpoint} check passed\n")),
            (false, false) => respond::text(200, "ok"),
        }
    }
}
