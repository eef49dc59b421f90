//! Custom resources and the rest of the cluster: quota, garbage collection, namespaces, autoscaling, budgets, roles.

use corten_e2e::{eventually, pod};
use corten_testkit::{Request, Server};
use serde_json::{Value, json};

use crate::{WIDGETS, any, definition, install, widget};

/// A server with controllers and widgets that have a scale.
fn started() -> Server {
    let server = Server::start_with(&["--disable=agent,dns,scheduler"]);
    let mut definition = definition(&json!({"spec": any(), "status": any()}));
    definition["spec"]["versions"][0]["subresources"] = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    });
    install(server.client(), &definition);
    server
}

#[test]
fn quotas_count_custom_objects() {
    let server = started();
    let client = server.client();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/widgets.example.com": "1"}},
    });
    client.post(quotas, &quota).expect(201);
    let used = || {
        client.get(format!("{quotas}/q")).expect(200)["status"]["used"]["count/widgets.example.com"].clone()
    };
    eventually("the quota is calculated", || used() == "0");
    client.post(WIDGETS, &widget("a", &json!({}))).expect(201);
    assert_eq!(used(), "1");
    let message = client.post(WIDGETS, &widget("b", &json!({}))).expect_failure(403, "Forbidden");
    assert!(message.contains("exceeded quota: q, requested: count/widgets.example.com=1"), "{message}");
    client.delete(format!("{WIDGETS}/a")).expect(200);
    eventually("the quota is released", || used() == "0");
}

#[test]
fn dependents_of_custom_objects_are_collected() {
    let server = started();
    let client = server.client();
    let owner = client.post(WIDGETS, &widget("owner", &json!({}))).expect(201);
    let reference = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]);
    let mut dependent = widget("dependent", &json!({}));
    dependent["metadata"]["ownerReferences"] = reference.clone();
    client.post(WIDGETS, &dependent).expect(201);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "ownerReferences": reference}});
    client.post(maps, &map).expect(201);
    client.delete(format!("{WIDGETS}/owner?propagationPolicy=Foreground")).expect(200);
    for path in [format!("{WIDGETS}/owner"), format!("{WIDGETS}/dependent"), format!("{maps}/m")] {
        eventually("the owner and its dependents are deleted", || client.get(&path).status == 404);
    }
}

#[test]
fn a_deleted_namespace_takes_custom_objects_along() {
    let server = started();
    let client = server.client();
    client
        .post(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
        )
        .expect(201);
    let widgets = "/apis/example.com/v1/namespaces/n/widgets";
    client.post(widgets, &widget("w", &json!({}))).expect(201);
    client.delete("/api/v1/namespaces/n").expect(200);
    client.post(widgets, &widget("late", &json!({}))).expect_failure(403, "Forbidden");
    eventually("the namespace is deleted", || client.get("/api/v1/namespaces/n").status == 404);
    assert_eq!(client.get(widgets).expect(200)["items"], json!([]));
    client
        .post("/apis/example.com/v1/namespaces/nowhere/widgets", &widget("w", &json!({})))
        .expect_failure(404, "NotFound");
}

#[test]
fn autoscalers_scale_custom_objects() {
    let server = started();
    let client = server.client();
    client.post(WIDGETS, &widget("w", &json!({"replicas": 1}))).expect(201);
    client
        .patch(
            format!("{WIDGETS}/w/status"),
            "merge",
            &json!({"status": {"replicas": 1, "selector": "app=w"}}),
        )
        .expect(200);
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "w"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"},
            "minReplicas": 3, "maxReplicas": 5,
        },
    });
    client.post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", &autoscaler).expect(201);
    eventually("the widget has the least replicas", || {
        client.get(format!("{WIDGETS}/w")).expect(200)["spec"]["replicas"] == 3
    });
}

#[test]
fn disruption_budgets_expect_the_scale_of_custom_objects() {
    let server = started();
    let client = server.client();
    let owner = client.post(WIDGETS, &widget("w", &json!({"replicas": 4}))).expect(201);
    let mut member: Value = pod("w-0");
    member["metadata"]["labels"] = json!({"app": "w"});
    member["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": owner["metadata"]["uid"], "controller": true,
    }]);
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default";
    eventually("the namespace has its service account", || client.get(accounts).status == 200);
    client.post("/api/v1/namespaces/default/pods", &member).expect(201);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "w"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "w"}}},
    });
    client.post(budgets, &budget).expect(201);
    eventually("the budget expects four pods", || {
        let status = &client.get(format!("{budgets}/w")).expect(200)["status"];
        status["expectedPods"] == 4 && status["desiredHealthy"] == 3
    });
}

#[test]
fn aggregated_roles_grant_custom_resources() {
    let server = started();
    let client = server.client();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
    });
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).expect(201);
    let list = Request::new("GET", WIDGETS).header("impersonate-user", "jane");
    let message = client.send(&list).expect_failure(403, "Forbidden");
    assert!(message.contains(r#"cannot list resource "widgets" in API group "example.com""#), "{message}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "widgets-view", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}],
    });
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).expect(201);
    eventually("the role is aggregated", || client.send(&list).status == 200);
    let create =
        Request::new("POST", WIDGETS).header("impersonate-user", "jane").json(&widget("w", &json!({})));
    client.send(&create).expect_failure(403, "Forbidden");
}
