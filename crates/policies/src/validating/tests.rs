use super::*;
use crate::testing::{Sample, parse};

/// Checks the messages of the decisions of a specification.
#[track_caller]
fn check(spec: &str, expected: &[&str]) {
    check_with(spec, None, expected);
}

#[track_caller]
fn check_with(spec: &str, params: Option<&str>, expected: &[&str]) {
    let policy = ValidatingPolicy::compile(&parse(spec));
    let params = params.map(parse);
    let found = policy.evaluate(&Sample::default(), params.as_ref());
    let shown = |decision: &Decision| {
        let kind = match (decision.denies, decision.is_error) {
            (true, false) => "deny",
            (true, true) => "error",
            (false, _) => "ignored",
        };
        format!("{kind} {}: {}", decision.reason.as_deref().unwrap_or("-"), decision.message)
    };
    let mut all: Vec<String> = found.decisions.iter().map(shown).collect();
    all.extend(found.annotations.iter().map(|(key, annotation)| match annotation {
        Annotation::Publish(value) => format!("{key}={value}"),
        Annotation::Error(why) => format!("{key}!{why}"),
    }));
    assert_eq!(all, expected, "{spec}");
}

#[test]
fn messages_and_reasons() {
    check(r#"{"validations":[{"expression":"object.metadata.name == 'a'"}]}"#, &[]);
    check(r#"{"validations":[{"expression":" false "}]}"#, &["deny -: failed expression: false"]);
    check(
        r#"{"validations":[{"expression":"false","message":" no ","reason":"Forbidden"}]}"#,
        &["deny Forbidden: no"],
    );
    check(
        r#"{"validations":[{"expression":"false","message":"no","messageExpression":"'not ' + object.metadata.name"}]}"#,
        &["deny -: not a"],
    );
    check(
        r#"{"validations":[{"expression":"false","message":"no","messageExpression":"object.missing"}]}"#,
        &["deny -: no"],
    );
    check(
        r#"{"validations":[{"expression":"false","message":"no","messageExpression":"'a\\nb'"}]}"#,
        &["deny -: no"],
    );
    check(
        r#"{"validations":[{"expression":"object.x == 1"}]}"#,
        &["error -: expression 'object.x == 1' resulted in error: no such key: x"],
    );
    check(
        r#"{"failurePolicy":"Ignore","validations":[{"expression":"object.x == 1"}]}"#,
        &["ignored -: expression 'object.x == 1' resulted in error: no such key: x"],
    );
}

#[test]
fn variables_compose() {
    let spec = |validation: &str| {
        format!(
            r#"{{"paramKind":{{"kind":"ConfigMap"}},"variables":[
                {{"name":"name","expression":"object.metadata.name"}},
                {{"name":"twice","expression":"variables.name + variables.name"}},
                {{"name":"fails","expression":"object.missing"}},
                {{"name":"deep","expression":"variables.fails"}}],
            "validations":[{{"expression":"{validation}","messageExpression":"string(variables.twice)"}}]}}"#
        )
    };
    check(&spec("variables.twice == 'aa'"), &[]);
    check(&spec("true || variables.fails"), &[]);
    check(&spec("variables.twice == 'b'"), &["deny -: aa"]);
    check(&spec("has(variables.name)"), &[]);
    check(
        &spec("variables.deep == 1"),
        &[
            "error -: expression 'variables.deep == 1' resulted in error: composited variable \"deep\" fails to evaluate: composited variable \"fails\" fails to evaluate: no such key: missing",
        ],
    );
    check(
        &spec("variables.other == 1"),
        &[
            "error -: compilation error: compilation failed: ERROR: <input>:1:10: undefined field 'other'\n | variables.other == 1\n | .........^",
        ],
    );
    check_with(&spec("params.data.k == 'v'"), Some(r#"{"data":{"k":"v"}}"#), &[]);
    check(&spec("params == null"), &[]);
    check(&spec("namespaceObject.metadata.labels.env == 'prod'"), &[]);
}

#[test]
fn annotations() {
    let spec = |policy: &str, expression: &str| {
        format!(
            r#"{{"failurePolicy":"{policy}","auditAnnotations":[{{"key":"k","valueExpression":"{expression}"}}]}}"#
        )
    };
    check(&spec("Fail", "' v '"), &["k=v"]);
    check(&spec("Fail", "null"), &[]);
    check(&spec("Fail", "' '"), &[]);
    check(&spec("Ignore", "string(object.missing)"), &[]);
    check(
        &spec("Fail", "string(object.missing)"),
        &["k!expression 'string(object.missing)' resulted in error: no such key: missing"],
    );
    check(
        &spec("Fail", "authorizer.path('/x').check('get').reason()"),
        &[
            "k!expression 'authorizer.path('/x').check('get').reason()' resulted in error: no such attribute(s): authorizer",
        ],
    );
}

/// A chain of many variables ends with an error instead of a full stack, and costs are bounded.
#[test]
fn hostile_variables_end() {
    let mut variables = vec![r#"{"name":"v0","expression":"1"}"#.to_owned()];
    for at in 1..5000 {
        variables.push(format!(r#"{{"name":"v{at}","expression":"variables.v{} + 1"}}"#, at - 1));
        if at == 200 {
            break;
        }
    }
    let spec = format!(
        r#"{{"variables":[{}],"validations":[{{"expression":"variables.v200 == 201"}}]}}"#,
        variables.join(",")
    );
    let policy = ValidatingPolicy::compile(&parse(&spec));
    let found = policy.evaluate(&Sample::default(), None);
    assert!(found.decisions[0].message.ends_with("nested too deeply"), "{found:?}");
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, true)))))");
    let validations = vec![format!(r#"{{"expression":"{nested}"}}"#); 40].join(",");
    check(
        &format!(r#"{{"validations":[{validations}]}}"#),
        &[&format!("error -: {}", crate::activation::OUT_OF_BUDGET)],
    );
}
