//! Objects and changes to them that are as expensive as possible for their size.

use corten_api::{Map, Value, json, value};

pub(crate) type Changes = &'static [(&'static str, fn(usize) -> (Value, Value))];

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..count).map(item).collect())
}

fn map(count: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    Value::Object((0..count).map(entry).map(|(key, value)| (key.into(), value)).collect())
}

fn parsed(text: &str) -> Value {
    json::parse(text.as_bytes()).expect("the text is JSON")
}

/// Labels of some objects.
pub(crate) fn labels(count: usize) -> Vec<Map> {
    let one = |i| value!({"k0": (format!("v{i}")), "k1": "v"});
    (0..count).filter_map(|i| one(i).as_object().cloned()).collect()
}

fn pod(metadata: Value, spec: Value) -> Value {
    let mut pod = value!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    pod.set(&["metadata", "name"], "p");
    pod.set(&["metadata", "uid"], "u");
    pod
}

fn named(count: usize, from: usize) -> Value {
    list(count, |i| value!({"name": (format!("c{:09}", from + count - i)), "image": "x"}))
}

pub(crate) const JSON_PATCHES: Changes = &[
    ("nested adds", |n| {
        (value!({}), list(n, |i| value!({"op": "add", "path": ("/a".repeat(i + 1)), "value": {}})))
    }),
    ("nested moves", |n| {
        let each = |i: usize| match i % 2 {
            0 => value!({"op": "add", "path": "/b", "value": {}}),
            _ => value!({"op": "move", "from": "/a", "path": "/b/a"}),
        };
        let back = |i: usize| match i % 3 {
            2 => value!({"op": "move", "from": "/b", "path": "/a"}),
            i => each(i),
        };
        (value!({"a": {}}), list(n, back))
    }),
    ("nested copies", |n| {
        (
            value!({"a": {}}),
            list(n, |i| value!({"op": "copy", "from": "/a", "path": ("/a".repeat(i.min(8) + 2))})),
        )
    }),
    ("copies of all into itself", |n| {
        (value!({"a": {"b": {}}}), list(n, |_| value!({"op": "copy", "from": "/a", "path": "/a/b/a"})))
    }),
    ("insertions at the start", |n| {
        (value!({"a": []}), list(n, |_| value!({"op": "add", "path": "/a/0", "value": 1})))
    }),
    ("insertions before many", |n| {
        let many = list(50 * n, |_| Value::Int(0));
        (value!({"a": many}), list(n, |_| value!({"op": "add", "path": "/a/0", "value": 1})))
    }),
    ("members in reverse", |n| {
        let many = map(10 * n, |i| (format!("m{i:09}"), Value::Int(0)));
        let add = |i| value!({"op": "add", "path": (format!("/a/k{:09}", n - i)), "value": 1});
        (value!({"a": many}), list(n, add))
    }),
    ("removals from the start", |n| {
        (value!({"a": (list(n, |_| Value::Int(0)))}), list(n, |_| value!({"op": "remove", "path": "/a/0"})))
    }),
    ("moves of much", |n| {
        let many = list(10 * n, |_| Value::Int(0));
        let each = |i: usize| match i % 2 {
            0 => value!({"op": "move", "from": "/a", "path": "/b"}),
            _ => value!({"op": "move", "from": "/b", "path": "/a"}),
        };
        (value!({"a": many}), list(n, each))
    }),
    ("tests of much", |n| {
        let text =
            format!("{{{}}}", (0..10 * n).map(|i| format!("\"f:k{i}\":{{}}")).collect::<Vec<_>>().join(","));
        let object = parsed(&format!("{{\"a\":{{\"fieldsV1\":{text}}}}}"));
        (object, list(n, |_| value!({"op": "test", "path": "/a/fieldsV1/f:k1", "value": {}})))
    }),
    ("long pointers", |n| {
        (value!({"a": 1}), value!([{"op": "test", "path": ("/a".repeat(50 * n)), "value": 1}]))
    }),
    ("unknown members", |n| {
        (value!({}), list(n, |i| value!({"op": "test", "path": "", "bogus": (i as i64)})))
    }),
    ("a long unknown member", |n| {
        let operation = map(1, |_| ("x".repeat(50 * n), Value::Null));
        (value!({}), Value::Array(vec![operation; 20]))
    }),
];

