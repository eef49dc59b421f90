//! Validating policies: verdicts, messages, actions, conditions, variables, and what they do not apply to.

use corten_testkit::Server;
use serde_json::json;

use crate::{CONFIG_MAPS, GROUP, binding, config_map, create, install, policy, validations};

#[test]
fn requests_are_denied_with_upstreams_messages() {
    let server = Server::start();
    let client = server.client();
    install(client, "short", &validations("object.metadata.name.size() < 4"), &json!({}));
    create(client, "abc", &json!({})).expect(201);
    let refused = create(client, "abcd", &json!({}));
    let message = refused.expect_failure(422, "Invalid");
    let why = "ValidatingAdmissionPolicy 'short' with binding 'short' denied request: failed expression: object.metadata.name.size() < 4";
    assert_eq!(message, format!("configmaps \"abcd\" is forbidden: {why}"));
    assert_eq!(refused.json()["details"]["causes"][0]["message"], why);

    // Updates are validated too, deletions are not.
    let mut changed = config_map("abc", &json!({"a": "b"}));
    client.put(format!("{CONFIG_MAPS}/abc"), &changed).expect(200);
    client.delete(format!("{GROUP}/validatingadmissionpolicybindings/short")).expect(200);
    create(client, "abcd", &json!({})).expect(201);
    client
        .post(format!("{GROUP}/validatingadmissionpolicybindings"), &binding("short", "short", &json!({})))
        .expect(201);
    changed["metadata"]["name"] = json!("abcd");
    client.put(format!("{CONFIG_MAPS}/abcd"), &changed).expect_failure(422, "Invalid");
    client.delete(format!("{CONFIG_MAPS}/abcd")).expect(200);
}

#[test]
fn messages_reasons_and_variables() {
    let server = Server::start();
    let client = server.client();
    let spec = json!({
        "variables": [
            {"name": "size", "expression": "has(object.data) ? object.data.size() : 0"},
            {"name": "most", "expression": "variables.size + 1"},
        ],
        "validations": [
            {"expression": "variables.size < 2", "reason": "RequestEntityTooLarge",
             "messageExpression": "'too many: ' + string(variables.size)", "message": "unused"},
            {"expression": "variables.most < 4", "reason": "Forbidden", "message": " second "},
        ],
    });
    install(client, "sizes", &spec, &json!({}));
    create(client, "one", &json!({"a": "1"})).expect(201);
    let message =
        create(client, "two", &json!({"a": "1", "b": "2"})).expect_failure(413, "RequestEntityTooLarge");
    assert!(message.ends_with("denied request: too many: 2"), "{message}");
}

#[test]
fn actions_warn_and_audit_without_a_denial() {
    let server = Server::start();
    let client = server.client();
    let bound = json!({"validationActions": ["Warn", "Audit"]});
    install(client, "warned", &validations("false"), &bound);
    let accepted = create(client, "a", &json!({}));
    accepted.expect(201);
    let warning = accepted.header("warning");
    let expected = "Validation failed for ValidatingAdmissionPolicy 'warned' with binding 'warned': failed expression: false";
    assert!(warning.contains(expected), "{warning}");
}

#[test]
fn failures_follow_the_failure_policy() {
    let server = Server::start();
    let client = server.client();
    let spec = |policy: &str| json!({"failurePolicy": policy, "validations": [{"expression": "object.missing == 1"}]});
    install(client, "ignored", &spec("Ignore"), &json!({}));
    create(client, "a", &json!({})).expect(201);
    install(client, "fails", &spec("Fail"), &json!({}));
    let message = create(client, "b", &json!({})).expect_failure(422, "Invalid");
    assert!(
        message.ends_with(
            "denied request: expression 'object.missing == 1' resulted in error: no such key: missing"
        ),
        "{message}"
    );
}

