//! Tells the API server what became of pods: the last word of each, and only if it is a new one.

use std::collections::HashMap;

use corten_api::{Value, value};
use corten_client::{Error, Patch, kinds};
use parking_lot::Mutex;

use crate::allocation::Resizing;
use crate::machine::Machine;
use crate::mirrors::{self, remove};
use crate::pod::Pod;

/// What was told last, by the pods' uids.
#[derive(Default)]
pub(crate) struct Statuses(Mutex<HashMap<String, Told>>);

struct Told {
    /// The uid of whom it was told of: the pod, or its mirror; empty as long as there is none.
    of: String,
    status: Value,
}

impl Statuses {
    /// Tells a pod's status, unless that was the last thing told. Static pods are told of by their mirrors.
    pub(crate) async fn tell(&self, machine: &Machine, pod: &Pod, status: &Value) -> Result<(), Error> {
        let of = match pod.is_static() {
            true => mirrors::of(machine, pod).map(|mirror| mirror.uid.to_string()).unwrap_or_default(),
            false => pod.uid().to_owned(),
        };
        if self.0.lock().get(pod.uid()).is_some_and(|told| told.of == of && told.status == *status) {
            return Ok(());
        }
        let told = match of.as_str() {
            "" => Ok(()),
            uid => patch(machine, pod, uid, status, self.last(pod.uid()).as_ref()).await,
        };
        let of = match told {
            Ok(()) => of,
            // What the node runs by itself it runs without an API server, too.
            Err(error) if pod.is_static() => {
                tracing::debug!(pod = %pod.key(), %error, "a mirror pod's status could not be told");
                String::new()
            }
            Err(error) => return Err(error),
        };
        self.0.lock().insert(pod.uid().to_owned(), Told { of, status: status.clone() });
        Ok(())
    }

    /// Lets a pod go that has ended and was to be deleted.
    pub(crate) async fn release(&self, machine: &Machine, pod: &Pod) -> Result<(), Error> {
        if !pod.is_static() {
            return remove(machine, pod.key(), pod.uid()).await;
        }
        if let Some(mirror) = mirrors::of(machine, pod)
            && let Err(error) = remove(machine, pod.key(), &mirror.uid).await
        {
            tracing::debug!(pod = %pod.key(), %error, "a mirror pod could not be deleted");
        }
        Ok(())
    }

    /// What was told of a pod last.
    pub(crate) fn last(&self, uid: &str) -> Option<Value> {
        self.0.lock().get(uid).map(|told| told.status.clone())
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

async fn patch(
    machine: &Machine,
    pod: &Pod,
    uid: &str,
    status: &Value,
    last: Option<&Value>,
) -> Result<(), Error> {
    let mut status = status.clone();
    // Conditions are merged with what is there: what no longer holds of them has to be taken out.
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
        // Addresses are merged too: those that are gone would stay.
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
    match machine.client.patch(&kinds::PODS, pod.key(), &patch, "status").await {
        // Somebody deleted it, or another of its name is there: nobody to tell.
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
        _ => Ok(()),
    }
}
