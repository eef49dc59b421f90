//! Policies that are made to cost much.

use corten_testkit::Server;
use serde_json::json;

use crate::{GROUP, create, install, policy, validations};

#[test]
fn expensive_expressions_end() {
    let server = Server::start();
    let client = server.client();
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = format!(
        "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, {list}.all(f, true))))))"
    );
    install(client, "nested", &validations(&nested), &json!({}));
    let message = create(client, "a", &json!({})).expect_failure(422, "Invalid");
    assert!(
        message.ends_with("resulted in error: operation cancelled: actual cost limit exceeded"),
        "{message}"
    );
    client.delete(format!("{GROUP}/validatingadmissionpolicies/nested")).expect(200);
    create(client, "a", &json!({})).expect(201);
}

#[test]
fn huge_policies_are_refused_or_bounded() {
    let server = Server::start();
    let client = server.client();
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let long = format!("'{}' == ''", "a".repeat(200_000));
    client.post(path.clone(), &policy("long", &validations(&long))).expect_failure(422, "Invalid");
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    client.post(path.clone(), &policy("deep", &validations(&deep))).expect_failure(422, "Invalid");
    let variables: Vec<_> = (0..2000)
        .map(|at| match at {
            0 => json!({"name": "v0", "expression": "1"}),
            _ => json!({"name": format!("v{at}"), "expression": format!("variables.v{} + 1", at - 1)}),
        })
        .collect();
    let spec = json!({"variables": variables, "validations": [{"expression": "variables.v1999 == 2000"}]});
    install(client, "chain", &spec, &json!({}));
    let message = create(client, "a", &json!({})).expect_failure(422, "Invalid");
    assert!(message.contains("fails to evaluate"), "{message}");
}

#[test]
fn many_policies_that_do_not_match_change_nothing() {
    let server = Server::start();
    let client = server.client();
    for at in 0..200 {
        let mut spec = validations("false");
        spec["matchConstraints"] = json!({"resourceRules": [
            {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [format!("kind{at}")]},
        ]});
        install(client, &format!("p{at}"), &spec, &json!({}));
    }
    create(client, "a", &json!({})).expect(201);
}

#[test]
fn expressions_whose_types_or_values_grow_without_end_are_refused() {
    let server = Server::start();
    let client = server.client();
    let path = format!("{GROUP}/validatingadmissionpolicies");
    let types = format!("size([1]{}) == 1", ".map(x, {x: x})".repeat(60));
    let message =
        client.post(path.clone(), &policy("types", &validations(&types))).expect_failure(422, "Invalid");
    assert!(message.contains("the type of the expression is too large"), "{message}");
    // Each variable contains the one before it twice.
    let mut variables = vec![json!({"name": "v0", "expression": "[1]"})];
    for at in 1..40 {
        let before = at - 1;
        let expression = format!("[dyn(variables.v{before}), dyn(variables.v{before})]");
        variables.push(json!({"name": format!("v{at}"), "expression": expression}));
    }
    let spec =
        json!({"variables": variables, "validations": [{"expression": "variables.v39 == variables.v39"}]});
    install(client, "values", &spec, &json!({}));
    let message = create(client, "a", &json!({})).expect_failure(422, "Invalid");
    assert!(message.contains("operation cancelled: actual cost limit exceeded"), "{message}");
    client.delete(format!("{path}/values")).expect(200);
    create(client, "a", &json!({})).expect(201);
}