pub(crate) const MERGE_PATCHES: Changes = &[
    ("members between others", |n| {
        let labels = map(n, |i| (format!("k{i:09}"), Value::from("v")));
        let more = map(n, |i| (format!("k{i:09}x"), Value::from("v")));
        (pod(value!({"labels": labels}), value!({})), value!({"metadata": {"labels": more}}))
    }),
    ("members before others", |n| {
        let labels = map(n, |i| (format!("z{i:09}"), Value::from("v")));
        let more = map(n, |i| (format!("a{i:09}"), Value::from("v")));
        (pod(value!({"labels": labels}), value!({})), value!({"metadata": {"labels": more}}))
    }),
    ("removals", |n| {
        let labels = map(n, |i| (format!("k{i:09}"), Value::from("v")));
        let gone = map(n, |i| (format!("k{i:09}"), Value::Null));
        (pod(value!({"labels": labels}), value!({})), value!({"metadata": {"labels": gone}}))
    }),
    ("nulls in lists", |n| {
        (pod(value!({}), value!({})), value!({"spec": {"x": (list(n, |_| value!({"a": null})))}}))
    }),
];

pub(crate) const STRATEGIC_PATCHES: Changes = &[
    ("items merged", |n| {
        (
            pod(value!({}), value!({"containers": (named(n, 0))})),
            value!({"spec": {"containers": (named(n, 0))}}),
        )
    }),
    ("items added", |n| {
        (
            pod(value!({}), value!({"containers": (named(n, 0))})),
            value!({"spec": {"containers": (named(n, n))}}),
        )
    }),
    ("items deleted", |n| {
        let gone = list(n, |i| value!({"name": (format!("c{i:09}")), "$patch": "delete"}));
        (pod(value!({}), value!({"containers": (named(n, 0))})), value!({"spec": {"containers": gone}}))
    }),
    ("items ordered", |n| {
        let order = list(2 * n, |i| value!({"name": (format!("c{i:09}"))}));
        let patch = value!({"spec": {"$setElementOrder/containers": order}});
        (pod(value!({}), value!({"containers": (named(n, 0))})), patch)
    }),
    ("items added and ordered", |n| {
        let order = list(2 * n, |i| value!({"name": (format!("c{:09}", 2 * n - i))}));
        let patch = value!({"spec": {"$setElementOrder/containers": order, "containers": (named(n, n))}});
        (pod(value!({}), value!({"containers": (named(n, 0))})), patch)
    }),
    ("values added", |n| {
        let finalizers = |from| list(n, |i| Value::from(format!("x/f{:09}", from + n - i)));
        let live = pod(value!({"finalizers": (finalizers(0))}), value!({}));
        (live, value!({"metadata": {"finalizers": (finalizers(n))}}))
    }),
    ("values deleted", |n| {
        let finalizers = || list(n, |i| Value::from(format!("x/f{i:09}")));
        let live = pod(value!({"finalizers": (finalizers())}), value!({}));
        (live, value!({"metadata": {"$deleteFromPrimitiveList/finalizers": (finalizers())}}))
    }),
    ("values ordered", |n| {
        let finalizers = |by: usize| list(n, |i| Value::from(format!("x/f{:09}", i * by % n)));
        let live = pod(value!({"finalizers": (finalizers(1))}), value!({}));
        (live, value!({"metadata": {"$setElementOrder/finalizers": (finalizers(7))}}))
    }),
    ("keys retained", |n| {
        let keys = list(n, |i| Value::from(format!("k{i}")));
        let labels = map(n, |i| (format!("x{i}"), Value::from("v")));
        (pod(value!({"labels": labels}), value!({})), value!({"metadata": {"labels": {"$retainKeys": keys}}}))
    }),
    ("orders of one list under many names", |n| {
        let spelled = |i: usize| -> String {
            let cased = |(bit, c): (usize, char)| if i >> bit & 1 == 1 { c.to_ascii_uppercase() } else { c };
            "topologyspreadconstraints".chars().enumerate().map(cased).collect()
        };
        let orders = map(n, |i| (format!("$setElementOrder/{}", spelled(i)), value!([])));
        (pod(value!({}), value!({})), value!({"spec": orders}))
    }),
    ("lists deleted under many names", |n| {
        let gone = map(n, |i| (format!("$deleteFromPrimitiveList/k{i:09}"), Value::Null));
        let labels = map(n, |i| (format!("k{i:09}"), Value::from("v")));
        (pod(value!({"labels": labels}), value!({})), value!({"metadata": {"labels": gone}}))
    }),
];

