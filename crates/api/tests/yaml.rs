//! YAML in and out, as in upstream's library.

mod samples;

use corten_api::yaml::{self, Duplicate};
use corten_api::{Map, Value, json, schema, value};

#[track_caller]
fn reads(text: &str, expected: &str) {
    let mut duplicates = Vec::new();
    let read = yaml::to_value(text.as_bytes(), &mut duplicates).expect(text);
    assert_eq!(json::write_to_string(&read), expected, "{text}");
    assert_eq!(duplicates, []);
}

#[track_caller]
fn fails(text: &str, message: &str) {
    let error = yaml::to_value(text.as_bytes(), &mut Vec::new()).expect_err(text);
    assert_eq!(error.to_string(), message, "{text}");
}

#[test]
fn scalars_mean_what_yaml_1_1_says() {
    reads("[yes, No, on, OFF, y, n, true, False]", "[true,false,true,false,true,false,true,false]");
    reads("[~, null, Null, '']", r#"[null,null,null,""]"#);
    reads("[0644, 0o17, 0x1F, 0b11, -0x1, +5, 1_000, 08]", "[420,15,31,3,-1,5,1000,8]");
    reads("[1.5, 1.0, 1e3, .5, -.5, 1e400]", r#"[1.5,1,1000,0.5,-0.5,"1e400"]"#);
    reads("[2024-01-02, 2024-01-02T03:04:05Z, 12:30]", r#"["2024-01-02","2024-01-02T03:04:05Z","12:30"]"#);
    reads("[18446744073709551615, -9223372036854775808]", "[18446744073709552000,-9223372036854775808]");
    reads(r#"["yes", '1', !!str 1, !!float 3, !!binary aGk=, !custom x]"#, r#"["yes","1","1",3,"hi","x"]"#);
}

#[test]
fn keys_become_strings() {
    reads("1: a\ntrue: b\n1.5: c\nno: d", r#"{"1":"a","1.5":"c","false":"d","true":"b"}"#);
    fails("[a]: 1", "yaml: invalid map key: a sequence");
    fails("? \n: 1", "unsupported map key of type: %!s(<nil>), key: <nil>");
}

#[test]
fn only_the_first_document_counts() {
    reads("", "null");
    reads("# nothing\n", "null");
    reads("---\na: 1\n---\nb: [", r#"{"a":1}"#);
    reads("{\"a\": [1, \"x\"],\n \"b\": {}}", r#"{"a":[1,"x"],"b":{}}"#);
}

#[test]
fn anchors_and_merges() {
    reads("a: &x {k: 1}\nb: *x", r#"{"a":{"k":1},"b":{"k":1}}"#);
    reads("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  m: 3", r#"{"a":{"k":1,"l":2},"b":{"k":1,"l":2,"m":3}}"#);
    reads("b:\n  <<: [{k: 1}, {l: 2}]", r#"{"b":{"k":1,"l":2}}"#);
    fails("a: *x", "yaml: unknown anchor 'x' referenced");
    fails("a: &x [*x]", "yaml: anchor 'x' value contains itself");
    fails("<<: 1", "yaml: map merge requires map or sequence of maps as the value");
}

#[test]
fn alias_expansion_is_bounded() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..9 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
    }
    fails(&text, "yaml: document contains excessive aliasing");
}

#[test]
fn depth_is_limited() {
    let error = yaml::to_value("[".repeat(10_000).as_bytes(), &mut Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("yaml: "), "{error}");
    let mut text = String::from("a0: &a0 x\n");
    for i in 1..2000 {
        text.push_str(&format!("a{i}: &a{i} [*a{}]\n", i - 1));
    }
    fails(&text, "yaml: exceeded max depth");
}

#[test]
fn duplicates_are_reported_and_the_last_wins() {
    let mut duplicates = Vec::new();
    let read = yaml::to_value(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", &mut duplicates).unwrap();
    assert_eq!(read, value!({"a": 3, "b": {"c": 2}}));
    let of = |line, key: &str| Duplicate { line, key: key.to_owned() };
    assert_eq!(duplicates, [of(4, "\"c\""), of(5, "\"a\"")]);
    assert_eq!(
        yaml::strict_error(&duplicates).unwrap(),
        "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map"
    );
}

#[test]
fn errors_are_worded_as_upstream_words_them() {
    fails("a: b: c", "yaml: mapping values are not allowed in this context");
    fails("x: 1\na: b: c", "yaml: line 2: mapping values are not allowed in this context");
    fails("a\nb: 1\nc\nd: 1", "yaml: line 2: mapping values are not allowed in this context");
    fails("a: 1\n\tb: 1", "yaml: line 2: found a tab character that violates indentation");
    fails("a: \u{1}", "yaml: control characters are not allowed");
    fails("a: .nan", "json: unsupported value: NaN");
    fails("a: !!int x", "yaml: cannot decode !!str `x` as a !!int");
}

#[test]
fn output_is_upstreams() {
    let long = "word ".repeat(25);
    let value = value!({
        "metadata": {"creationTimestamp": "2024-02-29T12:00:00Z", "labels": {"a10": "yes", "a9": "1.5"}},
        "spec": {
            "list": [{"name": "x", "deep": [[1, 2], []]}, "- dash", ""],
            "script": "line one\n  line two\n",
            "bare": "one\ntwo",
            "empty": {},
            "text": (long.trim_end()),
            "quotes": "it's: \"x\"",
            "float": 1234567.5,
            "none": null
        }
    });
    let expected = r#"metadata:
  creationTimestamp: "2024-02-29T12:00:00Z"
  labels:
    a9: "1.5"
    a10: "yes"
spec:
  bare: |-
    one
    two
  empty: {}
  float: 1.2345675e+06
  list:
  - deep:
    - - 1
      - 2
    - []
    name: x
  - '- dash'
  - ""
  none: null
  quotes: 'it''s: "x"'
  script: |
    line one
      line two
  text: word word word word word word word word word word word word word word word
    word word word word word word word word word word
"#;
    assert_eq!(yaml::to_string(&value), expected);
}

#[test]
fn keys_without_a_total_order_are_written_all_the_same() {
    let object: Value =
        (0..500).map(|i| (format!("{:x}", i * 7).into(), Value::Int(i))).collect::<Map>().into();
    let text = yaml::to_string(&object);
    assert_eq!(
        yaml::to_value(text.as_bytes(), &mut Vec::new()).unwrap().as_object().map(Map::len),
        Some(500)
    );
}

#[test]
fn encoded_objects_decode_to_themselves() {
    for (package, name) in
        [("core/v1", "Pod"), ("apps/v1", "Deployment"), ("apiextensions/v1", "CustomResourceDefinition")]
    {
        let schema = schema::lookup(package, name).unwrap();
        for seed in 0..20 {
            let object = samples::object(&schema, &mut samples::Random::new(seed), 80);
            let text = yaml::to_string(&object);
            let read = yaml::to_value(text.as_bytes(), &mut Vec::new()).unwrap();
            // Raw text becomes a tree again.
            let plain =
                json::parse(json::write_to_string(&object).replace("fieldsV1", "f1").as_bytes()).unwrap();
            let read =
                json::parse(json::write_to_string(&read).replace("fieldsV1", "f1").as_bytes()).unwrap();
            assert_eq!(read, plain);
        }
    }
    for text in [
        "", " ", "a b", "é😀", "\t", "x\r\ny", "a\u{85}b", "\u{2028}", "#", "a: b", "true", "0x1", "1:30",
        "\\", "\n", " \n x",
    ] {
        let written = yaml::to_string(&Value::from(text));
        assert_eq!(
            yaml::to_value(written.as_bytes(), &mut Vec::new()).unwrap(),
            Value::from(text),
            "{written:?}"
        );
    }
}
