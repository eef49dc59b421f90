//! The logs of containers: `/containerLogs/{namespace}/{pod}/{container}`.

mod follow;
pub(super) mod fuzz;
mod lines;
mod locate;
mod options;
mod tail;

use bytes::Bytes;
use corten_api::Value;
use http::StatusCode;
use tokio::sync::mpsc;

use super::Server;
use super::query::Query;
use super::response::{self, ApiResponse};
use follow::Reading;
use options::LogOptions;

/// The number of pieces that wait for a slow client.
const AHEAD: usize = 4;

pub(super) async fn handle(
    server: &Server,
    namespace: &str,
    pod_name: &str,
    container: &str,
    query: &Query,
) -> ApiResponse {
    let kubelet = &server.kubelet;
    let options = match LogOptions::read(query, kubelet.clock.now()) {
        Ok(options) => options,
        Err((code, why)) => return response::text(code, why),
    };
    let Some(pod) = kubelet.pod_workers.find(namespace, pod_name) else {
        return response::text(StatusCode::NOT_FOUND, format!("pod {pod_name:?} does not exist"));
    };
    if !pod.containers().iter().any(|known| known.name == container) {
        let why = format!("container {container:?} not found in pod {pod_name:?}");
        return response::text(StatusCode::NOT_FOUND, why);
    }
    let status = kubelet.status.last(pod.uid()).or_else(|| pod.tree().get("status").cloned());
    let status = status.unwrap_or(Value::Null);
    let begun = async {
        let id = locate::container_id(&status, pod_name, container, options.previous);
        let id = id.map_err(|err| err.to_string())?;
        let reading = Reading::begin(kubelet.containers.runtime.clone(), id, options).await;
        reading.map_err(|err| err.to_string())
    };
    match begun.await {
        Ok(reading) => response::streamed(sent(reading)),
        Err(why) => response::text(StatusCode::BAD_REQUEST, why),
    }
}

/// Reads a log at the pace of the client, until the client is gone.
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
                Err(err) => return tracing::debug!(%err, "cannot read container log"),
            }
        }
    });
    receiver
}
