//! `/healthz`, `/livez` and `/readyz`, with upstream's checks by name.
//!
//! A check of a part of start-up passes once the server is ready: the work of upstream's start hooks is done here before the
//! first request is served.

use std::sync::atomic::{AtomicBool, Ordering};

use corten_serving::metrics::{Exposition, Kind};
use corten_store::Store;

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

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

pub(crate) struct Health {
    ready: AtomicBool,
    stopping: AtomicBool,
    /// The outcome of the last check of the store.
    is_store_healthy: AtomicBool,
    store: Store,
}

impl Health {
    pub(crate) fn new(store: Store) -> Health {
        Health {
            ready: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            is_store_healthy: AtomicBool::new(true),
            store,
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

    /// Checks the store for the next answer.
    pub(crate) async fn check_store(&self) {
        self.is_store_healthy.store(self.store.is_healthy().await, Ordering::Release);
    }

    /// All paths of health endpoints.
    pub(super) fn paths() -> impl Iterator<Item = String> {
        ENDPOINTS.into_iter().flat_map(|endpoint| {
            let checks = Self::checks(endpoint).into_iter().map(move |check| format!("/{endpoint}/{check}"));
            std::iter::once(format!("/{endpoint}")).chain(checks)
        })
    }

    /// The checks as metrics: one gauge per check and endpoint.
    pub(super) fn metrics(&self) -> String {
        let name = "kubernetes_healthcheck";
        let mut out = Exposition::default();
        out.family(name, Kind::Gauge, "[STABLE] This metric records the result of a single healthcheck.");
        for endpoint in ENDPOINTS {
            for check in Self::checks(endpoint) {
                let value = u8::from(self.failure(check).is_none());
                out.sample(name, &[("name", check), ("type", endpoint)], value);
            }
        }
        out.finish()
    }

    fn checks(endpoint: &str) -> Vec<&'static str> {
        let first: &[&str] = match endpoint {
            "readyz" => &["ping", "log", "etcd", "etcd-readiness", "informer-sync"],
            _ => &["ping", "log", "loopback-serving-certificate", "etcd"],
        };
        let rest = COMMON.iter().filter(|c| endpoint == "readyz" || **c != "shutdown");
        first.iter().chain(rest).copied().collect()
    }

    /// The reason of a failed check; `None` if it passes.
    fn failure(&self, check: &str) -> Option<&'static str> {
        match check {
            "ping" | "log" | "loopback-serving-certificate" => None,
            "shutdown" => self.is_stopping().then_some("process is shutting down"),
            "etcd" | "etcd-readiness" => {
                (!self.is_store_healthy.load(Ordering::Acquire)).then_some("etcd client connection not ready")
            }
            _ => (!self.is_ready()).then_some("not finished"),
        }
    }

    pub(crate) fn answer(&self, path: &str, query: &Query) -> Answer {
        let mut segments = path.trim_start_matches('/').splitn(2, '/');
        let endpoint = segments.next().unwrap_or_default();
        let checks = Self::checks(endpoint);
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