fn entries(count: usize, entry: impl Fn(usize) -> (String, String, String)) -> Value {
    let one = |i| {
        let (manager, version, fields) = entry(i);
        let mut entry = value!({"manager": manager, "operation": "Update", "apiVersion": version,
            "fieldsType": "FieldsV1", "time": "2024-01-01T00:00:00Z"});
        entry.set(&["fieldsV1"], Value::Raw(fields.into()));
        entry
    };
    list(count, one)
}

/// A pod with owners, and the same with other labels.
fn owned(n: usize, entry: impl Fn(usize) -> (String, String, String)) -> (Value, Value) {
    let labels = |value: &str| map(n, |i| (format!("k{i:09}"), Value::from(value)));
    let live = pod(value!({"labels": (labels("a"))}), value!({}));
    let new = pod(value!({"labels": (labels("b")), "managedFields": (entries(n, entry))}), value!({}));
    (live, new)
}

pub(crate) const MANAGED: Changes = &[
    ("many managers", |n| {
        owned(n, |i| {
            (
                format!("m{i}"),
                "v1".into(),
                format!("{{\"f:metadata\":{{\"f:labels\":{{\"f:k{i:09}\":{{}}}}}}}}"),
            )
        })
    }),
    ("many managers of other fields", |n| {
        owned(n, |i| {
            (
                format!("m{i}"),
                "v1".into(),
                format!("{{\"f:metadata\":{{\"f:labels\":{{\"f:x{:09}\":{{}}}}}}}}", n - i),
            )
        })
    }),
    ("one manager often", |n| owned(n, |_| ("m".into(), "v1".into(), "{\"f:spec\":{\"f:x\":{}}}".into()))),
    ("many versions", |n| {
        owned(n, |i| (format!("m{i}"), format!("v{i}"), "{\"f:spec\":{\"f:x\":{}}}".into()))
    }),
    ("owned items", |n| {
        let keys = (0..n).map(|i| format!("\"k:{{\\\"name\\\":\\\"c{:09}\\\"}}\":{{\".\":{{}}}}", n - i));
        let fields =
            format!("{{\"f:spec\":{{\"f:containers\":{{{}}}}}}}", keys.collect::<Vec<_>>().join(","));
        let owners = entries(1, |_| ("other".into(), "v1".into(), fields.clone()));
        let mut live = pod(value!({"managedFields": owners}), value!({"containers": (named(n, 0))}));
        live.set(&["metadata", "uid"], "u");
        let mut new = live.clone();
        for container in new
            .get_mut("spec")
            .and_then(|spec| spec.get_mut("containers"))
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            container.set(&["image"], "y");
        }
        (live, new)
    }),
    ("items in another order", |n| {
        let spec = |by: usize| value!({"containers": (list(n, |i| value!({"name": (format!("c{:09}", i * by % n))})))});
        (pod(value!({}), spec(1)), pod(value!({}), spec(7)))
    }),
    ("other items", |n| {
        (
            pod(value!({}), value!({"containers": (named(n, 0))})),
            pod(value!({}), value!({"containers": (named(n, n))})),
        )
    }),
    ("equal items", |n| {
        let spec = || value!({"containers": (list(n, |_| value!({"name": "c"})))});
        (pod(value!({}), spec()), pod(value!({"labels": {"a": "b"}}), spec()))
    }),
    ("members between others", |n| {
        let labels = |suffix: &str| map(n, |i| (format!("k{i:09}{suffix}"), Value::from("v")));
        (
            pod(value!({"labels": (labels(""))}), value!({})),
            pod(value!({"labels": (labels("x"))}), value!({})),
        )
    }),
    ("undeclared fields", |n| {
        let spec =
            || value!({"containers": (list(n, |i| value!({"name": (format!("c{i}")), "bogus": [1, 2]})))});
        (pod(value!({}), value!({})), pod(value!({}), spec()))
    }),
];
