//! The condition `Available` of APIServices that name a Service: checks, and the status they lead to.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Value, time};
use corten_auth::{MASTERS, User};
use tokio::task::JoinSet;

use super::target::{Fetch, Service, Target};
use crate::Server;
use crate::call::Backend;

/// The number of concurrent attempts of a check: an endpoint that fails must not hide one that works.
const ATTEMPTS: usize = 5;
/// The timeout of one attempt.
const PATIENCE: Duration = Duration::from_secs(5);

/// The outcome of a check: the status, reason and message of the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Outcome {
    fn new(status: &'static str, reason: &'static str, message: String) -> Outcome {
        Outcome { status, reason, message }
    }

    pub(super) fn local() -> Outcome {
        Outcome::new("True", "Local", "Local APIServices are always available".to_owned())
    }

    /// True if the server itself failed, which no event announces to be over.
    pub(super) fn needs_retry(&self) -> bool {
        self.reason == "FailedDiscoveryCheck"
    }
}

/// The user of the server's own requests to aggregated servers.
pub(super) fn aggregator() -> User {
    User { name: "system:kube-aggregator".into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// Checks the Service, its endpoints, and the server behind them.
pub(super) async fn check(server: &Arc<Server>, target: &Arc<Target>) -> Outcome {
    let backend = &server.backend;
    let Service { namespace, name, .. } = &target.service;
    let service = backend.catalog.cache("", "services").and_then(|cache| cache.get(namespace, name));
    let slices = backend.catalog.cache("discovery.k8s.io", "endpointslices");
    let slices = slices.map(|cache| cache.snapshot(namespace, None).objects).unwrap_or_default();
    let service = service.map(|service| service.tree());
    let own = slices.iter().filter(|slice| {
        slice.projection.label("kubernetes.io/service-name").is_some_and(|of| of == name.as_str())
    });
    let own: Vec<&Value> = own.map(|slice| slice.parsed()).collect();
    if let Err(outcome) = check_service(&target.service, service.as_ref(), &own) {
        return outcome;
    }
    match check_server(server, target).await {
        Ok(()) => Outcome::new("True", "Passed", "all checks passed".to_owned()),
        Err(why) => Outcome::new("False", "FailedDiscoveryCheck", why),
    }
}

/// Checks the Service and its EndpointSlices. Pure.
fn check_service(of: &Service, service: Option<&Value>, slices: &[&Value]) -> Result<(), Outcome> {
    let Service { namespace, name, port } = of;
    let no = |reason, message| Err(Outcome::new("False", reason, message));
    let Some(service) = service else {
        return no("ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    if service.str_at(&["spec", "type"]).unwrap_or("ClusterIP") != "ClusterIP" {
        return Ok(());
    }
    let ports = service.items_at(&["spec", "ports"]);
    let Some(found) = ports.iter().find(|found| found.int_at(&["port"]) == Some(*port)) else {
        let why = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return no("ServicePortError", why);
    };
    let port_name = found.str_at(&["name"]).unwrap_or_default();
    if slices.is_empty() {
        let why = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return no("EndpointsNotFound", why);
    }
    let is_ready = |endpoint: &Value| endpoint.bool_at(&["conditions", "ready"]).unwrap_or(true);
    let is_port = |port: &Value| {
        port.str_at(&["name"]).unwrap_or_default() == port_name && port.int_at(&["port"]).is_some()
    };
    let has_endpoint = |slice: &&Value| {
        slice.items_at(&["endpoints"]).iter().any(is_ready) && slice.items_at(&["ports"]).iter().any(is_port)
    };
    if !slices.iter().any(has_endpoint) {
        let why = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        return no("MissingEndpoints", why);
    }
    Ok(())
}

/// Requests the discovery document of the group version, which every server must serve.
async fn check_server(server: &Arc<Server>, target: &Arc<Target>) -> Result<(), String> {
    if let Some(why) = target.invalid() {
        return Err(why.to_owned());
    }
    let mut attempts = JoinSet::new();
    for _ in 0..ATTEMPTS {
        let (server, target) = (server.clone(), target.clone());
        attempts.spawn(async move { attempt(&server.backend, &target).await });
    }
    let mut last = Ok(());
    while let Some(outcome) = attempts.join_next().await {
        last = outcome.map_err(|error| error.to_string()).flatten();
        if last.is_ok() {
            // The others end by themselves: a server would report a request that is given up.
            attempts.detach_all();
            break;
        }
    }
    last
}

async fn attempt(backend: &Backend, target: &Target) -> Result<(), String> {
    let (path, user) = (target.path(), aggregator());
    let to = target.resolve(backend)?;
    let url = format!("https://{to}{path}");
    let failed = |why: String| format!("failing or missing response from {url}: {why}");
    let fetch =
        Fetch { path: &path, accept: "application/json", etag: "", user: &user, timeout: PATIENCE, limit: 0 };
    let response = target.fetch_from(to, &fetch).await;
    let response = response.map_err(|why| failed(format!("Get {url:?}: {why}")))?;
    match response.code.is_success() {
        true => Ok(()),
        false => Err(failed(format!("bad status from {url}: {}", response.code.as_u16()))),
    }
}

/// The object with the condition of an outcome; `None` if it has it already.
pub(super) fn revised(object: &Value, outcome: &Outcome, now: &str) -> Option<Value> {
    let conditions = object.items_at(&["status", "conditions"]);
    let text = |condition: &Value, key: &str| condition.str_at(&[key]).unwrap_or_default().to_owned();
    let known = conditions.iter().find(|condition| text(condition, "type") == "Available");
    let since = known.filter(|known| text(known, "status") == outcome.status);
    let since = since.map_or_else(|| now.to_owned(), |known| text(known, "lastTransitionTime"));
    let mut condition = Value::object();
    for (key, value) in [
        ("type", "Available"),
        ("status", outcome.status),
        ("lastTransitionTime", since.as_str()),
        ("reason", outcome.reason),
        ("message", outcome.message.as_str()),
    ] {
        condition.set(&[key], value);
    }
    if known == Some(&condition) {
        return None;
    }
    let mut list: Vec<Value> = conditions.to_vec();
    match list.iter_mut().find(|condition| text(condition, "type") == "Available") {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
    let mut object = object.clone();
    object.set(&["status", "conditions"], list);
    Some(object)
}

/// True if the condition `Available` is true.
pub(super) fn is_available(object: &Value) -> bool {
    let mut conditions = object.items_at(&["status", "conditions"]).iter();
    let available = conditions.find(|condition| condition.str_at(&["type"]) == Some("Available"));
    available.is_some_and(|condition| condition.str_at(&["status"]) == Some("True"))
}

/// The current time, as conditions have it.
pub(super) fn now(backend: &Backend) -> String {
    time::format(backend.clock.now()).to_string()
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn of() -> Service {
        Service { namespace: "n".to_owned(), name: "s".to_owned(), port: 443 }
    }

    #[track_caller]
    fn check(service: &Option<Value>, slices: &[Value], reason: &str, message: &str) {
        let slices: Vec<&Value> = slices.iter().collect();
        let found = check_service(&of(), service.as_ref(), &slices);
        let found = found.err().map(|outcome| (outcome.reason, outcome.message));
        assert_eq!(found, (!reason.is_empty()).then_some((reason, message.to_owned())));
    }

    #[test]
    fn services_and_endpoints_are_checked_first() {
        let service = |port: i64| {
            Some(value!({"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": port}]}}))
        };
        let slice = |port: &str, ready: bool| value!({"ports": [{"name": port, "port": 8443}], "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]});
        check(&None, &[], "ServiceNotFound", "service/s in \"n\" is not present");
        check(&service(80), &[], "ServicePortError", "service/s in \"n\" is not listening on port 443");
        check(&service(443), &[], "EndpointsNotFound", "cannot find endpointslices for service/s in \"n\"");
        let missing = "endpointslices for service/s in \"n\" have no addresses with port name \"https\"";
        check(&service(443), &[slice("https", false)], "MissingEndpoints", missing);
        check(&service(443), &[slice("http", true)], "MissingEndpoints", missing);
        check(&service(443), &[slice("https", false), slice("https", true)], "", "");
        check(&Some(value!({"spec": {"type": "ExternalName"}})), &[], "", "");
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let failed = Outcome::new("False", "ServiceNotFound", "gone".to_owned());
        let object = value!({"metadata": {"name": "v1.g"}});
        let first = revised(&object, &failed, "t1").unwrap();
        assert_eq!(revised(&first, &failed, "t2"), None);
        let other =
            revised(&first, &Outcome::new("False", "MissingEndpoints", "none".to_owned()), "t2").unwrap();
        let condition = &other.items_at(&["status", "conditions"])[0];
        assert_eq!(condition.str_at(&["lastTransitionTime"]), Some("t1"));
        assert!(!is_available(&other));
        let passed =
            revised(&other, &Outcome::new("True", "Passed", "all checks passed".to_owned()), "t3").unwrap();
        let conditions = passed.items_at(&["status", "conditions"]);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].str_at(&["lastTransitionTime"]), Some("t3"));
        assert!(is_available(&passed));
    }
}
