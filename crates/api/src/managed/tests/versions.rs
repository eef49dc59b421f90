//! Managers that use different versions of one type.

use super::*;
use crate::convert;

const V1: &str = "autoscaling/v1.HorizontalPodAutoscaler";
const V2: &str = "autoscaling/v2.HorizontalPodAutoscaler";
const IN_V1: &str = r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"targetCPUUtilizationPercentage":50}}"#;

/// An autoscaler's configuration in v2, with another name, target and utilization.
fn in_v2(target: &str, utilization: u32) -> String {
    format!(
        r#"{{"spec":{{"scaleTargetRef":{{"kind":"Deployment","name":"{target}"}},"maxReplicas":3,"metrics":[{{"type":"Resource","resource":{{"name":"cpu","target":{{"type":"Utilization","averageUtilization":{utilization}}}}}}}]}}}}"#
    )
}

impl World {
    /// The same object, as requests of another version see it.
    fn speaking(mut self, type_name: &str) -> World {
        let other = World::new(type_name);
        if let Some(live) = &mut self.live {
            convert::convert(&self.kind, &self.api_version, &other.api_version, live).unwrap();
        }
        World { live: self.live, seconds: self.seconds, ..other }
    }
}

fn applied_in_v1() -> World {
    let mut world = World::new(V1);
    world.run(Apply("one", IN_V1)).unwrap();
    world.speaking(V2)
}

#[test]
fn a_conflict_is_named_in_the_words_of_the_owner() {
    let mut world = applied_in_v1();
    assert!(world.run(Apply("two", &in_v2("d", 50))).is_ok());
    let status = world.run(Apply("two", &in_v2("d", 60))).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"one\": .spec.targetCPUUtilizationPercentage"
    );
}

#[test]
fn changed_fields_are_taken_from_owners_in_their_version() {
    for step in [Force("two", &in_v2("d", 60)), Update("two", &in_v2("d", 60))] {
        let mut world = applied_in_v1();
        world.run(step).unwrap();
        let owners = world.owners();
        let of_one = owners.iter().find(|line| line.starts_with("one")).unwrap();
        assert!(!of_one.contains("targetCPU"), "{owners:?}");
        assert!(of_one.contains(".spec.maxReplicas"), "{owners:?}");
    }
}

#[test]
fn applying_in_another_version_removes_what_was_applied_before() {
    let mut world = applied_in_v1();
    world
        .run(Apply("one", r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3}}"#))
        .unwrap();
    assert!(!world.object().contains("metrics"), "{}", world.object());
    assert_eq!(world.owners().len(), 1);
}

#[test]
fn owners_of_versions_that_are_no_more_are_forgotten() {
    let mut world = applied_in_v1();
    let live = world.live.as_mut().unwrap();
    let Some(Value::Array(mut entries)) = live.remove(MANAGED_FIELDS) else { panic!("no entries") };
    entries[0].set(&["apiVersion"], "autoscaling/v2beta1");
    live.set(MANAGED_FIELDS, Value::Array(entries));
    world.run(Apply("two", &in_v2("e", 60))).unwrap();
    let managers: Vec<String> = world.owners();
    assert!(managers.iter().all(|line| line.starts_with("two")), "{managers:?}");
}

#[test]
fn the_manager_of_an_autoscaler_in_v1_owns_the_annotations_that_its_status_becomes() {
    let spec = r#""spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3}"#;
    let object = format!(r#"{{{spec},"status":{{"currentCPUUtilizationPercentage":5}}}}"#);
    let mut world = World::new(V1);
    world.run(Create("m", &object)).unwrap();
    let live = world.live.unwrap();
    let fields = json::write_to_string(live.items_at(MANAGED_FIELDS)[0].get("fieldsV1").unwrap());
    assert!(
        fields.contains(r#""f:annotations":{".":{},"f:autoscaling.alpha.kubernetes.io/current-metrics":{}}"#),
        "{fields}"
    );
    // The rest of the object stays what the client sent.
    assert!(live.at(&["metadata", "annotations"]).is_none());
}
