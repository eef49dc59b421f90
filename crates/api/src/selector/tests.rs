use super::*;
use crate::value::{Str, Value};
use crate::{json, value};

#[track_caller]
fn check_labels(text: &str, expected: &str) {
    match LabelSelector::parse(text) {
        Ok(selector) => {
            assert_eq!(selector.to_string(), expected, "{text}");
            let again = LabelSelector::parse(expected).unwrap();
            assert_eq!(again.to_string(), expected, "printing is stable");
        }
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[track_caller]
fn check_matches(text: &str, labels: &str, expected: bool) {
    let selector = LabelSelector::parse(text).unwrap();
    let labels = json::parse(labels.as_bytes()).unwrap();
    assert_eq!(selector.matches(labels.as_object().unwrap()), expected, "{text} on {labels:?}");
    let object = value!({"metadata": {"labels": labels}});
    assert_eq!(selector.matches_object(&object), expected);
}

#[track_caller]
fn check_object(selector: &Value, expected: &str) {
    let found = match LabelSelector::from_object(Some(selector)) {
        Ok(selector) => selector.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected);
}

#[track_caller]
fn check_fields(text: &str, expected: &str) {
    let found = match FieldSelector::parse(text) {
        Ok(selector) => selector.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn label_selectors_are_read_and_sorted() {
    check_labels("", "");
    check_labels("b=c,a!=d", "a!=d,b=c");
    check_labels(" x == y ", "x==y");
    check_labels("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()");
    check_labels("x in (b,a,b)", "x in (a,b)");
    check_labels("x in (a,)", "x in (,a)");
    check_labels("x in (,)", "x in ()");
    check_labels("x in (,a)", "x in (,a)");
    check_labels("x=", "x=");
    check_labels("x=,y", "x=,y");
    check_labels("!f", "!f");
    check_labels("h>1,h<2", "h>1,h<2");
    check_labels("in in (in,notin)", "in in (in,notin)");
    check_labels("example.com/a\tnotin\n(b)", "example.com/a notin (b)");
    check_labels("a=b", "a=b");
}

#[test]
fn errors_of_label_selectors_are_upstreams() {
    check_labels("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    check_labels("a,", "found '', expected: identifier after ','");
    check_labels(",a", "found ',', expected: !, identifier, or 'end of string'");
    check_labels("a=b c", "found 'c', expected: ',' or 'end of string'");
    check_labels("!a=b", "found '=', expected: ',' or 'end of string'");
    check_labels("!", "unable to parse requirement: found '', expected: identifier");
    check_labels("x in", "unable to parse requirement: found '' expected: '('");
    check_labels("x in a", "unable to parse requirement: found 'a' expected: '('");
    check_labels("x in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'");
    check_labels("x in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier");
    check_labels("x in (a,=", "unable to parse requirement: found '=', expected: ',', or identifier");
    check_labels("x=(", "unable to parse requirement: found '(', expected: identifier");
    check_labels(
        "-a=b",
        "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    );
    check_labels(
        "a=b@c",
        "unable to parse requirement: values[0][a]: Invalid value: \"b@c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    );
    check_labels(
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    );
}

#[test]
fn labels_match() {
    let labels = r#"{"a":"b","n":"5","e":""}"#;
    for text in ["", "a", "a=b", "a==b", "a!=c", "z!=c", "a in (b,c)", "a notin (c)", "z notin (c)", "!z"] {
        check_matches(text, labels, true);
    }
    for text in ["e=", "e", "n>4", "n<6", "a=b,n=5"] {
        check_matches(text, labels, true);
    }
    for text in ["z", "a=c", "a!=b", "a in (c)", "z in (c)", "a notin (b)", "!a", "n>5", "n<5", "a>1", "z>1"]
    {
        check_matches(text, labels, false);
    }
    check_matches("a=b,a=c", labels, false);
}

#[test]
fn selectors_come_from_objects() {
    check_object(&value!({}), "");
    check_object(
        &value!({
            "matchLabels": {"z": "1"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["y", "x"]},
                {"key": "b", "operator": "Exists"},
                {"key": "c", "operator": "DoesNotExist"},
                {"key": "d", "operator": "NotIn", "values": ["q"]}
            ]
        }),
        "a in (x,y),b,!c,d notin (q),z=1",
    );
    check_object(
        &value!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
        "\"Near\" is not a valid label selector operator",
    );
    check_object(
        &value!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    );
    check_object(
        &value!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["v"]}]}),
        "values: Invalid value: [\"v\"]: values set must be empty for exists and does not exist",
    );
    assert!(LabelSelector::from_object(None).unwrap().is_nothing());
    assert!(!LabelSelector::nothing().matches_object(&value!({})));
    assert!(LabelSelector::from_object(Some(&value!({}))).unwrap().is_everything());
}

#[test]
fn exact_label_matches_are_found() {
    let selector = LabelSelector::parse("a=b,c in (d),e in (f,g),h!=i").unwrap();
    assert_eq!(selector.require_exact_match("a"), Some("b"));
    assert_eq!(selector.require_exact_match("c"), Some("d"));
    assert_eq!(selector.require_exact_match("e"), None);
    assert_eq!(selector.require_exact_match("h"), None);
}

#[test]
fn field_selectors_are_read_and_sorted() {
    check_fields("", "");
    check_fields("spec.nodeName!=y,metadata.name=x", "metadata.name=x,spec.nodeName!=y");
    check_fields("a==b", "a=b");
    check_fields("a=,b!=", "a=,b!=");
    check_fields(",a=b,", "a=b");
    check_fields(r"a=x\,y\=z\\", r"a=x\,y\=z\\");
    check_fields("=,a=b", "a=b");
    check_fields("a!b=c", "a!b=c");
}

#[test]
fn errors_of_field_selectors_are_upstreams() {
    check_fields("x", "invalid selector: 'x'; can't understand 'x'");
    check_fields("a=b,x", "invalid selector: 'a=b,x'; can't understand 'x'");
    check_fields("a=b=c", "invalid field selector: unescaped character in value: 61");
    check_fields(r"a=\x", r"invalid field selector: invalid escape sequence: \x");
    check_fields(r"a=b\", r"invalid field selector: invalid escape sequence: \");
}

#[test]
fn fields_match() {
    let selector = FieldSelector::parse("a=b,c!=d").unwrap();
    let check = |fields: &[(&str, &'static str)], expected: bool| {
        let get =
            |name: &str| fields.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value).into();
        assert_eq!(selector.matches_with(get), expected, "{fields:?}");
    };
    check(&[("a", "b")], true);
    check(&[("a", "b"), ("c", "e")], true);
    check(&[("a", "b"), ("c", "d")], false);
    check(&[], false);
    assert_eq!(selector.require_exact_match("a"), Some("b"));
    assert_eq!(selector.require_exact_match("c"), None);
    let wanted = FieldRequirement { field: Str::new("a"), equal: true, value: Str::new("b") };
    assert_eq!(selector.filtered(|wanted| wanted.equal).requirements(), [wanted]);
}
