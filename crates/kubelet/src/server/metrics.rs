//! What the node tells a Prometheus: itself, its containers, what they use, and their probes. Names and labels are
//! upstream's, which gets some of them from cAdvisor.

mod cadvisor;
mod own;
mod probes;
mod resource;
mod subjects;
mod text;

use corten_api::Value;
use http::StatusCode;

use super::Server;
use super::answer::{self, Answer};
use super::query::Query;
use crate::stats::{self, Detail};

/// Answers `/metrics` and what is below it.
pub(super) async fn answer(server: &Server, rest: &[&str]) -> Answer {
    let machine = &server.machine;
    match rest {
        [] => answer::exposition(own::render(machine).await),
        ["resource"] => answer::exposition(resource::render(machine).await),
        ["cadvisor"] => answer::exposition(cadvisor::render(machine).await),
        ["probes"] => answer::exposition(probes::render(machine)),
        _ => answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// Answers `/stats/summary`.
pub(super) async fn summary(server: &Server, query: &Query) -> Answer {
    let machine = &server.machine;
    let quick = query.get("only_cpu_and_memory").is_some_and(|value| value == "true");
    let detail = if quick { Detail::CpuAndMemory } else { Detail::Everything };
    match stats::summary(machine, detail).await {
        Ok(summary) => {
            let tree: Value = stats::summary_tree(&machine.config.node_name, &summary);
            answer::tree(&tree)
        }
        Err(error) => {
            let why = format!("failed to list pod stats: {error}");
            answer::text(StatusCode::INTERNAL_SERVER_ERROR, why)
        }
    }
}
