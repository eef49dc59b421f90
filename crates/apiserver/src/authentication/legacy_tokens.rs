//! Labels secrets with the day on which their long-lived tokens were last used, so that unused ones can be found.
//!
//! Requests do not wait for it: they queue the use, and one task writes the labels one at a time. A use that does not fit into
//! the queue is dropped; the next use of the token queues it again.

use std::sync::Weak;

use corten_api::{Value, json, meta, value};
use corten_auth::authentication::legacy_token::{self, LAST_USED};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::cluster_trust::{check_success, own_peer, send};
use crate::Server;

const WAITING: usize = 256;

/// A secret whose token was used.
#[derive(Debug)]
struct Use {
    namespace: String,
    name: String,
    uid: String,
}

pub(super) struct Uses {
    sender: mpsc::Sender<Use>,
    /// Taken when the task starts.
    receiver: Mutex<Option<mpsc::Receiver<Use>>>,
}

impl Default for Uses {
    fn default() -> Uses {
        let (sender, receiver) = mpsc::channel(WAITING);
        Uses { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl Uses {
    /// Queues a use that is not recorded yet.
    pub(super) fn queue_use(&self, secret: &Value, now: Timestamp) {
        if legacy_token::last_used(secret, now).is_some() {
            let text = |value: &str| value.to_owned();
            let (namespace, name, uid) = (meta::namespace(secret), meta::name(secret), meta::uid(secret));
            // If the queue is full, the next use of the token is queued instead.
            let _ =
                self.sender.try_send(Use { namespace: text(namespace), name: text(name), uid: text(uid) });
        }
    }

    /// Starts the task that records queued uses, until the server is dropped.
    pub(super) fn start(&self, server: Weak<Server>) {
        let Some(mut uses) = self.receiver.lock().take() else { return };
        tokio::spawn(async move {
            while let Some(used) = uses.recv().await {
                let Some(server) = server.upgrade() else { return };
                write(&server, &used).await;
            }
        });
    }
}

async fn write(server: &std::sync::Arc<Server>, used: &Use) {
    let cache = server.backend.catalog.cache("", "secrets");
    let Some(secret) = cache.and_then(|cache| cache.get(&used.namespace, &used.name)) else { return };
    // Many requests may have queued the same use.
    let Some(today) = legacy_token::last_used(&secret.tree(), server.backend.clock.now()) else { return };
    let mut patch = value!({"kind": "Secret", "apiVersion": "v1"});
    patch.set(&["metadata", "name"], used.name.as_str());
    patch.set(&["metadata", "namespace"], used.namespace.as_str());
    patch.set(&["metadata", "uid"], used.uid.as_str());
    patch.set(&["metadata", "labels", LAST_USED], today);
    let path = format!("/api/v1/namespaces/{}/secrets/{}", used.namespace, used.name);
    let body = json::write_to_string(&patch);
    let answer = send(server, &own_peer(), "PATCH", &path, "application/merge-patch+json", body).await;
    let answer = answer.and_then(|status| check_success("PATCH", &path, status));
    if let Err(err) = answer {
        tracing::warn!(
            namespace = used.namespace,
            secret = used.name,
            err,
            "cannot label secret with last use of its token"
        );
    }
}
