//! Prometheus metrics: of the kubelet, its containers, their resources and their probes. Names and labels are
//! upstream's, which has some of them from cAdvisor.

mod cadvisor;
mod own;
mod probes;
mod resource;
mod subjects;

use corten_api::Value;
use http::StatusCode;

use super::Server;
use super::query::Query;
use super::response::{self, ApiResponse};
use crate::stats::{self, Detail};

/// The response of `/metrics` and the paths below it.
pub(super) async fn handle(server: &Server, rest: &[&str]) -> ApiResponse {
    let kubelet = &server.kubelet;
    match rest {
        [] => response::exposition(own::render(kubelet).await),
        ["resource"] => response::exposition(resource::render(kubelet).await),
        ["cadvisor"] => response::exposition(cadvisor::render(kubelet).await),
        ["probes"] => response::exposition(probes::render(kubelet)),
        _ => response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// The response of `/stats/summary`.
pub(super) async fn summary(server: &Server, query: &Query) -> ApiResponse {
    let kubelet = &server.kubelet;
    let quick = query.get("only_cpu_and_memory").is_some_and(|value| value == "true");
    let detail = if quick { Detail::CpuAndMemory } else { Detail::Everything };
    match stats::summary(kubelet, detail).await {
        Ok(summary) => {
            let tree: Value = stats::summary_tree(&kubelet.api.node_name, &summary);
            response::tree(&tree)
        }
        Err(err) => {
            let why = format!("failed to list pod stats: {err}");
            response::text(StatusCode::INTERNAL_SERVER_ERROR, why)
        }
    }
}
