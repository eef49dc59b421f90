//! The fields of a new object are the same whether they are encoded directly or found by comparison.

use super::*;

const OBJECTS: [(&str, &str); 5] = [
    (
        "core/v1.Pod",
        r#"{"metadata":{"name":"p","namespace":"n","labels":{"a":"1","b/c":"2"},"finalizers":["x/y","a/b"],
        "ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"u2"}]},
        "spec":{"containers":[{"name":"z","image":"i","ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":53,"protocol":"UDP"}],
        "env":[{"name":"B","value":"1"},{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
        "resources":{"limits":{"cpu":"1"}},"volumeMounts":[{"name":"v","mountPath":"/\"q"}]},{"name":"a","image":"j"}],
        "volumes":[{"name":"v","emptyDir":{}}],"tolerations":[{"key":"k","operator":"Exists"}]},
        "status":{"phase":"Pending"}}"#,
    ),
    (
        "apps/v1.Deployment",
        r#"{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},
        "strategy":{"rollingUpdate":{"maxSurge":"25%"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    (
        "core/v1.Service",
        r#"{"metadata":{"name":"s"},"spec":{"ports":[{"port":80,"protocol":"TCP"},{"port":443,"protocol":"TCP"}],
        "clusterIPs":["10.0.0.1"],"selector":{"a":"b"}},"status":{"loadBalancer":{}}}"#,
    ),
    ("core/v1.ConfigMap", r#"{"metadata":{"name":"c"},"data":{"<x>":"&"},"binaryData":{"b":"AA=="}}"#),
    (
        "apps/v1.ControllerRevision",
        r#"{"metadata":{"name":"r"},"data":{"spec":{"x":[1,{"y":null}]}},"revision":3}"#,
    ),
];

#[test]
fn both_ways_lead_to_the_same_fields() {
    for (type_name, text) in OBJECTS {
        let world = World::new(type_name);
        let whole = world.parse(text, Extent::Whole);
        let mut seen = 0;
        each_part_replaced(&whole, &mut |mut tree| {
            if conform(&mut tree, &world.schema, Extent::Whole, &mut Vec::new()).is_err() {
                return;
            }
            for filter in [None, Some(Filter::Exclude(Set::of_fields(&[&["status"], &["spec", "ports"]])))] {
                let Some(direct) = created::fields(&tree, &world.schema, filter.as_ref()) else { continue };
                seen += 1;
                let zero = compare::zero_object(&world.schema);
                let mut compared = compare::compare(&zero, &tree, &world.schema).unwrap().changed;
                if let Some(filter) = &filter {
                    filter.retain(&mut compared);
                }
                strip(&mut compared);
                assert_eq!(direct, compared.to_text(), "{type_name} {}", json::write_to_string(&tree));
            }
        });
        assert!(seen > 20, "{type_name}: {seen} trees");
    }
}

/// The tree itself, and with each of its parts replaced by another value.
fn each_part_replaced(tree: &Value, seen: &mut dyn FnMut(Value)) {
    seen(tree.clone());
    for other in [Value::Null, Value::from(0), Value::from("text"), Value::object(), Value::Array(Vec::new())]
    {
        seen(other);
    }
    match tree {
        Value::Object(map) => {
            for (key, part) in map.iter() {
                each_part_replaced(part, &mut |other| {
                    let mut map = map.clone();
                    map.insert(key.clone(), other);
                    seen(Value::Object(map));
                });
            }
        }
        Value::Array(items) => {
            for (i, part) in items.iter().enumerate() {
                each_part_replaced(part, &mut |other| {
                    let mut items = items.clone();
                    items[i] = other;
                    seen(Value::Array(items));
                });
            }
        }
        _ => {}
    }
}

#[test]
fn items_without_keys_leave_a_new_object_without_owners_even_where_none_can_be_owned() {
    for (status, owned) in [
        (r#"{"storageVersions":[{"servedVersions":["v1"]}]}"#, false),
        (r#"{"storageVersions":[{"apiServerID":"a","servedVersions":["v1"]}]}"#, true),
    ] {
        let mut world = World::new("apiserverinternal/v1alpha1.StorageVersion");
        let object =
            format!(r#"{{"metadata":{{"name":"a.b","labels":{{"x":"y"}}}},"spec":{{}},"status":{status}}}"#);
        world.run(Create("m", &object)).unwrap();
        assert_eq!(world.live.unwrap().at(MANAGED_FIELDS).is_some(), owned, "{status}");
    }
}