#[test]
fn conditions_selectors_and_exclusions_limit_policies() {
    let server = Server::start();
    let client = server.client();
    let mut spec = validations("false");
    spec["matchConditions"] = json!([
        {"name": "not-exempt", "expression": "!object.metadata.name.startsWith('exempt-')"},
        {"name": "user", "expression": "authorizer.group('').resource('configmaps').namespace('default').check('create').allowed()"},
    ]);
    install(
        client,
        "conditions",
        &spec,
        &json!({
            "matchResources": {
                "objectSelector": {"matchLabels": {"checked": "yes"}},
                "excludeResourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "resourceNames": ["excluded"]}],
            },
        }),
    );
    let labelled = |name: &str| {
        let mut object = config_map(name, &json!({}));
        object["metadata"]["labels"] = json!({"checked": "yes"});
        object
    };
    create(client, "unlabelled", &json!({})).expect(201);
    client.post(CONFIG_MAPS, &labelled("exempt-a")).expect(201);
    client.post(CONFIG_MAPS, &labelled("excluded")).expect(201);
    client.post(CONFIG_MAPS, &labelled("refused")).expect_failure(422, "Invalid");
    client
        .post(
            "/api/v1/namespaces/default/secrets",
            &json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {"checked": "yes"}},
            }),
        )
        .expect(201);
}

#[test]
fn request_and_namespace_are_known() {
    let server = Server::start();
    let client = server.client();
    let expression = "request.operation == 'CREATE' && request.namespace == 'default' && request.resource.resource == 'configmaps' \
        && request.userInfo.groups.exists(g, g == 'system:masters') && !request.dryRun && request.kind.kind == 'ConfigMap' \
        && namespaceObject.metadata.name == 'default' && oldObject == null && !has(request.object)";
    let expression = expression.replace(" && !has(request.object)", "");
    install(client, "known", &validations(&expression), &json!({}));
    create(client, "a", &json!({})).expect(201);
    client
        .put(format!("{CONFIG_MAPS}/a"), &config_map("a", &json!({"a": "b"})))
        .expect_failure(422, "Invalid");
}

#[test]
fn policies_cannot_lock_themselves_in() {
    let server = Server::start();
    let client = server.client();
    let spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]},
        ]},
        "validations": [{"expression": "false"}],
    });
    install(client, "all", &spec, &json!({}));
    create(client, "a", &json!({})).expect_failure(422, "Invalid");
    let hook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}});
    client.post(format!("{GROUP}/validatingwebhookconfigurations"), &hook).expect_failure(422, "Invalid");
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).expect(201);
    client
        .post(format!("{GROUP}/validatingadmissionpolicies"), &policy("other", &validations("true")))
        .expect(201);
    client.delete(format!("{GROUP}/validatingadmissionpolicies/all")).expect(200);
    create(client, "a", &json!({})).expect(201);
}

#[test]
fn expressions_are_checked_when_they_are_written() {
    let server = Server::start();
    let client = server.client();
    let post = |spec: &serde_json::Value| {
        client
            .post(format!("{GROUP}/validatingadmissionpolicies"), &policy("p", spec))
            .expect_failure(422, "Invalid")
    };
    let message = post(&validations("object.a +"));
    assert!(message.contains("spec.validations[0].expression: Invalid value: \"object.a +\": compilation failed: ERROR: <input>:1:11: Syntax error"), "{message}");
    let message = post(&validations("1"));
    assert!(
        message.contains(
            "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int"
        ),
        "{message}"
    );
    let message = post(&validations("params.a == 1"));
    assert!(message.contains("undeclared reference to 'params'"), "{message}");
    let message = post(
        &json!({"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}],
        "validations": [{"expression": "true"}]}),
    );
    assert!(
        message.contains("spec.variables[0].expression") && message.contains("undefined field 'b'"),
        "{message}"
    );
    let message = post(&json!({"validations": [{"expression": "true", "messageExpression": "authorizer"}]}));
    assert!(message.contains("undeclared reference to 'authorizer'"), "{message}");
}
