//! The reviews that webhooks get, and the responses that clients get.

use corten_testkit::{Reply, Request, Server, Webhook};
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, MUTATING, VALIDATING, allow, config_map, configure, deny, hook, respond};

#[test]
fn a_review_describes_the_request_its_objects_and_its_options() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(allow(review)));
    let rules = json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &rules)]);

    client
        .post(format!("{CONFIG_MAPS}?fieldManager=me&fieldValidation=Strict"), &config_map("c"))
        .expect(201);
    let create = webhook.requests()[0].clone();
    assert_eq!(
        (&create["kind"], &create["apiVersion"]),
        (&json!("AdmissionReview"), &json!("admission.k8s.io/v1"))
    );
    let request = &create["request"];
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
    assert_eq!((&request["resource"], &request["requestResource"]), (&resource, &resource));
    assert_eq!(
        (&request["name"], &request["namespace"], &request["operation"], &request["dryRun"]),
        (&json!("c"), &json!("default"), &json!("CREATE"), &json!(false))
    );
    assert!(request["uid"].as_str().is_some_and(|uid| uid.len() == 36), "{request}");
    assert!(
        request["userInfo"]["groups"]
            .as_array()
            .is_some_and(|groups| groups.contains(&json!("system:masters")))
    );
    assert_eq!(
        (&request["object"]["kind"], &request["object"]["data"]),
        (&json!("ConfigMap"), &json!({"a": "1"}))
    );
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(
        request["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "fieldValidation": "Strict"})
    );

    let merge = "merge";
    client.patch(format!("{CONFIG_MAPS}/c"), merge, &json!({"data": {"a": "2"}})).expect(200);
    let update = webhook.requests()[1]["request"].clone();
    assert_eq!(
        (&update["operation"], &update["options"]["kind"]),
        (&json!("UPDATE"), &json!("UpdateOptions"))
    );
    assert_eq!(
        (&update["oldObject"]["data"]["a"], &update["object"]["data"]["a"]),
        (&json!("1"), &json!("2"))
    );

    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    client.send(&Request::new("DELETE", format!("{CONFIG_MAPS}/c")).json(&body)).expect(200);
    let delete = webhook.requests()[2]["request"].clone();
    assert_eq!(
        (&delete["operation"], &delete["name"], &delete["object"]),
        (&json!("DELETE"), &json!("c"), &Value::Null)
    );
    assert_eq!(delete["oldObject"]["data"]["a"], "2");
    assert_eq!(
        delete["options"],
        json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"})
    );
}

#[test]
fn deleting_a_collection_reviews_each_object_without_a_name() {
    let server = Server::start();
    let client = server.client();
    for name in ["a", "b"] {
        client.post(CONFIG_MAPS, &config_map(name)).expect(201);
    }
    let webhook =
        Webhook::start(|review| match review["request"]["oldObject"]["metadata"]["name"].as_str() {
            Some("b") => Reply::Json(deny(review, &json!({"message": "b stays"}))),
            _ => Reply::Json(allow(review)),
        });
    let rules = json!({"rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &rules)]);
    let refused = client.delete(format!("{CONFIG_MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt"));
    assert!(refused.expect_failure(400, "").contains("denied the request: b stays"));
    assert!(webhook.requests().iter().all(|review| review["request"]["name"].is_null()));
    client.get(format!("{CONFIG_MAPS}/a")).expect_failure(404, "NotFound");
    client.get(format!("{CONFIG_MAPS}/b")).expect(200);
}

#[test]
fn a_denial_has_the_webhooks_code_reason_and_message_and_warnings_are_sent_with_it() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| {
        let status = json!({"code": 409, "reason": "Because of rules", "message": "not today"});
        let fields = json!({"allowed": false, "status": status, "warnings": ["first", "second"]});
        Reply::Json(respond(review, &fields))
    });
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &json!({}))]);
    let refused = client.post(CONFIG_MAPS, &config_map("c"));
    let message = refused.expect_failure(409, "Because of rules");
    assert_eq!(message, "admission webhook \"v.example.com\" denied the request: not today");
    assert!(refused.header("warning").contains("first"), "{}", refused.header("warning"));
    client.get(format!("{CONFIG_MAPS}/c")).expect_failure(404, "NotFound");
}

