use super::*;
use crate::testing::{Sample, parse};
use corten_api::json;

/// Checks the object after all mutations, or the error.
#[track_caller]
fn check(object: &str, mutations: &[(&str, &str)], expected: Result<&str, &str>) {
    let quoted = |text: &str| json::write_to_string(&Tree::from(text));
    let mutation = |(kind, expression): &(&str, &str)| {
        let field = if *kind == "JSONPatch" { "jsonPatch" } else { "applyConfiguration" };
        format!(r#"{{"patchType":"{kind}","{field}":{{"expression":{}}}}}"#, quoted(expression))
    };
    let mutations: Vec<String> = mutations.iter().map(mutation).collect();
    let policy = MutatingPolicy::compile(&parse(&format!(r#"{{"mutations":[{}]}}"#, mutations.join(","))));
    let object = parse(object);
    let schema = crate::testing::schema_of(&object);
    let mut sample = Sample { object: Some(object), ..Sample::default() };
    let mut outcome = Ok(());
    for at in 0..policy.len() {
        match policy.mutate(at, &sample, None, &schema) {
            Ok(Some(changed)) => sample.object = Some(changed),
            Ok(None) => {}
            Err(why) => outcome = Err(why),
        }
    }
    let found = outcome.map(|()| json::write_to_string(sample.object.as_ref().unwrap()));
    let expected = expected.map(|text| json::write_to_string(&parse(text))).map_err(str::to_owned);
    assert_eq!(found, expected);
}

const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
const APPLY: &str = "ApplyConfiguration";

#[test]
fn configurations() {
    check(
        MAP,
        &[(
            APPLY,
            "Object{metadata: Object.metadata{labels: {'x': 'y'}}, data: {'n': object.metadata.name}}",
        )],
        Ok(
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v","n":"a"}}"#,
        ),
    );
    check(MAP, &[(APPLY, "Object{}")], Ok(MAP));
    check(MAP, &[(APPLY, "Object{?metadata: optional.none()}")], Ok(MAP));
    check(
        MAP,
        &[(APPLY, "Object{metadata: Object.wrong{}}")],
        Err(
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
    );
    check(
        MAP,
        &[(APPLY, "Object{wrong: 1}")],
        Err(
            "error applying patch: failed to convert patch object to typed object: .wrong: field not declared in schema",
        ),
    );
    check(
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{}}}"#,
        &[(APPLY, "Object{spec: Object.spec{selector: Object.spec.selector{}}}")],
        Err(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector",
        ),
    );
    check(MAP, &[(APPLY, "1")], Err("must evaluate to Object but got int"));
}

#[test]
fn json_patches() {
    let patch = |text: &'static str| ("JSONPatch", text);
    check(
        MAP,
        &[patch("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: 'x'}]")],
        Ok(r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v","a/b":"x"}}"#),
    );
    check(
        MAP,
        &[patch(
            "[JSONPatch{op: 'test', path: '/data/k', value: 'other'}, JSONPatch{op: 'remove', path: '/data'}]",
        )],
        Ok(MAP),
    );
    check(
        MAP,
        &[
            patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: Object.metadata.labels{x: 'y'}}]"),
            patch("[JSONPatch{op: 'copy', from: '/metadata/labels/x', path: '/data/k'}]"),
        ],
        Ok(
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"y"}}"#,
        ),
    );
    check(MAP, &[patch("[]")], Err("must evaluate to list(JSONPatch) but got list(dyn)"));
    check(MAP, &[patch("JSONPatch{op: 'add'}")], Err("must evaluate to list(JSONPatch) but got JSONPatch"));
}

#[test]
fn values_that_contain_others_many_times_are_refused() {
    let many = format!("[1]{}", ".map(x, [x, x])".repeat(60));
    check(
        MAP,
        &[("JSONPatch", &format!("[JSONPatch{{op: 'add', path: '/x', value: {many}}}]"))],
        Err("JSONPath valueExpression evaluated to a type that could not marshal to JSON: exceeded max size"),
    );
    check(
        MAP,
        &[(APPLY, &format!("Object{{data: {{'x': {many}}}}}"))],
        Err("fail to convert field \"data\": exceeded max size"),
    );
    let long = format!("{}.map(x, [x, x, x, x])", "['aaaaaaaa'.replace('', 'aaaaaaaaaaaaaaaa')]");
    let long = format!("{long}{}", ".map(x, [x, x, x, x, x, x, x, x])".repeat(5));
    check(
        MAP,
        &[("JSONPatch", &format!("[JSONPatch{{op: 'add', path: '/x', value: {long}}}]"))],
        Err("JSONPath valueExpression evaluated to a type that could not marshal to JSON: exceeded max size"),
    );
}
