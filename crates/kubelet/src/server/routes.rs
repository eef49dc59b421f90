//! Routes of the kubelet's API.

use corten_api::{Value, value};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use super::access::{Peer, Rejection};
use super::exec::{self, Asked};
use super::query::{self, Query};
use super::remote_command::Work;
use super::response::{self, ApiResponse};
use super::{Server, log_files, logs, metrics, port_forward};

/// Handles one request. It is authorized before anything else.
pub(super) async fn handle(server: &Server, peer: &Peer, request: Request<Incoming>) -> ApiResponse {
    let path = query::decode(request.uri().path(), false);
    match server.access.pass(peer, request.method(), &path, request.headers()).await {
        Ok(()) => {}
        Err(Rejection::Unknown) => return response::text(StatusCode::UNAUTHORIZED, "Unauthorized\n"),
        Err(Rejection::Forbidden(why)) => return response::text(StatusCode::FORBIDDEN, why),
    }
    let query = Query::parse(request.uri().query());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let method = request.method().clone();
    if let Some(why) = disabled(server.kubelet.configuration.as_ref(), &parts) {
        return response::text(StatusCode::METHOD_NOT_ALLOWED, why);
    }
    match (&method, parts.as_slice()) {
        (&Method::GET, ["healthz"]) => response::text(StatusCode::OK, "ok"),
        (&Method::GET, ["pods"]) => response::tree(&pods(server)),
        (&Method::GET, ["configz"]) => response::tree(&configuration(server)),
        (&Method::GET, ["metrics", rest @ ..]) => metrics::handle(server, rest).await,
        (&Method::GET, ["stats", "summary"]) => metrics::summary(server, &query).await,
        (&Method::GET, ["logs", ..]) => log_files::handle(&path).await,
        (&Method::GET, ["containerLogs", namespace, pod, container]) => {
            logs::handle(server, namespace, pod, container, &query).await
        }
        (
            &Method::GET | &Method::POST,
            ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container],
        ) => {
            let work = Work::Exec(query.all("command").map(str::to_owned).collect());
            exec::handle(server, Asked { namespace, pod, container, work }, &query, request).await
        }
        (
            &Method::GET | &Method::POST,
            ["attach", namespace, pod, container] | ["attach", namespace, pod, _, container],
        ) => {
            let asked = Asked { namespace, pod, container, work: Work::Attach };
            exec::handle(server, asked, &query, request).await
        }
        (
            &Method::GET | &Method::POST,
            ["portForward", namespace, pod] | ["portForward", namespace, pod, _],
        ) => port_forward::handle(server, namespace, pod, &query, request).await,
        _ => response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// The message of a part of the API that the configuration disables, as upstream disables it.
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

/// The pods of this node with their last reported statuses.
pub(super) fn pods(server: &Server) -> Value {
    let kubelet = &server.kubelet;
    let items = kubelet.pod_workers.pods().into_iter().map(|pod| {
        let mut tree = pod.tree().clone();
        if let Some(status) = kubelet.status.last(pod.uid()) {
            tree.set(&["status"], status);
        }
        tree
    });
    let items: Vec<Value> = items.collect();
    value!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": (items)})
}

/// The kubelet's configuration, with defaults (`/configz`).
fn configuration(server: &Server) -> Value {
    let kubelet = &server.kubelet;
    let resolver = &kubelet.containers.config.resolver;
    let dns: Vec<Value> = resolver.cluster_servers.iter().map(|server| server.as_str().into()).collect();
    let mut tree = kubelet.configuration.clone().unwrap_or_else(Value::object);
    for (field, value) in [
        ("kind", Value::from("KubeletConfiguration")),
        ("apiVersion", Value::from("kubelet.config.k8s.io/v1beta1")),
        ("port", Value::Int(i64::from(kubelet.node.api_port))),
        ("clusterDNS", Value::Array(dns)),
        ("clusterDomain", Value::from(resolver.cluster_domain.as_str())),
        ("podLogsDir", Value::from(kubelet.containers.config.log_root.as_str())),
    ] {
        tree.set(&[field], value);
    }
    value!({"kubeletconfig": (tree)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_disables_parts_of_the_api() {
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
