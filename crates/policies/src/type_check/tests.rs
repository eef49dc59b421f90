use super::*;
use crate::declared;
use crate::testing::parse;
use corten_api::resources::schema_of;

fn built_in(group: &str, version: &str, kind: &str) -> CheckedKind {
    let schema = declared::built_in(&schema_of(group, version, kind).unwrap());
    CheckedKind { group: group.into(), version: version.into(), kind: kind.into(), schema }
}

#[track_caller]
fn check_spec(spec: &str, expected: &[(&str, &str)]) {
    let kinds = [built_in("apps", "v1", "Deployment"), built_in("apps", "v1", "ReplicaSet")];
    let found = check(&parse(spec), &kinds, None);
    let found: Vec<(&str, &str)> =
        found.iter().map(|warning| (&*warning.field_ref, &*warning.warning)).collect();
    assert_eq!(found, expected, "{spec}");
}

#[test]
fn expressions_are_checked_by_kind() {
    check_spec(r#"{"validations":[{"expression":"object.spec.replicas > 1"}]}"#, &[]);
    check_spec(
        r#"{"validations":[{"expression":"object.replicas > 1"}]}"#,
        &[(
            "spec.validations[0].expression",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n\napps/v1, Kind=ReplicaSet: ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n",
        )],
    );
    check_spec(
        r#"{"variables":[{"name":"n","expression":"object.spec.replicas"}],
            "validations":[{"expression":"true","messageExpression":"variables.n + 'x'"}]}"#,
        &[(
            "spec.validations[0].messageExpression",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:13: found no matching overload for '_+_' applied to '(int, string)'\n | variables.n + 'x'\n | ............^\n\napps/v1, Kind=ReplicaSet: ERROR: <input>:1:13: found no matching overload for '_+_' applied to '(int, string)'\n | variables.n + 'x'\n | ............^\n",
        )],
    );
}

#[test]
fn custom_resources_are_checked() {
    let schema = parse(
        r##"{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},
            "spec":{"type":"object","properties":{"size":{"type":"integer"},"any":{"x-kubernetes-int-or-string":true}}}}}"##,
    );
    let kind = CheckedKind {
        group: "example.com".into(),
        version: "v1".into(),
        kind: "Widget".into(),
        schema: declared::custom(&schema),
    };
    let spec = |text: &str| parse(&format!(r#"{{"validations":[{{"expression":"{text}"}}]}}"#));
    let kinds = [kind];
    assert_eq!(check(&spec("object.spec.size > 1 && object.metadata.labels.a == 'b'"), &kinds, None), []);
    assert_eq!(check(&spec("object.spec.any == 1"), &kinds, None), []);
    assert_eq!(check(&spec("object.spec.other == 1"), &kinds, None).len(), 1);
}
