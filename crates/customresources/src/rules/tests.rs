//! Tables of schemas, objects and errors.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, json};
use corten_cel::library::regex::Patterns;

use super::evaluate::{Change, Limits};
use super::*;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn compiled(schema: &str) -> Schema {
    Schema::compile_unpruned(&parse(schema)).unwrap()
}

/// Checks the errors of an object; `old` is empty for a new one.
#[track_caller]
fn check(schema: &str, object: &str, old: &str, expected: &str) {
    let schema = compiled(schema);
    let rules = Rules::compile(&schema);
    let (mut errors, object) = (ErrorList::new(), parse(object));
    if old.is_empty() {
        rules.validate_create(&object, &schema, &mut errors);
    } else {
        rules.validate_update(&object, &parse(old), &schema, &mut errors, &mut Vec::new());
    }
    assert_eq!(errors.summary(), expected, "{}", json::write_to_string(&object));
}

#[test]
fn rules_must_hold() {
    let schema = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"min":{"type":"integer"},"max":{"type":"integer"}},
        "x-kubernetes-validations":[{"rule":"self.min <= self.max"},{"rule":"self.max < 10","message":" too large "}]}}}"#;
    check(schema, r#"{"spec":{"min":1,"max":2}}"#, "", "");
    check(
        schema,
        r#"{"spec":{"min":3,"max":2}}"#,
        "",
        "spec: Invalid value: failed rule: self.min <= self.max",
    );
    check(schema, r#"{"spec":{"min":3,"max":20}}"#, "", "spec: Invalid value: too large");
    check(
        schema,
        r#"{"spec":{"min":3}}"#,
        "",
        r#"[spec: Invalid value: "object": no such key: max evaluating rule: self.min <= self.max, spec: Invalid value: "object": no such key: max evaluating rule: too large]"#,
    );
}

#[test]
fn messages_reasons_and_paths() {
    let schema = |rule: &str| {
        format!(
            r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"n":{{"type":"integer"}}}},"x-kubernetes-validations":[{rule}]}}}}}}"#
        )
    };
    let object = r#"{"spec":{"n":5}}"#;
    let rule = r#"{"rule":"self.n > 9","messageExpression":"'n is ' + string(self.n)","fieldPath":".n"}"#;
    check(&schema(rule), object, "", "spec.n: Invalid value: n is 5");
    let rule = r#"{"rule":"self.n > 9","messageExpression":"'two\nlines'","reason":"FieldValueForbidden"}"#;
    check(&schema(rule), object, "", "spec: Forbidden: failed rule: self.n > 9");
    let rule = r#"{"rule":"self.n > 9","message":"m","reason":"FieldValueRequired"}"#;
    check(&schema(rule), object, "", "spec: Required value: m");
    let rule = r#"{"rule":"self.n > 9","message":"m","reason":"FieldValueDuplicate"}"#;
    check(&schema(rule), object, "", "spec: Duplicate value");
}

