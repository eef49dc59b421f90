use corten_api::json;

use super::*;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

/// Checks the errors of `{"a": value}`, where `schema` is that of `a`.
#[track_caller]
fn check(schema: &str, value: &str, expected: &str) {
    let schema = format!(r#"{{"type":"object","properties":{{"a":{schema}}}}}"#);
    let schema = Schema::compile(&parse(&schema)).unwrap();
    let mut errors = ErrorList::new();
    validate_schema(&parse(&format!(r#"{{"a":{value}}}"#)), &schema, &mut errors);
    assert_eq!(errors.summary(), expected, "{value}");
}

#[track_caller]
fn check_update(schema: &str, new: &str, old: &str, expected: &str) {
    let schema = Schema::compile(&parse(schema)).unwrap();
    let mut errors = ErrorList::new();
    validate_schema_update(&parse(new), &parse(old), &schema, &mut errors);
    assert_eq!(errors.summary(), expected, "{new}");
}

#[test]
fn types() {
    let integer = r#"{"type":"integer"}"#;
    check(integer, "1", "");
    check(integer, "1.0", "");
    check(integer, r#""x""#, r#"a: Invalid value: "string": a in body must be of type integer: "string""#);
    check(
        integer,
        "1.5",
        r#"[a: Invalid value: "number": a in body must be of type integer: "number", <nil>: Invalid value: "": Checked value must be of type integer (default format) in a]"#,
    );
    check(integer, "null", r#"a: Invalid value: "null": a in body must be of type integer: "null""#);
    check(r#"{"type":"integer","nullable":true}"#, "null", "");
    check(r#"{"type":"number"}"#, "1", "");
    check(
        r#"{"x-kubernetes-int-or-string":true}"#,
        "true",
        r#"a: Invalid value: "boolean": a in body must be of type integer,string: "boolean""#,
    );
    check(
        r#"{"type":"integer","format":"int32"}"#,
        "3000000000",
        r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in a"#,
    );
    check(
        r#"{"type":"integer","format":"int32"}"#,
        "true",
        r#"a: Invalid value: "": a in body must be of type int32: """#,
    );
    check(r#"{"type":"string","format":"date"}"#, "[]", "");
    check(
        r#"{"type":"string","format":"date-time"}"#,
        r#""x""#,
        r#"a: Invalid value: "x": a in body must be of type date-time: "x""#,
    );
    check(r#"{"type":"string","format":"unheard-of"}"#, r#""x""#, "");
}

#[test]
fn strings_and_numbers() {
    check(r#"{"type":"string","maxLength":1}"#, r#""xy""#, "a: Too long: may not be more than 1 byte");
    check(
        r#"{"type":"string","minLength":3,"pattern":"^b"}"#,
        r#""xy""#,
        r#"a: Invalid value: "xy": a in body should be at least 3 chars long"#,
    );
    check(
        r#"{"type":"string","pattern":"^b"}"#,
        r#""xy""#,
        r#"a: Invalid value: "xy": a in body should match '^b'"#,
    );
    check(
        r#"{"type":"integer","minimum":5,"maximum":3,"multipleOf":7}"#,
        "4",
        "[a: Invalid value: 4: a in body should be a multiple of 7, a: Invalid value: 4: a in body should be greater than or equal to 5, a: Invalid value: 4: a in body should be less than or equal to 3]",
    );
    check(
        r#"{"type":"number","exclusiveMinimum":true,"minimum":1.5}"#,
        "1.5",
        "a: Invalid value: 1.5: a in body should be greater than 1.5",
    );
    check(
        r#"{"type":"number","maximum":1000000.5}"#,
        "2000000.5",
        "a: Invalid value: 2.0000005e+06: a in body should be less than or equal to 1.0000005e+06",
    );
    check(
        r#"{"type":"string","enum":["x","y"]}"#,
        r#""z""#,
        r#"a: Unsupported value: "z": supported values: "x", "y""#,
    );
    check(
        r#"{"type":"string","nullable":true,"enum":["x"]}"#,
        "null",
        r#"a: Unsupported value: null: supported values: "x""#,
    );
    check(r#"{"type":"number","enum":[1]}"#, "1.5", "");
}

#[test]
fn lists_and_objects() {
    check(
        r#"{"type":"array","minItems":3,"maxItems":1,"items":{"type":"integer"}}"#,
        r#"[1,"x"]"#,
        r#"[a[1]: Invalid value: "string": a[1] in body must be of type integer: "string", a: Invalid value: 2: a in body should have at least 3 items, a: Too many: 2: must have at most 1 item]"#,
    );
    check(
        r#"{"type":"object","required":["x"],"minProperties":2,"additionalProperties":{"type":"string"}}"#,
        r#"{"k":1}"#,
        r#"[a: Invalid value: 1: a in body should have at least 2 properties, a.k: Invalid value: "integer": a.k in body must be of type string: "integer", a.x: Required value]"#,
    );
    check(
        r#"{"type":"object","additionalProperties":false}"#,
        r#"{"k":1}"#,
        r#"a: Invalid value: "k": a.k in body is a forbidden property"#,
    );
}

#[test]
fn junctors() {
    check(
        r#"{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"oneOf":[{"required":["x"]},{"required":["y"]}]}"#,
        r#"{"x":1,"y":2}"#,
        r#"<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
    );
    check(
        r#"{"type":"object","properties":{"x":{"type":"integer"}},"oneOf":[{"required":["x"]},{"required":["y"]}]}"#,
        "{}",
        r#"[<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid, a.x: Required value]"#,
    );
    check(
        r#"{"type":"integer","allOf":[{"minimum":1},{"maximum":-1}],"not":{"enum":[0]}}"#,
        "0",
        r#"[a: Invalid value: 0: a in body should be greater than or equal to 1, a: Invalid value: 0: a in body should be less than or equal to -1, <nil>: Invalid value: "": "a" must validate all the schemas (allOf). None validated, <nil>: Invalid value: "": "a" must not validate the schema (not)]"#,
    );
    check(
        r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#,
        r#""5""#,
        "",
    );
    check(
        r#"{"type":"integer","anyOf":[{"minimum":1},{"maximum":-1}]}"#,
        "0",
        r#"[<nil>: Invalid value: "": "a" must validate at least one schema (anyOf), a: Invalid value: 0: a in body should be greater than or equal to 1]"#,
    );
}

#[test]
fn unchanged_values_are_tolerated() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"string","maxLength":1},"b":{"type":"string"},
        "m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"string","maxLength":1}}}},
        "l":{"type":"array","items":{"type":"string","maxLength":1}}}}"#;
    check_update(schema, r#"{"a":"long","b":"1"}"#, r#"{"a":"long","b":"2"}"#, "");
    let too_long = "a: Too long: may not be more than 1 byte";
    check_update(schema, r#"{"a":"longer"}"#, r#"{"a":"long"}"#, too_long);
    check_update(schema, r#"{"a":"long"}"#, "{}", too_long);
    check_update(
        schema,
        r#"{"m":[{"k":"b","v":"new"},{"k":"a","v":"long"}]}"#,
        r#"{"m":[{"k":"a","v":"long"},{"k":"b","v":"old"}]}"#,
        "m[0].v: Too long: may not be more than 1 byte",
    );
    check_update(schema, r#"{"b":"1","l":["long"]}"#, r#"{"b":"2","l":["long"]}"#, "");
    check_update(
        schema,
        r#"{"l":["long","b"]}"#,
        r#"{"l":["long"]}"#,
        "l[0]: Too long: may not be more than 1 byte",
    );
}

#[test]
fn status_alone_is_validated() {
    let schema = parse(
        r#"{"type":"object","required":["spec"],"properties":{"status":{"type":"object","required":["x"],"properties":{"n":{"type":"integer"}}}}}"#,
    );
    let schema = Schema::compile(&schema).unwrap();
    let mut errors = ErrorList::new();
    validate_status_update(&parse(r#"{"status":{"n":"a"}}"#), &parse("{}"), &schema, &mut errors);
    assert_eq!(
        errors.summary(),
        r#"[status.n: Invalid value: "string": n in body must be of type integer: "string", status.x: Required value]"#
    );
}