#[test]
fn dry_runs_reach_only_webhooks_without_side_effects() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(allow(review)));
    let quiet = hook("quiet.example.com", &webhook, &json!({"sideEffects": "NoneOnDryRun"}));
    configure(client, VALIDATING, "a", &[quiet]);
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    client.post(&dry, &config_map("c")).expect(201);
    assert_eq!(webhook.requests()[0]["request"]["dryRun"], true);
    assert_eq!(webhook.requests()[0]["request"]["options"]["dryRun"], json!(["All"]));
    // Stored objects of older versions may have side effects; new ones must say that they have none.
    let loud = hook("loud.example.com", &webhook, &json!({"sideEffects": "Some"}));
    let refused = client.post(
        VALIDATING,
        &json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "b"}, "webhooks": [loud],
        }),
    );
    refused.expect_failure(422, "Invalid");
}

#[test]
fn connections_are_reviewed_with_their_options() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(deny(review, &json!({"message": "no shells"}))));
    let rules = json!({"rules": [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec", "services/proxy"]}]});
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &rules)]);
    let exec = "/api/v1/namespaces/default/pods/p/exec?command=ls&command=-l&stdout=true&container=c";
    let refused = client.send(&Request::new("POST", exec));
    assert!(refused.expect_failure(400, "").ends_with("denied the request: no shells"));
    let request = webhook.requests()[0]["request"].clone();
    assert_eq!((&request["operation"], &request["subResource"]), (&json!("CONNECT"), &json!("exec")));
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "PodExecOptions"}));
    assert_eq!(
        request["object"],
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": ["ls", "-l"], "stdout": true, "container": "c"})
    );
    assert_eq!(request["options"], Value::Null);
    client.get("/api/v1/namespaces/default/services/s/proxy/a/b").expect_failure(400, "");
    assert_eq!(webhook.requests()[1]["request"]["object"]["path"], "/a/b");
}

#[test]
fn webhooks_are_called_for_subresources_with_the_subresources_kind() {
    let server = Server::start();
    let client = server.client();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    client.post(deployments, &deployment).expect(201);
    let webhook = Webhook::start(|review| {
        let replicas = review["request"]["object"]["spec"]["replicas"].as_i64().unwrap_or(0);
        match replicas > 5 {
            true => {
                Reply::Json(deny(review, &json!({"code": 403, "reason": "Forbidden", "message": "too many"})))
            }
            false => Reply::Json(allow(review)),
        }
    });
    let rules = json!({"rules": [{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}]});
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &rules)]);
    let merge = "merge";
    let scale = |replicas: i64| {
        client.patch(format!("{deployments}/d/scale"), merge, &json!({"spec": {"replicas": replicas}}))
    };
    scale(2).expect(200);
    scale(6).expect_failure(403, "Forbidden");
    let request = webhook.requests()[0]["request"].clone();
    assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(request["resource"], json!({"group": "apps", "version": "v1", "resource": "deployments"}));
    assert_eq!((&request["subResource"], &request["object"]["kind"]), (&json!("scale"), &json!("Scale")));
}

#[test]
fn a_binding_is_reviewed_as_the_resource_of_its_request() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(deny(review, &json!({"message": "not there"}))));
    let rules = json!({"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["bindings", "pods/binding"]}]});
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &rules)]);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
    });
    for (path, resource, subresource) in
        [("bindings", "bindings", Value::Null), ("pods/p/binding", "pods", json!("binding"))]
    {
        let refused = client.post(format!("/api/v1/namespaces/default/{path}"), &binding);
        assert!(refused.expect_failure(400, "").ends_with("denied the request: not there"), "{path}");
        let requests = webhook.requests();
        let request = &requests[requests.len() - 1]["request"];
        assert_eq!(
            request["resource"],
            json!({"group": "", "version": "v1", "resource": resource}),
            "{path}"
        );
        assert_eq!((&request["subResource"], &request["name"]), (&subresource, &json!("p")), "{path}");
        assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "Binding"}), "{path}");
    }
    assert_eq!(webhook.count(), 2);
}

