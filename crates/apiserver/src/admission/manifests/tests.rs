use super::*;

const KINDS: &[&str] = &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];

const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
"#;

const BINDING: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b.static.k8s.io}
spec: {policyName: p.static.k8s.io, validationActions: [Deny]}
"#;

#[track_caller]
fn check(text: &str, expected: Result<(usize, usize), &str>) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.yaml"), text).unwrap();
    fs::write(directory.path().join("ignored.txt"), "not a manifest").unwrap();
    match (load(directory.path(), KINDS), expected) {
        (Ok(found), expected) => {
            assert_eq!(Ok((found.of(KINDS[0]).len(), found.of(KINDS[1]).len())), expected);
        }
        (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
        (Err(why), Ok(_)) => panic!("{why}"),
    }
}

#[test]
fn manifests_are_loaded_or_refused() {
    check("", Ok((0, 0)));
    check(&format!("{POLICY}---\n{BINDING}---\n"), Ok((1, 1)));
    check(
        BINDING,
        Err("references policy \"p.static.k8s.io\" which does not exist in the manifest directory"),
    );
    check(&format!("{POLICY}---\n{POLICY}"), Err("duplicate name \"p.static.k8s.io\""));
    check(&POLICY.replace("p.static.k8s.io", "p"), Err("must have a name ending with \".static.k8s.io\""));
    check(&POLICY.replace("\"true\"", "\"1\""), Err("must evaluate to bool but got int"));
    check(
        &POLICY.replace("spec:", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}"),
        Err("spec.paramKind is not supported"),
    );
    check(&POLICY.replace("spec:", "wrong: 1\nspec:"), Err("unknown field \"wrong\""));
    check("apiVersion: v1\nkind: Pod\nmetadata: {name: p.static.k8s.io}", Err("unsupported resource type"));
    let list = format!("apiVersion: v1\nkind: List\nitems:\n- {}", POLICY.trim().replace('\n', "\n  "));
    check(&list, Ok((1, 0)));
}
