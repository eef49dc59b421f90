use super::*;
use crate::json::{parse, write_to_string};
use crate::schema;

#[track_caller]
fn check_as(package: &str, kind: &str, target: &str, patch: &str, expected: &str) {
    let schema = schema::lookup(package, kind).unwrap();
    let mut value = parse(target.as_bytes()).unwrap();
    let patch = parse(patch.as_bytes()).unwrap();
    let found = match apply(&mut value, &patch, &schema) {
        Ok(()) => write_to_string(&value),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{target} patched by {patch:?}");
}

#[track_caller]
fn check(target: &str, patch: &str, expected: &str) {
    check_as("core/v1", "PodSpec", target, patch, expected);
}

#[track_caller]
fn check_meta(target: &str, patch: &str, expected: &str) {
    check_as("meta/v1", "ObjectMeta", target, patch, expected);
}

/// Containers by name, for the order of lists.
fn containers(names: &str) -> String {
    let names: Vec<String> = names.chars().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
    format!("[{}]", names.join(","))
}

#[track_caller]
fn check_order(before: &str, patch: &str, order: Option<&str>, after: &str) {
    let target = format!(r#"{{"containers":{}}}"#, containers(before));
    let order = order
        .map(|order| format!(r#","$setElementOrder/containers":{}"#, containers(order)))
        .unwrap_or_default();
    let patch = format!(r#"{{"containers":{}{order}}}"#, containers(patch));
    check(&target, &patch, &format!(r#"{{"containers":{}}}"#, containers(after)));
}

#[test]
fn members_merge_and_nulls_delete() {
    check(r#"{"hostname":"a","nodeName":"n"}"#, r#"{"hostname":"b","nodeName":null}"#, r#"{"hostname":"b"}"#);
    check("{}", r#"{"nodeName":null}"#, "{}");
    check(
        r#"{"securityContext":{"runAsUser":1}}"#,
        r#"{"securityContext":{"runAsGroup":2,"runAsUser":null}}"#,
        r#"{"securityContext":{"runAsGroup":2}}"#,
    );
    check_meta(
        r#"{"labels":{"a":"1","b":"2"}}"#,
        r#"{"labels":{"b":null,"c":"3"}}"#,
        r#"{"labels":{"a":"1","c":"3"}}"#,
    );
    check("{}", r#"{"securityContext":{"a":null,"b":{"c":null}}}"#, r#"{"securityContext":{"b":{}}}"#);
}

#[test]
fn unknown_fields_pass_through() {
    check("{}", r#"{"bogus":{"x":[1]}}"#, r#"{"bogus":{"x":[1]}}"#);
    check(
        r#"{"bogus":{}}"#,
        r#"{"bogus":{}}"#,
        "unable to find api field in struct PodSpec for the json field \"bogus\"",
    );
}

#[test]
fn directives_in_maps() {
    check(
        r#"{"securityContext":{"runAsUser":1}}"#,
        r#"{"securityContext":{"$patch":"replace","runAsGroup":2}}"#,
        r#"{"securityContext":{"runAsGroup":2}}"#,
    );
    check(
        r#"{"securityContext":{"runAsUser":1}}"#,
        r#"{"securityContext":{"$patch":"delete"}}"#,
        r#"{"securityContext":{}}"#,
    );
    check("{}", r#"{"securityContext":{"$patch":"delete"}}"#, "{}");
    check(
        r#"{"securityContext":{}}"#,
        r#"{"securityContext":{"$patch":"frob","a":1}}"#,
        "unknown patch type: frob in map: map[$patch:frob a:1]",
    );
    check(
        r#"{"securityContext":{}}"#,
        r#"{"securityContext":{"$patch":1}}"#,
        "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
    );
}

#[test]
fn lists_merge_by_key() {
    check(
        r#"{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}"#,
        r#"{"containers":[{"name":"b","image":"2"}]}"#,
        r#"{"containers":[{"image":"1","name":"a"},{"image":"2","name":"b"}]}"#,
    );
    check(
        r#"{"containers":[{"name":"a","ports":[{"containerPort":80}]}]}"#,
        r#"{"containers":[{"name":"a","ports":[{"containerPort":81}]}]}"#,
        r#"{"containers":[{"name":"a","ports":[{"containerPort":81},{"containerPort":80}]}]}"#,
    );
    check(
        r#"{"containers":[{"name":"a","args":["x"]}]}"#,
        r#"{"containers":[{"name":"a","args":["y"]}]}"#,
        r#"{"containers":[{"args":["y"],"name":"a"}]}"#,
    );
    check("{}", r#"{"containers":[{"name":"a"}]}"#, r#"{"containers":[{"name":"a"}]}"#);
    check_as(
        "core/v1",
        "ServiceSpec",
        r#"{"ports":[{"port":80,"nodePort":1}]}"#,
        r#"{"ports":[{"port":80,"name":"x"}]}"#,
        r#"{"ports":[{"name":"x","nodePort":1,"port":80}]}"#,
    );
}

#[test]
fn directives_in_lists() {
    let target = r#"{"containers":[{"name":"a"},{"name":"b"}]}"#;
    check(target, r#"{"containers":[{"$patch":"delete","name":"a"}]}"#, r#"{"containers":[{"name":"b"}]}"#);
    check(
        target,
        r#"{"containers":[{"$patch":"replace"},{"name":"c"}]}"#,
        r#"{"containers":[{"name":"c"}]}"#,
    );
    check(target, r#"{"containers":[{"$patch":"replace"}]}"#, r#"{"containers":[]}"#);
    check(
        target,
        r#"{"containers":[{"$patch":"merge","name":"a"}]}"#,
        "merging lists cannot yet be specified in the patch",
    );
    check(
        target,
        r#"{"containers":[{"$patch":"frob","name":"a"}]}"#,
        "unknown patch type: frob in map: map[$patch:frob name:a]",
    );
    check(
        target,
        r#"{"containers":[{"$patch":"delete"}]}"#,
        "map: map[$patch:delete] does not contain declared merge key: name",
    );
    check(
        "{}",
        r#"{"containers":[{"$patch":"delete","name":"a"},{"name":"b"}]}"#,
        r#"{"containers":[{"name":"b"}]}"#,
    );
}

#[test]
fn lists_that_do_not_merge() {
    let target = r#"{"containers":[{"name":"a"}]}"#;
    check(
        target,
        r#"{"containers":[{"image":"x"}]}"#,
        "map: map[image:x] does not contain declared merge key: name",
    );
    check(target, r#"{"containers":["a"]}"#, "list element types are not identical: [[map[name:a]] [a]]");
    check(r#"{"containers":[[1]]}"#, r#"{"containers":[[2]]}"#, "lists of lists are not supported");
    check(target, r#"{"containers":"x"}"#, r#"{"containers":"x"}"#);
}

#[test]
fn lists_of_scalars() {
    check_meta(
        r#"{"finalizers":["a","b"]}"#,
        r#"{"finalizers":["c","a"]}"#,
        r#"{"finalizers":["c","a","b"]}"#,
    );
    check_meta(
        r#"{"finalizers":["a","b","c"]}"#,
        r#"{"$deleteFromPrimitiveList/finalizers":["b"]}"#,
        r#"{"finalizers":["a","c"]}"#,
    );
    check_meta(
        r#"{"finalizers":["a","b"]}"#,
        r#"{"$deleteFromPrimitiveList/finalizers":["b"],"finalizers":["c"]}"#,
        r#"{"finalizers":["c","a"]}"#,
    );
    check_meta("{}", r#"{"$deleteFromPrimitiveList/finalizers":["b"]}"#, "{}");
    check_meta("{}", r#"{"$deleteFromPrimitiveList":["b"]}"#, "invalid patch format of primitive list");
    check_meta(
        r#"{"finalizers":["a","b","c"]}"#,
        r#"{"$setElementOrder/finalizers":["c","a"]}"#,
        r#"{"finalizers":["b","c","a"]}"#,
    );
}

#[test]
fn the_order_of_lists() {
    check_order("abc", "ca", None, "bca");
    check_order("abc", "d", None, "dabc");
    check_order("abc", "cb", None, "acb");
    check_order("abc", "d", Some("dabc"), "dabc");
    check_order("abc", "d", Some("abdc"), "abdc");
    check_order("abcx", "d", Some("dbac"), "dbacx");
    check_order("xab", "", Some("ba"), "xba");
    check_order("axb", "", Some("ba"), "xba");
    check_order("axb", "", Some("ab"), "axb");
}

#[test]
fn orders_must_fit() {
    check(
        r#"{"containers":[{"name":"a"}]}"#,
        r#"{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"b"}]}"#,
        "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    );
    check("{}", r#"{"$setElementOrder/containers":"x"}"#, "expected a []interface {}, but received a string");
    check("{}", r#"{"$setElementOrder":[]}"#, "invalid patch format of setElementOrder list");
    check("{}", r#"{"$setElementOrder/containers":[{"name":"a"}]}"#, "{}");
    check(
        "{}",
        r#"{"$setElementOrder/nonsense":[]}"#,
        "unable to find api field in struct PodSpec for the json field \"nonsense\"",
    );
    check(
        r#"{"containers":[{"name":"a"},{"name":"b"}]}"#,
        r#"{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"$patch":"delete","name":"a"},{"name":"b","image":"i"}]}"#,
        r#"{"containers":[{"image":"i","name":"b"}]}"#,
    );
    check(
        r#"{"containers":[{"name":"a"},{"name":"c"}]}"#,
        r#"{"$setElementOrder/containers":[{"name":"e"},{"name":"c"}],"containers":[{"name":"e"},{"$patch":"delete","name":"c"}]}"#,
        r#"{"containers":[{"name":"a"},{"name":"e"}]}"#,
    );
}

#[test]
fn retained_keys() {
    check_as(
        "apps/v1",
        "DeploymentSpec",
        r#"{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}"#,
        r#"{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}"#,
        r#"{"strategy":{"type":"Recreate"}}"#,
    );
    check(
        r#"{"volumes":[{"name":"v","emptyDir":{}}]}"#,
        r#"{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/"}}]}"#,
        r#"{"volumes":[{"hostPath":{"path":"/"},"name":"v"}]}"#,
    );
    let wrong = "invalid patch format of retainKeys";
    check("{}", r#"{"$retainKeys":["a"],"b":1}"#, wrong);
    check("{}", r#"{"$retainKeys":"a"}"#, wrong);
    check(r#"{"hostname":"h"}"#, r#"{"$retainKeys":["a"],"b":null}"#, "{}");
}

#[test]
fn fields_may_refuse_to_merge() {
    check_as(
        "policy/v1",
        "PodDisruptionBudgetSpec",
        r#"{"selector":{"matchLabels":{"a":"b"}}}"#,
        r#"{"selector":{"matchLabels":{"c":"d"}}}"#,
        r#"{"selector":{"matchLabels":{"c":"d"}}}"#,
    );
}

#[test]
fn answers_are_upstreams() {
    assert_eq!(Error::RetainKeysFormat.to_status().code, 400);
    assert_eq!(Error::ListOfLists.to_status().code, 422);
    let status = Error::MergeDirectiveInList.to_status();
    assert_eq!((status.code, &*status.reason), (500, ""));
}
