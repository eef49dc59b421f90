//! Ephemeral volume controller: creates the claims of pods' generic ephemeral volumes.
//!
//! Owns those claims, which belong to their pods and are deleted with them. Watches pods and claims. Never takes over a
//! claim that was not created for the pod, and never changes one that was.

use corten_api::{Str, Value, meta, value};
use corten_client::{Caches, Change, Key, kinds};
use corten_reconcile::{Action, Controller, Event, Manager, Plan, Report, Watch};
use jiff::Timestamp;

use super::PODS_BY_CLAIM;
use super::usage::is_made_for;
use crate::{claims, pods};

const COMPONENT: &str = "ephemeral_volume";

pub(crate) struct EphemeralVolumes;

impl EphemeralVolumes {
    pub(crate) fn new(manager: &Manager) -> EphemeralVolumes {
        manager.caches().index(&PODS_BY_CLAIM);
        EphemeralVolumes
    }
}

#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist or is terminating.
    pod: Option<Value>,
    /// The existing claims with the names of its ephemeral volumes.
    claims: Vec<Value>,
}

impl Controller for EphemeralVolumes {
    type World = World;

    fn name(&self) -> &'static str {
        "ephemeral-volume-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PODS, keys: pod_changed },
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let pod = caches.of(&kinds::PODS).get(key).filter(|pod| !pod.deleting);
        let Some(pod) = pod.map(|pod| pod.tree()) else { return World::default() };
        let known = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS);
        let claim = |name: Str| known.get(&Key::new(key.namespace.clone(), name)).map(|claim| claim.tree());
        let claims = ephemeral_volumes(&pod).filter_map(|(_, name)| claim(name)).collect();
        World { pod: Some(pod), claims }
    }

    fn plan(&self, _: &Key, world: &World, _: Timestamp) -> Plan {
        let Some(pod) = &world.pod else { return Plan::done() };
        let mut plan = Plan::done();
        for (volume, name) in ephemeral_volumes(pod) {
            match world.claims.iter().find(|claim| meta::name(claim) == name) {
                None => {
                    let object = claim(pod, volume, &name);
                    plan = plan.then(Action::Create { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, object });
                }
                Some(claim) if is_made_for(claim, pod) => {}
                Some(claim) => {
                    let why = format!(
                        "PVC {} was not created for pod {} (pod is not owner)",
                        Key::of(claim),
                        Key::of(pod)
                    );
                    return plan.event(failed(pod, volume_name(volume), &why));
                }
            }
        }
        plan
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, _: Timestamp) -> Plan {
        let Some(pod) = &world.pod else { return Plan::done() };
        let mut plan = Plan::done();
        for (action, error) in report.failures() {
            let Action::Create { object, .. } = action else { continue };
            let name = meta::name(object);
            let volume = name.strip_prefix(&format!("{}-", meta::name(pod))).unwrap_or_default();
            plan = plan.event(failed(pod, volume, &format!("create PVC {name}: {error}")));
        }
        plan
    }
}

fn failed(pod: &Value, volume: &str, why: &str) -> Event {
    Event::warning(COMPONENT, pod, "FailedBinding", format!("ephemeral volume {volume}: {why}"))
}

fn volume_name(volume: &Value) -> &str {
    volume.str_at(&["name"]).unwrap_or_default()
}

/// A pod's ephemeral volumes, and the names of their claims.
fn ephemeral_volumes(pod: &Value) -> impl Iterator<Item = (&Value, Str)> {
    let volumes = pod.items_at(&["spec", "volumes"]).iter().filter(|v| v.get("ephemeral").is_some());
    volumes.filter_map(|volume| Some((volume, pods::claim_of_volume(pod, volume)?)))
}

/// The claim of an ephemeral volume.
fn claim(pod: &Value, volume: &Value, name: &str) -> Value {
    let template = volume.at(&["ephemeral", "volumeClaimTemplate"]).unwrap_or(&Value::Null);
    let mut claim = kinds::PERSISTENT_VOLUME_CLAIMS.new_object(meta::namespace(pod), name);
    for key in ["annotations", "labels"] {
        if let Some(given) = template.at(&["metadata", key]) {
            claim.set(&["metadata", key], given.clone());
        }
    }
    claim.set(&["metadata", "ownerReferences"], value!([(claims::reference(pod))]));
    claim.set(&["spec"], template.get("spec").cloned().unwrap_or_else(Value::object));
    claim
}

/// A pod's volumes do not change after its creation.
fn pod_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let (None, Some(pod)) = (&change.old, &change.new) else { return };
    if super::claims_of_pod(pod).next().is_some() && ephemeral_volumes(&pod.tree()).next().is_some() {
        keys.push(pod.key.clone());
    }
}

/// A deleted claim is created again for a pod that still exists.
fn claim_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.new.is_none() {
        keys.extend(caches.keys_by(&PODS_BY_CLAIM, &change.object().key));
    }
}

#[cfg(test)]
mod tests {
    use corten_api::Status;

    use super::*;
    use crate::testing::{at, failed as refused};

    fn pod() -> Value {
        let spec = value!({"resources": {"requests": {"storage": "1Gi"}}});
        let template = value!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": spec});
        value!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "n", "uid": "pod"},
            "spec": {"volumes": [
                {"name": "plain", "persistentVolumeClaim": {"claimName": "other"}},
                {"name": "data", "ephemeral": {"volumeClaimTemplate": template}},
            ]},
        })
    }

    fn plan(claims: Vec<Value>) -> Plan {
        let world = World { pod: Some(pod()), claims };
        EphemeralVolumes.plan(&Key::new("n", "p"), &world, at(0))
    }

    #[test]
    fn a_claim_is_made_for_the_pod() {
        let plan = plan(vec![]);
        let [Action::Create { object, .. }] = plan.actions().collect::<Vec<_>>()[..] else {
            panic!("{plan:?}")
        };
        assert_eq!(Key::of(object), Key::new("n", "p-data"));
        assert_eq!(object.str_at(&["metadata", "labels", "a"]), Some("b"));
        assert_eq!(object.str_at(&["metadata", "annotations", "c"]), Some("d"));
        assert_eq!(object.str_at(&["spec", "resources", "requests", "storage"]), Some("1Gi"));
        assert_eq!(object.items_at(&["metadata", "ownerReferences"]), [claims::reference(&pod())]);
        let again = self::plan(vec![object.clone()]);
        assert!(again.is_done());
    }

    #[test]
    fn a_claim_of_another_owner_is_left_alone() {
        let strange = value!({"metadata": {"name": "p-data", "namespace": "n"}});
        let plan = plan(vec![strange]);
        assert!(plan.actions().next().is_none());
        let reported = "ephemeral volume data: PVC n/p-data was not created for pod n/p (pod is not owner)";
        assert_eq!(
            (plan.events[0].reason.as_ref(), plan.events[0].message.as_str()),
            ("FailedBinding", reported)
        );
    }

    #[test]
    fn a_failed_creation_is_reported() {
        let world = World { pod: Some(pod()), claims: vec![] };
        let report =
            refused(&plan(vec![]), Status::forbidden("", "persistentvolumeclaims", "p-data", "quota"));
        let concluded = EphemeralVolumes.conclude(&Key::new("n", "p"), &world, &report, at(0));
        assert!(concluded.events[0].message.starts_with("ephemeral volume data: create PVC p-data: "));
        assert!(EphemeralVolumes.plan(&Key::new("n", "p"), &World::default(), at(0)).is_done());
    }
}