#[test]
fn configurations_of_webhooks_and_reviews_of_access_are_never_sent_to_webhooks() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(deny(review, &json!({"message": "never"}))));
    let rules = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]});
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &rules)]);
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &rules)]);
    client.post(CONFIG_MAPS, &config_map("c")).expect_failure(400, "");
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).expect(201);
    client.delete(format!("{MUTATING}/m")).expect(200);
    client.delete(format!("{VALIDATING}/v")).expect(200);
    client.post(CONFIG_MAPS, &config_map("c")).expect(201);
}

#[test]
fn calls_are_counted() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(deny(review, &json!({"code": 403, "message": "no"}))));
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &json!({}))]);
    client.post(CONFIG_MAPS, &config_map("c")).expect_failure(403, "");
    let metrics = client.get("/metrics").text();
    for line in [
        r#"apiserver_admission_webhook_request_total{code="403",name="v.example.com",operation="CREATE",rejected="true",type="validating"} 1"#,
        r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="v.example.com",operation="CREATE",rejection_code="403",type="validating"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} is missing");
    }
}

#[test]
fn a_service_is_reached_through_its_endpoints() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start_for(("default", "hooks"), |review| {
        Reply::Json(deny(review, &json!({"message": "by the service"})))
    });
    let (config, (service, slice)) = webhook.service_config("default", "hooks", "/admit");
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &json!({"clientConfig": config}))]);
    let refused = || client.post(CONFIG_MAPS, &config_map("c")).expect_failure(500, "InternalError");
    let message = refused();
    assert!(message.contains("service \"hooks\" not found"), "{message}");
    client.post("/api/v1/namespaces/default/services", &service).expect(201);
    let message = refused();
    assert!(message.contains("no endpoints available for service \"hooks\""), "{message}");
    client.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).expect(201);
    for _ in 0..3 {
        let message = client.post(CONFIG_MAPS, &config_map("c")).expect_failure(400, "");
        assert!(message.ends_with("denied the request: by the service"), "{message}");
    }
    assert_eq!(webhook.count(), 3);
}

#[test]
fn webhooks_see_bindings_but_no_access_reviews() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(deny(review, &json!({"message": "no", "code": 403}))));
    let rule = |groups: Value, resources: Value| json!({"rules": [{"operations": ["CREATE"], "apiGroups": groups, "apiVersions": ["v1"], "resources": resources}]});
    let reviews = rule(json!(["authorization.k8s.io", "authentication.k8s.io"]), json!(["*"]));
    let bindings = rule(json!([""]), json!(["bindings"]));
    let hooks = [hook("r.example.com", &webhook, &reviews), hook("b.example.com", &webhook, &bindings)];
    configure(client, VALIDATING, "v", &hooks);
    configure(client, MUTATING, "m", &hooks[..1]);
    let (authorization, authentication) = ("authorization.k8s.io/v1", "authentication.k8s.io/v1");
    let own = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
    let rules = json!({"namespace": "default"});
    for (path, api_version, kind, spec) in [
        ("selfsubjectaccessreviews", authorization, "SelfSubjectAccessReview", own),
        ("selfsubjectrulesreviews", authorization, "SelfSubjectRulesReview", rules),
        ("tokenreviews", authentication, "TokenReview", json!({"token": "x"})),
        ("selfsubjectreviews", authentication, "SelfSubjectReview", json!({})),
    ] {
        let review = json!({"apiVersion": api_version, "kind": kind, "spec": spec});
        client.post(format!("/apis/{api_version}/{path}"), &review).expect(201);
    }
    assert_eq!(webhook.count(), 0);

    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}});
    let namespace = "/api/v1/namespaces/default";
    let message = client.post(format!("{namespace}/bindings"), &binding).expect_failure(403, "");
    assert_eq!(message, "admission webhook \"b.example.com\" denied the request: no");
    let request = webhook.requests()[0]["request"].clone();
    assert_eq!(
        (&request["resource"]["resource"], &request["subResource"], &request["name"]),
        (&json!("bindings"), &Value::Null, &json!("p"))
    );
    // The subresource is another resource.
    client.post(format!("{namespace}/pods/p/binding"), &binding).expect_failure(404, "NotFound");
}
