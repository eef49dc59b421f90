//! Reports pods' statuses to the API server: the latest of each, and only if it changed.

use std::collections::HashMap;

use corten_api::{Value, value};
use corten_client::{Error, Patch, kinds};
use parking_lot::Mutex;

use crate::api_server::ApiServer;
use crate::pod::Pod;
use crate::pod_sources::mirror_pods;
use crate::resources::allocation::Resizing;

/// The statuses that were last reported, by pod uid.
#[derive(Default)]
pub(crate) struct StatusManager(Mutex<HashMap<String, Reported>>);

struct Reported {
    /// The uid of the object whose status was reported: the pod, or its mirror pod; empty if there is none.
    of: String,
    status: Value,
}

impl StatusManager {
    /// Reports a pod's status unless it is unchanged. The status of a static pod is reported on its mirror pod.
    pub(crate) async fn report(&self, api: &ApiServer, pod: &Pod, status: &Value) -> Result<(), Error> {
        let of = match pod.is_static() {
            true => mirror_pods::of(api, pod).map(|mirror| mirror.uid.to_string()).unwrap_or_default(),
            false => pod.uid().to_owned(),
        };
        if self
            .0
            .lock()
            .get(pod.uid())
            .is_some_and(|reported| reported.of == of && reported.status == *status)
        {
            return Ok(());
        }
        let reported = match of.as_str() {
            "" => Ok(()),
            uid => patch(api, pod, uid, status, self.last(pod.uid()).as_ref()).await,
        };
        let of = match reported {
            Ok(()) => of,
            // Static pods run without an API server, too.
            Err(err) if pod.is_static() => {
                tracing::debug!(pod = %pod.key(), %err, "cannot report mirror pod status; retrying");
                String::new()
            }
            Err(err) => return Err(err),
        };
        self.0.lock().insert(pod.uid().to_owned(), Reported { of, status: status.clone() });
        Ok(())
    }

    /// Deletes the object of a pod that is terminated and was to be deleted.
    pub(crate) async fn delete_pod(&self, api: &ApiServer, pod: &Pod) -> Result<(), Error> {
        if !pod.is_static() {
            return mirror_pods::delete(api, pod.key(), pod.uid()).await;
        }
        if let Some(mirror) = mirror_pods::of(api, pod)
            && let Err(err) = mirror_pods::delete(api, pod.key(), &mirror.uid).await
        {
            tracing::debug!(pod = %pod.key(), %err, "cannot delete mirror pod");
        }
        Ok(())
    }

    /// The last reported status of a pod.
    pub(crate) fn last(&self, uid: &str) -> Option<Value> {
        self.0.lock().get(uid).map(|reported| reported.status.clone())
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

async fn patch(
    api: &ApiServer,
    pod: &Pod,
    uid: &str,
    status: &Value,
    last: Option<&Value>,
) -> Result<(), Error> {
    let mut status = status.clone();
    // Conditions are merged: those that no longer hold have to be deleted.
    for kind in Resizing::KINDS {
        let has = |status: &Value| {
            status.items_at(&["conditions"]).iter().any(|c| c.str_at(&["type"]) == Some(kind))
        };
        let had = last.is_some_and(has) || pod.tree().get("status").is_some_and(has);
        if had && !has(&status) {
            let gone = value!({"$patch": "delete", "type": (kind)});
            if let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) {
                list.push(gone);
            }
        }
    }
    for list in ["podIPs", "hostIPs"] {
        // Addresses are merged too: old ones would stay.
        if let Some(list) = status.get_mut(list).and_then(Value::as_array_mut) {
            list.push(value!({"$patch": "replace"}));
        }
    }
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        for member in ["reason", "message"] {
            if condition.get(member).is_none() && condition.get("$patch").is_none() {
                condition.set(&[member], Value::Null);
            }
        }
    }
    if status.get("resources").is_some() {
        status.set(&["resources", "$patch"], "replace");
    }
    let patch = Patch::Strategic(value!({"metadata": {"uid": (uid)}, "status": (status)}));
    match api.client.patch(&kinds::PODS, pod.key(), &patch, "status").await {
        Err(err) if !is_gone(&err) => Err(err),
        _ => Ok(()),
    }
}

/// True if the pod was deleted, or replaced by another of its name: there is nothing to report to.
fn is_gone(err: &Error) -> bool {
    let is_of_uid = |err: &Error| match err {
        Error::Status(status) => status.details.causes.iter().any(|cause| cause.field == "metadata.uid"),
        Error::Transport(_) => false,
    };
    err.is_not_found() || err.is_conflict() || err.is_invalid() && is_of_uid(err)
}
