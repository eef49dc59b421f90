//! The pod workers: one task for each pod of this node, and the requests to it.
//!
//! Lock order: the table of workers, then the state of one worker. Workers take the table only through the methods here.

pub(crate) mod actions;
pub(crate) mod cleanup;
mod report;
mod state;
mod sync;
mod terminate;
pub(crate) mod work;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;

use corten_client::Key;
use corten_container::ContainerEvent;
use parking_lot::Mutex;

use crate::containers::observed::Observed;
use crate::kubelet::Kubelet;
use crate::objects::PodObjects;
use crate::pod::Pod;
use crate::status::Ended;
use work::PodWork;
use worker::Worker;

/// The workers of all pods on this node.
#[derive(Default)]
pub(crate) struct PodWorkers(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By pod uid.
    workers: HashMap<String, Arc<PodWork>>,
    /// The pod uid of each sandbox, because runtime events name only sandboxes.
    sandboxes: HashMap<String, String>,
}

impl PodWorkers {
    /// Takes over a pod as its source names it now. A new pod gets a worker.
    pub(crate) fn update_pod(kubelet: &Arc<Kubelet>, pod: Pod) {
        if !pod.is_static() {
            PodObjects::watch(kubelet, &pod);
        }
        let mut table = kubelet.pod_workers.0.lock();
        if let Some(work) = table.workers.get(pod.uid()) {
            work.update(pod);
            return;
        }
        let uid = pod.uid().to_owned();
        let work = Arc::new(PodWork::new(pod));
        table.workers.insert(uid, work.clone());
        tokio::spawn(Worker::new(kubelet.clone(), work).run());
    }

    /// A pod's source no longer names it: the pod terminates, and nothing of it is kept.
    pub(crate) fn remove_pod(&self, uid: &str) {
        self.with_work(uid, PodWork::remove);
    }

    /// Evicts a pod: it terminates and is reported as failed.
    pub(crate) fn evict_pod(&self, uid: &str, ended: Ended) {
        self.with_work(uid, |work| work.evict(ended));
    }

    /// Makes a pod sync.
    pub(crate) fn sync_pod(&self, uid: &str) {
        self.with_work(uid, PodWork::sync);
    }

    /// Makes all pods sync.
    pub(crate) fn sync_all(&self) {
        self.0.lock().workers.values().for_each(|work| work.sync());
    }

    /// Makes a pod sync and write its volumes anew.
    pub(crate) fn refresh_volumes(&self, uid: &str) {
        self.with_work(uid, PodWork::refresh_volumes);
    }

    /// Makes the static pod of a name sync.
    pub(crate) fn sync_static_pod(&self, key: &Key) {
        for work in self.0.lock().workers.values() {
            let pod = work.pod();
            if pod.is_static() && pod.key() == key {
                work.sync();
            }
        }
    }

    /// Makes the pod of a runtime event sync.
    pub(crate) fn handle_runtime_event(&self, event: &ContainerEvent) {
        let table = self.0.lock();
        let uid = table.sandboxes.get(&event.pod_sandbox_id);
        if let Some(work) = uid.and_then(|uid| table.workers.get(uid)) {
            work.sync();
        }
    }

    /// Returns true if a static pod has to wait for another of its name, which its source no longer names, to be gone.
    pub(crate) fn is_blocked_by_terminating_pod(&self, pod: &Pod) -> bool {
        let table = self.0.lock();
        let mut others = table.workers.iter().filter(|(uid, _)| *uid != pod.uid());
        others.any(|(_, work)| work.is_removed() && work.pod().key() == pod.key())
    }

    /// Returns true if containers of a pod may run, now or later.
    pub(crate) fn could_have_running_containers(&self, uid: &str) -> bool {
        self.0.lock().workers.get(uid).is_some_and(|work| work.could_have_running_containers())
    }

    /// The pods whose containers may run, now or later.
    pub(crate) fn active_pods(&self) -> Vec<Pod> {
        let table = self.0.lock();
        let active = table.workers.values().filter(|work| work.could_have_running_containers());
        active.map(|work| work.pod()).collect()
    }

    /// Remembers a pod's sandboxes, so that their events reach its worker.
    pub(crate) fn note_sandboxes(&self, pod: &Pod, observed: &Observed) {
        let mut table = self.0.lock();
        for sandbox in &observed.sandboxes {
            table.sandboxes.insert(sandbox.id.clone(), pod.uid().to_owned());
        }
    }

    /// All pods that have a worker.
    pub(crate) fn pods(&self) -> Vec<Pod> {
        self.0.lock().workers.values().map(|work| work.pod()).collect()
    }

    /// The pod of a name. Of two, the one that is not being deleted.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Pod> {
        let named = |pod: &Pod| pod.namespace() == namespace && pod.name() == name;
        self.pods().into_iter().filter(named).min_by_key(|pod| pod.deleted_at().is_some())
    }

    /// The uids of all pods that have a worker.
    pub(crate) fn uids(&self) -> Vec<String> {
        self.0.lock().workers.keys().cloned().collect()
    }

    /// Forgets a pod whose worker is done. A static pod that waits for it syncs.
    pub(crate) fn forget(&self, uid: &str) {
        let mut table = self.0.lock();
        let gone = table.workers.remove(uid);
        table.sandboxes.retain(|_, owner| owner != uid);
        drop(table);
        if let Some(pod) = gone.map(|work| work.pod()).filter(Pod::is_static) {
            self.sync_static_pod(pod.key());
        }
    }

    fn with_work(&self, uid: &str, request: impl FnOnce(&PodWork)) {
        if let Some(work) = self.0.lock().workers.get(uid) {
            request(work);
        }
    }
}
