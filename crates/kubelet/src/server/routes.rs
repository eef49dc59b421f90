//! Which path of the kubelet's API is answered by whom.

use corten_api::{Value, value};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use super::access::{Peer, Refusal};
use super::answer::{self, Answer};
use super::query::{self, Query};
use super::session::Work;
use super::sessions::{self, Asked};
use super::{Server, log_files, logs, metrics, port_forward};

/// Answers one request; what is not allowed is not looked at.
pub(super) async fn answer(server: &Server, peer: &Peer, request: Request<Incoming>) -> Answer {
    let path = query::decode(request.uri().path(), false);
    match server.access.pass(peer, request.method(), &path, request.headers()).await {
        Ok(()) => {}
        Err(Refusal::Unknown) => return answer::text(StatusCode::UNAUTHORIZED, "Unauthorized\n"),
        Err(Refusal::Forbidden(why)) => return answer::text(StatusCode::FORBIDDEN, why),
    }
    let query = Query::parse(request.uri().query());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let method = request.method().clone();
    if let Some(why) = disabled(server.machine.configuration.as_ref(), &parts) {
        return answer::text(StatusCode::METHOD_NOT_ALLOWED, why);
    }
    match (&method, parts.as_slice()) {
        (&Method::GET, ["healthz"]) => answer::text(StatusCode::OK, "ok"),
        (&Method::GET, ["pods"]) => answer::tree(&pods(server)),
        (&Method::GET, ["configz"]) => answer::tree(&configuration(server)),
        (&Method::GET, ["metrics", rest @ ..]) => metrics::answer(server, rest).await,
        (&Method::GET, ["stats", "summary"]) => metrics::summary(server, &query).await,
        (&Method::GET, ["logs", ..]) => log_files::answer(&path).await,
        (&Method::GET, ["containerLogs", namespace, pod, container]) => {
            logs::answer(server, namespace, pod, container, &query).await
        }
        (
            &Method::GET | &Method::POST,
            ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container],
        ) => {
            let work = Work::Exec(query.all("command").map(str::to_owned).collect());
            sessions::answer(server, Asked { namespace, pod, container, work }, &query, request).await
        }
        (
            &Method::GET | &Method::POST,
            ["attach", namespace, pod, container] | ["attach", namespace, pod, _, container],
        ) => {
            let asked = Asked { namespace, pod, container, work: Work::Attach };
            sessions::answer(server, asked, &query, request).await
        }
        (
            &Method::GET | &Method::POST,
            ["portForward", namespace, pod] | ["portForward", namespace, pod, _],
        ) => port_forward::answer(server, namespace, pod, &query, request).await,
        _ => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// Why a part of the API is closed by the configuration, as upstream closes it.
fn disabled(configuration: Option<&Value>, parts: &[&str]) -> Option<&'static str> {
    let is_off = |field: &str| configuration.and_then(|fields| fields.bool_at(&[field])) == Some(false);
    match parts.first() {
        Some(&("exec" | "attach" | "portForward" | "containerLogs" | "run" | "runningpods" | "logs"))
            if is_off("enableDebuggingHandlers") =>
        {
            Some("Debug endpoints are disabled.\n")
        }
        Some(&"logs") if is_off("enableSystemLogHandler") => Some("logs endpoint is disabled.\n"),
        _ => None,
    }
}

/// The pods of this node with the statuses that were told last.
pub(super) fn pods(server: &Server) -> Value {
    let machine = &server.machine;
    let items = machine.pods.all().into_iter().map(|pod| {
        let mut tree = pod.tree().clone();
        if let Some(status) = machine.statuses.last(pod.uid()) {
            tree.set(&["status"], status);
        }
        tree
    });
    let items: Vec<Value> = items.collect();
    value!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": (items)})
}

/// How the kubelet is set up: what it was told, and what came of it.
fn configuration(server: &Server) -> Value {
    let machine = &server.machine;
    let resolver = &machine.config.resolver;
    let dns: Vec<Value> = resolver.cluster_servers.iter().map(|server| server.as_str().into()).collect();
    let mut tree = machine.configuration.clone().unwrap_or_else(Value::object);
    for (field, value) in [
        ("kind", Value::from("KubeletConfiguration")),
        ("apiVersion", Value::from("kubelet.config.k8s.io/v1beta1")),
        ("port", Value::Int(i64::from(machine.api_port))),
        ("clusterDNS", Value::Array(dns)),
        ("clusterDomain", Value::from(resolver.cluster_domain.as_str())),
        ("podLogsDir", Value::from(machine.config.log_root.as_str())),
    ] {
        tree.set(&[field], value);
    }
    value!({"kubeletconfig": (tree)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_closes_parts_of_the_api() {
        let closed = |configuration: Value, path: &str| {
            disabled(Some(&configuration), &path.split('/').collect::<Vec<_>>()).is_some()
        };
        for path in ["exec/n/p/c", "attach/n/p/c", "portForward/n/p", "containerLogs/n/p/c", "logs", "logs/x"]
        {
            assert!(closed(value!({"enableDebuggingHandlers": false}), path), "{path}");
            assert!(!closed(value!({"enableDebuggingHandlers": true}), path), "{path}");
            assert_eq!(closed(value!({"enableSystemLogHandler": false}), path), path.starts_with("logs"));
        }
        for path in ["healthz", "pods", "metrics", "stats/summary"] {
            assert!(!closed(value!({"enableDebuggingHandlers": false}), path), "{path}");
        }
        assert!(disabled(None, &["exec"]).is_none());
    }
}
