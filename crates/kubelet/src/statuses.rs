//! Tells the API server what became of pods: the last word of each, and only if it is a new one.

use std::collections::HashMap;

use corten_api::{Value, value};
use corten_client::{DeleteOptions, Error, Patch, kinds};
use parking_lot::Mutex;

use crate::machine::Machine;
use crate::pod::Pod;

/// What was told last, by the pods' uids.
#[derive(Default)]
pub(crate) struct Statuses(Mutex<HashMap<String, Value>>);

impl Statuses {
    /// Tells a pod's status, unless that was the last thing told. Static pods are told of by their mirrors.
    pub(crate) async fn tell(&self, machine: &Machine, pod: &Pod, status: &Value) -> Result<(), Error> {
        if pod.is_static() || self.0.lock().get(pod.uid()) == Some(status) {
            return Ok(());
        }
        let patch = Patch::Strategic(value!({
            "metadata": {"uid": (pod.uid())}, "status": (status.clone()),
        }));
        match machine.client.patch(&kinds::PODS, pod.key(), &patch, "status").await {
            Ok(_) => {
                self.0.lock().insert(pod.uid().to_owned(), status.clone());
                Ok(())
            }
            // Somebody deleted it, or another of its name is there: nobody to tell.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lets a pod go that has ended and was to be deleted.
    pub(crate) async fn release(&self, machine: &Machine, pod: &Pod) -> Result<(), Error> {
        let options =
            DeleteOptions { grace_seconds: Some(0), uid: Some(pod.uid().into()), ..DeleteOptions::default() };
        match machine.client.delete(&kinds::PODS, pod.key(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// What was told of a pod last.
    pub(crate) fn last(&self, uid: &str) -> Option<Value> {
        self.0.lock().get(uid).cloned()
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}
