//! What containers wrote: `/containerLogs/{namespace}/{pod}/{container}`.

mod follow;
mod lines;
mod locate;
mod options;
mod tail;

use bytes::Bytes;
use corten_api::Value;
use http::StatusCode;
use tokio::sync::mpsc;

use super::Server;
use super::answer::{self, Answer};
use super::query::Query;
use follow::Reading;
use options::LogOptions;

/// How much waits for a client that is slow: so many pieces of what is read at once.
const AHEAD: usize = 4;

pub(super) async fn answer(
    server: &Server,
    namespace: &str,
    pod_name: &str,
    container: &str,
    query: &Query,
) -> Answer {
    let machine = &server.machine;
    let options = match LogOptions::read(query, machine.clock.now()) {
        Ok(options) => options,
        Err((code, why)) => return answer::text(code, why),
    };
    let Some(pod) = machine.pods.find(namespace, pod_name) else {
        return answer::text(StatusCode::NOT_FOUND, format!("pod {pod_name:?} does not exist"));
    };
    if !pod.containers().iter().any(|known| known.name == container) {
        let why = format!("container {container:?} not found in pod {pod_name:?}");
        return answer::text(StatusCode::NOT_FOUND, why);
    }
    let status = machine.statuses.last(pod.uid()).or_else(|| pod.tree().get("status").cloned());
    let status = status.unwrap_or(Value::Null);
    let begun = async {
        let id = locate::container_id(&status, pod_name, container, options.previous)?;
        Reading::begin(machine.runtime.clone(), id, options).await
    };
    match begun.await {
        Ok(reading) => answer::streamed(sent(reading)),
        Err(why) => answer::text(StatusCode::BAD_REQUEST, why),
    }
}

/// Reads at the pace of whoever takes it, and no longer than they do.
fn sent(mut reading: Reading) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        loop {
            let next = tokio::select! {
                next = reading.next() => next,
                () = sender.closed() => return,
            };
            match next {
                Ok(Some(bytes)) => {
                    if sender.send(bytes).await.is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => return tracing::debug!(%error, "a log could not be read to its end"),
            }
        }
    });
    receiver
}