#[test]
fn transition_rules_need_an_old_value() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"immutable"}]},
        "b":{"type":"string","x-kubernetes-validations":[{"rule":"oldSelf.hasValue() || self == 'x'","optionalOldSelf":true}]},
        "m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{
        "k":{"type":"string"},"v":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.v >= oldSelf.v"}]}}}}"#;
    check(schema, r#"{"a":"x"}"#, "", "");
    check(schema, r#"{"a":"x"}"#, r#"{"a":"y"}"#, r#"a: Invalid value: "x": immutable"#);
    check(schema, r#"{"a":"x"}"#, "{}", "");
    check(
        schema,
        r#"{"b":"y"}"#,
        "",
        r#"b: Invalid value: "y": failed rule: oldSelf.hasValue() || self == 'x'"#,
    );
    check(schema, r#"{"b":"y"}"#, r#"{"b":"z"}"#, "");
    check(
        schema,
        r#"{"m":[{"k":"b","v":1},{"k":"a","v":1}]}"#,
        r#"{"m":[{"k":"a","v":2},{"k":"b","v":1}]}"#,
        "m[1]: Invalid value: failed rule: self.v >= oldSelf.v",
    );
}

#[test]
fn unchanged_values_are_tolerated() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 9"}]},
        "l":{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 9"}]}}}}"#;
    check(schema, r#"{"n":1,"l":[1]}"#, r#"{"n":1,"l":[1]}"#, "");
    check(schema, r#"{"n":1,"l":[1]}"#, r#"{"n":2,"l":[1]}"#, "n: Invalid value: 1: failed rule: self > 9");
    check(schema, r#"{"l":[1,10]}"#, r#"{"l":[1]}"#, "l[0]: Invalid value: 1: failed rule: self > 9");
    let (schema, object) = (compiled(schema), parse(r#"{"n":1}"#));
    let (mut errors, mut warnings) = (ErrorList::new(), Vec::new());
    Rules::compile(&schema).validate_update(&object, &object, &schema, &mut errors, &mut warnings);
    assert_eq!(warnings, ["n: Invalid value: 1: failed rule: self > 9"]);
}

#[test]
fn some_errors_block_rules() {
    let schema = compiled(
        r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name == 'x'"}],"properties":{"a":{"type":"string"}}}"#,
    );
    let mut errors = ErrorList::new();
    errors.required("spec", "");
    Rules::compile(&schema).validate_create(&parse("{}"), &schema, &mut errors);
    assert_eq!(
        errors.summary(),
        "[spec: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"
    );
}

#[test]
fn costs_are_limited() {
    let schema = compiled(
        r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self.all(x, x > 0)"},{"rule":"true"}]}}}"#,
    );
    let value = parse(r#"{"l":[1,2,3,4,5,6,7,8,9]}"#);
    let check = |budget: i64, per_call: u64, expected: &str| {
        let change = Change { node: schema.root(), value: &value, old: None, ratchets: false };
        let (mut errors, limits) = (ErrorList::new(), Limits { budget, per_call });
        let rules = Rules::compile(&schema);
        let left =
            rules.evaluate(&change, limits, &Patterns::default(), &Field::ROOT, &mut errors, &mut Vec::new());
        assert_eq!((left.is_some(), errors.summary().as_str()), (expected.is_empty(), expected));
    };
    check(1000, 1000, "");
    check(
        10,
        1000,
        r#"l: Invalid value: "array": validation failed due to running out of cost budget, no further validation rules will be run"#,
    );
    check(
        1000,
        10,
        r#"l: Invalid value: "array": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, x > 0)"#,
    );
}

/// Checks the errors of a definition whose field `a` has this schema.
#[track_caller]
fn check_definition(property: &str, expected: &str) {
    let schema = compiled(&format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#));
    let mut errors = ErrorList::new();
    validate_rules(&schema, &StoredExpressions::default(), false, &Field::new("s"), &mut errors);
    assert_eq!(errors.summary(), expected, "{property}");
}

#[test]
fn rules_of_definitions_compile() {
    let rule = |rule: &str| format!(r#"{{"type":"integer","x-kubernetes-validations":[{rule}]}}"#);
    check_definition(&rule(r#"{"rule":"self > 0"}"#), "");
    check_definition(
        &rule(r#"{"rule":"self + 1"}"#),
        r#"s.properties[a].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self + 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool"#,
    );
    check_definition(
        &rule(r#"{"rule":"self > 0","optionalOldSelf":true}"#),
        "s.properties[a].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
    );
    check_definition(
        r#"{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}"#,
        r#"s.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[a]"#,
    );
}

#[test]
fn rules_of_definitions_cost_little() {
    let nested = r#"{"type":"array","items":{"type":"array","items":{"type":"string"}},"x-kubernetes-validations":[{"rule":"self.all(x, x.all(y, y == 'a'))"}]}"#;
    let tip = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
    check_definition(
        nested,
        &format!(
            "[s.properties[a].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {tip}, s.properties[a].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema, s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {tip}]"
        ),
    );
    let bounded = nested
        .replace(r#""items":{"type":"array""#, r#""maxItems":10,"items":{"type":"array","maxItems":10"#)
        .replace(r#"{"type":"string"}"#, r#"{"type":"string","maxLength":9}"#);
    check_definition(&bounded, "");
}
