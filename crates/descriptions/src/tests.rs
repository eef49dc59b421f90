//! The descriptions that clients request exist, and every block can be decoded.

use super::{BLOCKS, GroupDescriptions, group_of, groups, of_group, types};

const CORE: &str = "io.k8s.api.core.v1";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Checks that a type or field (if `field` is not empty) has a description containing `expected`.
#[track_caller]
fn check(type_name: &str, field: &str, expected: &str) {
    let group = of_group(group_of(type_name).unwrap());
    let found = if field.is_empty() { group.of_type(type_name) } else { group.of_field(type_name, field) };
    let found = found.unwrap_or_else(|| panic!("{type_name}.{field} is not described"));
    assert!(found.contains(expected), "{type_name}.{field} is described as {found:?}");
}

#[test]
fn types_and_fields_are_described() {
    let extensions = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
    let aggregator = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1";
    check(&format!("{CORE}.Pod"), "", "collection of containers");
    check(&format!("{CORE}.Pod"), "spec", "Specification of the desired behavior of the pod");
    check(&format!("{CORE}.PodSpec"), "containers", "List of containers belonging to the pod");
    check(&format!("{META}.ObjectMeta"), "", "metadata that all persisted resources must have");
    check(&format!("{META}.ObjectMeta"), "name", "Name must be unique within a namespace");
    check(
        &format!("{META}.DeleteOptions"),
        "gracePeriodSeconds",
        "seconds before the object should be deleted",
    );
    check(&format!("{META}.WatchEvent"), "", "a single event to a watched resource");
    check("io.k8s.api.apps.v1.Deployment", "", "declarative updates for Pods");
    check("io.k8s.api.autoscaling.v1.Scale", "", "scaling request");
    check("io.k8s.api.policy.v1.Eviction", "", "evicts a pod");
    check("io.k8s.apimachinery.pkg.api.resource.Quantity", "", "fixed-point representation");
    check("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "", "int32 or a string");
    check("io.k8s.apimachinery.pkg.version.Info", "major", "Major");
    check(&format!("{extensions}.CustomResourceDefinitionSpec"), "names", "resource and kind names");
    check(&format!("{extensions}.JSONSchemaProps"), "", "JSON-Schema");
    check(&format!("{aggregator}.APIServiceSpec"), "group", "API group name");
}

#[test]
fn lists_are_described() {
    check(&format!("{CORE}.PodList"), "", "a list of Pod objects");
    check(&format!("{CORE}.PodList"), "items", "Pod");
    check(&format!("{CORE}.PodList"), "metadata", "Standard list metadata");
    check(&format!("{CORE}.PodList"), "kind", "a string value representing the REST resource");
    check(&format!("{CORE}.PodList"), "apiVersion", "the versioned schema");
}

#[test]
fn a_type_is_found_by_its_full_name_and_by_its_name_within_the_group() {
    let core = of_group(CORE);
    assert!(core.of_type("Pod").is_some());
    assert_eq!(core.of_type("Pod"), core.of_type("io.k8s.api.core.v1.Pod"));
    assert_eq!(core.of_field("Pod", "spec"), core.of_field("io.k8s.api.core.v1.Pod", "spec"));
}

#[test]
fn missing_descriptions_are_none() {
    let core = of_group(CORE);
    let nothing: [(&GroupDescriptions, &str, &str); 4] = [
        (&core, "Pod", "nosuch"),
        (&core, "NoSuch", "spec"),
        (&core, "io.k8s.api.apps.v1.Deployment", "spec"),
        (&of_group("io.k8s.api.nosuch.v1"), "Pod", "spec"),
    ];
    for (group, type_name, field) in nothing {
        assert_eq!(group.of_field(type_name, field), None, "{type_name}.{field}");
    }
    assert_eq!(core.of_type("NoSuch"), None);
    assert_eq!(core.of_field("Pod", ""), None);
}

#[test]
fn every_group_is_readable_and_every_type_is_found() {
    for block in BLOCKS {
        let group = block.group;
        let descriptions = of_group(group);
        assert_eq!(descriptions.text.len(), block.inflated_len, "{group}");
        assert!(descriptions.types().count() > 0, "{group}");
        assert!(descriptions.types().is_sorted(), "{group}");
        for record in descriptions.records.iter().map(|range| descriptions.record(range)) {
            let found = descriptions.find(record.type_name, record.field);
            assert_eq!(found.unwrap_or_default(), record.description, "{group}.{}", record.type_name);
        }
    }
    assert_eq!(groups().count(), 41);
    assert_eq!(types().count(), 862);
}
