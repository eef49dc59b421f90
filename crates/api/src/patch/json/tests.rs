use super::*;
use crate::json::{parse, write_to_string};

#[track_caller]
fn check(target: &str, patch: &str, expected: &str) {
    let mut value = parse(target.as_bytes()).unwrap();
    let patch = parse(patch.as_bytes()).unwrap();
    let found = match apply(&mut value, &patch) {
        Ok(()) => write_to_string(&value),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{target} patched by {patch:?}");
}

#[test]
fn adds() {
    check(r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":{"c":2}}]"#, r#"{"a":1,"b":{"c":2}}"#);
    check(r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, r#"{"a":[1,2,3]}"#);
    check(r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, r#"{"a":[1,2]}"#);
    check(r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, r#"{"a":[1,2]}"#);
    check(r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-1","value":2}]"#, r#"{"a":[1,2]}"#);
    check(r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-2","value":2}]"#, r#"{"a":[2,1]}"#);
    check(r#"{"a":{}}"#, r#"[{"op":"add","path":"/a/b~1c~0d","value":2}]"#, r#"{"a":{"b/c~d":2}}"#);
    check(r#"{}"#, r#"[{"op":"add","path":"/a"}]"#, r#"{"a":null}"#);
    check(
        r#"{"m":{"fieldsV1":{"f:a":{}}}}"#,
        r#"[{"op":"add","path":"/m/fieldsV1/f:b","value":{}}]"#,
        r#"{"m":{"fieldsV1":{"f:a":{},"f:b":{}}}}"#,
    );
}

#[test]
fn additions_that_do_not_apply() {
    check(
        "{}",
        r#"[{"op":"add","path":"/a/b","value":1}]"#,
        "add operation does not apply: doc is missing path: \"/a/b\": missing value",
    );
    check(
        r#"{"a":"x"}"#,
        r#"[{"op":"add","path":"/a/b","value":1}]"#,
        "add operation does not apply: doc is missing path: \"/a/b\": missing value",
    );
    check(
        "{}",
        r#"[{"op":"add","path":"","value":{}}]"#,
        "add operation does not apply: doc is missing path: \"\": missing value",
    );
    check(
        r#"{"a":[]}"#,
        r#"[{"op":"add","path":"/a/1","value":1}]"#,
        "error in add for path: '/a/1': Unable to access invalid index: 1: invalid index referenced",
    );
    check(
        r#"{"a":[]}"#,
        r#"[{"op":"add","path":"/a/x","value":1}]"#,
        "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
    );
    check("{}", r#"[{"op":"add","value":1}]"#, "add operation failed to decode path: missing value");
}

#[test]
fn removes() {
    check(r#"{"a":1,"b":2}"#, r#"[{"op":"remove","path":"/a"}]"#, r#"{"b":2}"#);
    check(r#"{"a":[1,2,3]}"#, r#"[{"op":"remove","path":"/a/-1"}]"#, r#"{"a":[1,2]}"#);
    check(
        "{}",
        r#"[{"op":"remove","path":"/a"}]"#,
        "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value",
    );
    check(
        "{}",
        r#"[{"op":"remove","path":"/a/b"}]"#,
        "remove operation does not apply: doc is missing path: \"/a/b\": missing value",
    );
    check(
        r#"{"a":[]}"#,
        r#"[{"op":"remove","path":"/a/0"}]"#,
        "error in remove for path: '/a/0': Unable to access invalid index: 0: invalid index referenced",
    );
}

#[test]
fn replaces() {
    check(r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, r#"{"a":2}"#);
    check(r#"{}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, r#"{"a":2}"#);
    check(r#"{"a":[1,2]}"#, r#"[{"op":"replace","path":"/a/0","value":3}]"#, r#"{"a":[3,2]}"#);
    check(r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"b":1}}]"#, r#"{"b":1}"#);
    check(
        r#"{"a":[1]}"#,
        r#"[{"op":"replace","path":"/a/1","value":3}]"#,
        "replace operation does not apply: doc is missing key: /a/1: missing value",
    );
    check(
        "{}",
        r#"[{"op":"replace","path":"/a/b","value":3}]"#,
        "replace operation does not apply: doc is missing path: /a/b: missing value",
    );
    check(
        "{}",
        r#"[{"op":"replace"}]"#,
        "replace operation failed to decode path: operation missing path field: missing value",
    );
}

#[test]
fn moves_and_copies() {
    check(r#"{"a":{"b":1}}"#, r#"[{"op":"move","from":"/a/b","path":"/c"}]"#, r#"{"a":{},"c":1}"#);
    check(r#"{"a":[1,2,3]}"#, r#"[{"op":"move","from":"/a/0","path":"/a/2"}]"#, r#"{"a":[2,3,1]}"#);
    check(r#"{"a":{"b":1}}"#, r#"[{"op":"copy","from":"/a","path":"/c"}]"#, r#"{"a":{"b":1},"c":{"b":1}}"#);
    check(
        "{}",
        r#"[{"op":"move","from":"/a","path":"/b"}]"#,
        "error in move for path: 'a': Unable to remove nonexistent key: a: missing value",
    );
    check(
        "{}",
        r#"[{"op":"copy","from":"/a/b","path":"/b"}]"#,
        "copy operation does not apply: doc is missing from path: /a/b: missing value",
    );
    check(
        "{}",
        r#"[{"op":"move","path":"/b"}]"#,
        "move operation failed to decode from: operation, missing from field: missing value",
    );
}

#[test]
fn tests_compare() {
    let document = r#"{"a":{"b":[1,"x"]},"n":null}"#;
    check(document, r#"[{"op":"test","path":"/a","value":{"b":[1,"x"]}}]"#, document);
    check(document, r#"[{"op":"test","path":"/missing","value":null}]"#, document);
    check(document, r#"[{"op":"test","path":"/n"}]"#, document);
    check(
        document,
        r#"[{"op":"test","path":"/a/b/0","value":2}]"#,
        "testing value /a/b/0 failed: test failed",
    );
    check(document, r#"[{"op":"test","path":"/a"}]"#, "testing value /a failed: test failed");
    check(
        document,
        r#"[{"op":"test","path":"/x/y","value":2}]"#,
        "test operation does not apply: is missing path: /x/y: missing value",
    );
}

#[test]
fn invalid_input_is_refused() {
    check("{}", r#"[{"op":"frob","path":"/a"}]"#, "Unexpected kind: frob");
    check("{}", r#"[{"path":"/a"}]"#, "Unexpected kind: unknown");
    check("{}", "{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch");
    check("{}", "[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation");
    check("{}", "null", "{}");
}

#[test]
fn limits_hold() {
    let operation = crate::value!({"op": "add", "path": "/a", "value": 1});
    let many = Value::Array(vec![operation; MAX_OPERATIONS + 1]);
    let error = apply(&mut Value::object(), &many).unwrap_err();
    assert_eq!(
        error.to_status().message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    let mut target = crate::value!({"a": ("x".repeat(MAX_COPIED_BYTES / 2))});
    let copy = crate::value!([{"op": "copy", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/a", "path": "/c"}]);
    assert_eq!(
        apply(&mut target, &copy).unwrap_err().to_string(),
        "Unable to complete the copy, the accumulated size increase of copy is 3145732, exceeding the limit 3145728"
    );
}

#[test]
fn field_validation_looks_at_operations() {
    let look = |patch: &str| check_text(patch);
    assert_eq!(look(r#"[{"op":"add","path":"/a","value":1}]"#), Ok(Vec::new()));
    assert_eq!(look(r#"[{"op":"add","x":1}]"#), Ok(vec!["json patch unknown field \"[0].x\"".to_owned()]));
    assert_eq!(
        look("{}").unwrap_err(),
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
    );
    assert_eq!(
        look(r#"[{"path":1}]"#).unwrap_err(),
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string"
    );
}

fn check_text(patch: &str) -> Result<Vec<String>, String> {
    super::check(&parse(patch.as_bytes()).unwrap()).map_err(|error| error.to_string())
}

#[test]
fn answers_are_upstreams() {
    let status = Error::Refused("testing value /a failed: test failed".into()).to_status();
    assert_eq!((status.code, &*status.reason), (422, "Invalid"));
    assert_eq!(status.message, "the server rejected our request due to an error in our request");
    assert_eq!(Error::Malformed("x".into()).to_status().code, 400);
}
